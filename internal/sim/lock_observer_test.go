package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// lines is what the server has applied to the lines: who stands there, and whose
// turn it ever was. It is the judge's, and knows nothing of the library's code.
type lineObserver struct {
	forged func(path string) // is told a signal that was nobody's to give

	mu      sync.Mutex
	places  map[string][]linePlace // by line
	existed map[string]bool        // paths of places that were there
	mayHold map[string]bool        // ... and could hold
}

func newLineObserver(signal func(path string)) *lineObserver {
	return &lineObserver{forged: signal, places: map[string][]linePlace{}, existed: map[string]bool{}, mayHold: map[string]bool{}}
}

// standing is a place, of this library or another.
type linePlace struct {
	name   string
	number int64
	reader bool
}

func parsePlace(name string) (s linePlace, ok bool) {
	for _, kind := range []string{"lock-", "__lock__", "__rlock__", "__WRIT__", "__READ__"} {
		if i := strings.LastIndex(name, kind); i >= 0 {
			number, err := strconv.ParseInt(name[i+len(kind):], 10, 64)
			return linePlace{name, number, kind == "__rlock__" || kind == "__READ__"}, err == nil
		}
	}
	return linePlace{}, false
}

// signals tells a place of this library, which nobody else may write to.
func isOwnPlace(name string) bool {
	uuid, ok := strings.CutPrefix(name, "_c_")
	return ok && len(uuid) > 36 && uuid[14] == '8' && uuid[36] == '-'
}

// applied is zktest.OnChange's. A downgrade creates the reader's place before it
// deletes the writer's, so that no change in it gives anybody a turn too early.
func (o *lineObserver) onChange(c zktest.Change) {
	i := strings.LastIndexByte(c.Path, '/')
	line, name := c.Path[:i], c.Path[i+1:]
	s, ok := parsePlace(name)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case c.Created:
		o.existed[c.Path] = true
		o.places[line] = append(o.places[line], s)
	case c.Deleted:
		o.places[line] = slices.DeleteFunc(o.places[line], func(other linePlace) bool { return other == s })
	default:
		if isOwnPlace(name) && (s.reader || !o.mayHold[c.Path]) {
			o.forged(c.Path)
		}
		return
	}
	ss := o.places[line]
	slices.SortFunc(ss, func(a, b linePlace) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	})
	for i, s := range ss {
		if i == 0 || s.reader {
			o.mayHold[line+"/"+s.name] = true
		}
		if !s.reader {
			break
		}
	}
}

// stood reports whether there ever was such a place.
func (o *lineObserver) hasExisted(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.existed[path]
}

// stands reports whether there is.
func (o *lineObserver) exists(path string) bool {
	i := strings.LastIndexByte(path, '/')
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.places[path[:i]], func(s linePlace) bool { return s.name == path[i+1:] })
}
