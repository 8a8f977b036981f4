// Package placename says what the name of a place tells: whose kind it is, its number, its uuid.
package placename

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// Kind is the part of a place's name before the number.
type Kind string

const (
	KindLock        Kind = "lock-"     // this library's, Curator's and go-zookeeper's mutex
	KindWrite       Kind = "__WRIT__"  // this library's and Curator's writer
	KindRead        Kind = "__READ__"  // this library's and Curator's reader
	kindKazooLock   Kind = "__lock__"  // kazoo's mutex and writer
	kindKazooReader Kind = "__rlock__" // kazoo's reader
	KindLatch       Kind = "latch-"    // Curator's LeaderLatch, which stands in no line of ours
)

// IsRWLockKind reports whether k is a kind of an RWLock's places. They are foreign
// where everyone blocks. kazoo's kinds are foreign nowhere: its mutex and its writer
// have the same one.
func IsRWLockKind(k Kind) bool { return k == KindRead || k == KindWrite }

// IsMutexKind reports whether k is the kind of a Mutex's places, which are foreign in
// the line of an RWLock.
func IsMutexKind(k Kind) bool { return k == KindLock }

// Exclusive reports whether a place of this kind holds alone.
func (k Kind) Exclusive() bool {
	return k == KindLock || k == KindWrite || k == kindKazooLock
}

// Shared reports whether a place of this kind holds together with others of it.
func (k Kind) Shared() bool { return k == KindRead || k == kindKazooReader }

// LockKinds are the kinds of places in a lock's line, and one that must not stand in any.
// Other children are not places.
var LockKinds = []Kind{KindLock, KindWrite, KindRead, kindKazooReader, kindKazooLock, KindLatch}

// Parts is what the name of a place in a listing says.
type Parts struct {
	Name   string
	Kind   Kind
	Number int32
	UUID   string // if "_c_<uuid>-" is before the kind, else empty
}

// Parse parses the name of a child. It returns false if the child is not a
// place of one of these kinds.
func Parse(name string, kinds []Kind) (Parts, bool) {
	// ZooKeeper formats the number with %010d, the sign included.
	for _, digits := range []int{10, 11} {
		i := len(name) - digits
		if i <= 0 {
			break
		}
		for _, k := range kinds {
			if !strings.HasSuffix(name[:i], string(k)) {
				continue
			}
			n, err := strconv.ParseInt(name[i:], 10, 32)
			if err != nil || name[i] == '+' {
				break
			}
			m := Parts{Name: name, Kind: k, Number: int32(n)}
			if rest, ok := strings.CutPrefix(name[:i-len(k)], "_c_"); ok && len(rest) == 37 && rest[36] == '-' {
				m.UUID = rest[:36]
			}
			return m, true
		}
	}
	return Parts{}, false
}

// ParseAll returns the places among children.
func ParseAll(children []string, kinds []Kind) []Parts {
	ms := make([]Parts, 0, len(children))
	for _, name := range children {
		if m, ok := Parse(name, kinds); ok {
			ms = append(ms, m)
		}
	}
	return ms
}

// Compare compares by the order of the line: by number, and by name if two places
// have the same number.
func (m Parts) Compare(other Parts) int {
	if m.Number != other.Number {
		return cmp.Compare(m.Number, other.Number)
	}
	return strings.Compare(m.Name, other.Name)
}

// SharesWith reports whether both places belong to one holder: Curator's writers
// read with a second place, which has the number of the first.
func (m Parts) SharesWith(other Parts) bool {
	return m.Number == other.Number && m.Kind.Exclusive() != other.Kind.Exclusive()
}

// Ours reports whether the place is one of this library's. The uuid is of version 8 then, and
// Curator's is of version 4.
func (m Parts) Ours() bool { return len(m.UUID) == 36 && m.UUID[14] == '8' }

// NewUUID returns a random uuid of version 8 (RFC 9562), in the form that Curator writes.
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	s := make([]byte, 0, 36)
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			s = append(s, '-')
		}
		s = hex.AppendEncode(s, part)
	}
	return string(s)
}

// IsUUID reports whether name is a uuid in the form that Curator writes.
func IsUUID(name string) bool {
	for i, r := range name {
		switch i {
		case 8, 13, 18, 23:
			if r != '-' {
				return false
			}
		default:
			if !strings.ContainsRune("0123456789abcdef", r) {
				return false
			}
		}
	}
	return len(name) == 36
}

// NoUUID has the length of a uuid.
var NoUUID = strings.Repeat("0", 36)
