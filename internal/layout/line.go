// Package layout says what the names and the data of the recipes' znodes mean: the places of a line and
// its marker, and the size of a semaphore or barrier.
package layout

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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

// PlaceName is what the name of a place in a listing says.
type PlaceName struct {
	Name   string
	Kind   Kind
	Number int32
	UUID   string // if "_c_<uuid>-" is before the kind, else empty
}

// ParsePlace parses the name of a child. It returns false if the child is not a
// place of one of these kinds.
func ParsePlace(name string, kinds []Kind) (PlaceName, bool) {
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
			m := PlaceName{Name: name, Kind: k, Number: int32(n)}
			if rest, ok := strings.CutPrefix(name[:i-len(k)], "_c_"); ok && len(rest) == 37 && rest[36] == '-' {
				m.UUID = rest[:36]
			}
			return m, true
		}
	}
	return PlaceName{}, false
}

// ParsePlaces returns the places among children.
func ParsePlaces(children []string, kinds []Kind) []PlaceName {
	ms := make([]PlaceName, 0, len(children))
	for _, name := range children {
		if m, ok := ParsePlace(name, kinds); ok {
			ms = append(ms, m)
		}
	}
	return ms
}

// Compare compares by the order of the line: by number, and by name if two places
// have the same number.
func (m PlaceName) Compare(other PlaceName) int {
	if m.Number != other.Number {
		return cmp.Compare(m.Number, other.Number)
	}
	return strings.Compare(m.Name, other.Name)
}

// SharesWith reports whether both places belong to one holder: Curator's writers
// read with a second place, which has the number of the first.
func (m PlaceName) SharesWith(other PlaceName) bool {
	return m.Number == other.Number && m.Kind.Exclusive() != other.Kind.Exclusive()
}

// Ours reports whether the place is one of this library's. The uuid is of version 8 then, and
// Curator's is of version 4.
func (m PlaceName) Ours() bool { return len(m.UUID) == 36 && m.UUID[14] == '8' }

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

// The marker is the data of a line. Each join writes it: the Stat in the reply says
// in the same round trip whether the new place is alone.
//
//	zkrecipes/1 mutex acl=8c6976e5b5410415 _c_9240e114-11f0-8813-9264-6b34a5d90aed-lock-
const (
	library = "zkrecipes/"
	version = library + "1 "
	queue   = version + "queue" // of a queue's log, too
)

// Record is the marker with the name of the place whose join writes it, up to the
// number. So the next to join knows its predecessor's name, see line.Guess.
func Record(recipe, fingerprint, name string) []byte {
	b := append([]byte(version), recipe...)
	if fingerprint != "" {
		b = append(append(b, ' '), fingerprint...)
	}
	if name != "" {
		b = append(append(b, ' '), name...)
	}
	return b
}

// Marker is what a marker says.
type Marker struct {
	Recipe      string
	Fingerprint string // see line.ACL; empty: none
	Name        string // see Record; empty: none
}

// ParseMark returns what the data of a line say to a recipe with that name. false: they are
// no marker.
func ParseMark(recipe string, data []byte) (m Marker, ok bool) {
	all, ok := strings.CutPrefix(string(data), version)
	if !ok {
		return Marker{}, false
	}
	m.Recipe = recipe // whose name may have a space in it
	rest, ours := strings.CutPrefix(all+" ", m.Recipe+" ")
	if !ours {
		m.Recipe, rest, _ = strings.Cut(all, " ")
	}
	rest = strings.TrimSuffix(rest, " ")
	if strings.HasPrefix(rest, FingerprintPrefix) {
		m.Fingerprint, rest, _ = strings.Cut(rest, " ")
	}
	m.Name = rest
	return m, true
}

// FingerprintPrefix begins a fingerprint.
const FingerprintPrefix = "acl="

// QueueMarker returns the data of the root of a queue's log.
func QueueMarker() []byte { return []byte(queue) }

// IsQueue reports whether data are those of the root of a queue's log.
func IsQueue(data []byte) bool { return bytes.HasPrefix(data, []byte(queue)) }

// IsMark reports whether data are a marker of this library, in whichever layout.
func IsMark(data []byte) bool { return bytes.HasPrefix(data, []byte(library)) }

// CheckQueuePath returns ErrPathInUse if the data of the znode at a queue's path say that
// another recipe uses it.
func CheckQueuePath(data []byte) error {
	if IsMark(data) || IsSize(data) {
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by another recipe: %.40q", data)
	}
	return nil
}

// IsKnownLayout reports whether data do not belong to this library, or have a layout
// that this version knows.
func IsKnownLayout(data []byte) bool {
	return !IsMark(data) || bytes.HasPrefix(data, []byte(version))
}
