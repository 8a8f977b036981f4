package zktest

import (
	"cmp"
	"slices"
	"unicode/utf16"
)

// childSet is the set of a znode's children. It lists them in the order of a real
// server, which keeps them in a java.util.HashSet: the order seems arbitrary, and
// stays the same until the set changes.
type childSet struct {
	byName  map[string]child
	buckets uint32   // of the hash table, a power of two; it only grows
	added   int      // ever
	listing []string // nil if the set has changed since
}

type child struct {
	hash   uint32
	number int // of those ever added
}

// add adds a child that is not in the set.
func (s *childSet) add(name string) {
	if s.byName == nil {
		s.byName, s.buckets = map[string]child{}, 8 // DataNode.addChild
	}
	s.byName[name] = child{javaHash(name), s.added}
	s.added++
	if len(s.byName) > int(s.buckets)*3/4 {
		s.buckets *= 2
	}
	s.listing = nil
}

func (s *childSet) remove(name string) {
	delete(s.byName, name)
	s.listing = nil
}

func (s *childSet) len() int { return len(s.byName) }

// list returns the children in order. The caller must not modify the result.
func (s *childSet) list() []string {
	if s.listing != nil || len(s.byName) == 0 {
		return s.listing
	}
	s.listing = make([]string, 0, len(s.byName))
	for name := range s.byName {
		s.listing = append(s.listing, name)
	}
	slices.SortFunc(s.listing, func(a, b string) int {
		x, y := s.byName[a], s.byName[b]
		return cmp.Or(cmp.Compare(x.hash&(s.buckets-1), y.hash&(s.buckets-1)), cmp.Compare(x.number, y.number))
	})
	return s.listing
}

// javaHash returns the hash of a string that java.util.HashMap uses.
func javaHash(s string) (h uint32) {
	for _, r := range s {
		if r1, r2 := utf16.EncodeRune(r); utf16.RuneLen(r) == 2 {
			h = 31*(31*h+uint32(r1)) + uint32(r2)
		} else {
			h = 31*h + uint32(r)
		}
	}
	return h ^ h>>16
}
