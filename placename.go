package zkrecipes

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// kind is the part of a place's name before the number.
type kind string

const (
	kindLock        kind = "lock-"     // this library's, Curator's and go-zookeeper's mutex
	kindWrite       kind = "__WRIT__"  // this library's and Curator's writer
	kindRead        kind = "__READ__"  // this library's and Curator's reader
	kindKazooLock   kind = "__lock__"  // kazoo's mutex and writer
	kindKazooReader kind = "__rlock__" // kazoo's reader
	kindLatch       kind = "latch-"    // Curator's LeaderLatch, which stands in no line of ours
)

// exclusive reports whether a place of this kind holds alone.
func (k kind) exclusive() bool {
	return k == kindLock || k == kindWrite || k == kindKazooLock
}

// shared reports whether a place of this kind holds together with others of it.
func (k kind) shared() bool { return k == kindRead || k == kindKazooReader }

// lockKinds are the kinds of places in a lock's line, and one that must not stand in any.
// Other children are not places.
var lockKinds = []kind{kindLock, kindWrite, kindRead, kindKazooReader, kindKazooLock, kindLatch}

// placeName is what the name of a place in a listing says.
type placeName struct {
	name   string
	kind   kind
	number int32
	uuid   string // if "_c_<uuid>-" is before the kind, else empty
}

// parsePlaceName parses the name of a child. It returns false if the child is not a
// place of one of these kinds.
func parsePlaceName(name string, kinds []kind) (placeName, bool) {
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
			m := placeName{name: name, kind: k, number: int32(n)}
			if rest, ok := strings.CutPrefix(name[:i-len(k)], "_c_"); ok && len(rest) == 37 && rest[36] == '-' {
				m.uuid = rest[:36]
			}
			return m, true
		}
	}
	return placeName{}, false
}

// placeNames returns the places among children.
func placeNames(children []string, kinds []kind) []placeName {
	ms := make([]placeName, 0, len(children))
	for _, name := range children {
		if m, ok := parsePlaceName(name, kinds); ok {
			ms = append(ms, m)
		}
	}
	return ms
}

// compare compares by the order of the line: by number, and by name if two places
// have the same number.
func (m placeName) compare(other placeName) int {
	if m.number != other.number {
		return cmp.Compare(m.number, other.number)
	}
	return strings.Compare(m.name, other.name)
}

// sharesWith reports whether both places belong to one holder: Curator's writers
// read with a second place, which has the number of the first.
func (m placeName) sharesWith(other placeName) bool {
	return m.number == other.number && m.kind.exclusive() != other.kind.exclusive()
}

// signals reports whether the holder of such a place changes its data when it
// leaves. Holders of this library's exclusive places do, where only the library may write
// to the place. The uuid is of version 8 then, and Curator's is of version 4.
func (m placeName) signals() bool {
	return (m.kind == kindLock || m.kind == kindWrite) && len(m.uuid) == 36 && m.uuid[14] == '8'
}

// ours reports whether the place is one of this library's, exclusive or not, in a line of
// this library's.
func (m placeName) ours() bool { return len(m.uuid) == 36 && m.uuid[14] == '8' }

// newUUID returns a random uuid (RFC 9562), in the form that Curator writes. It is of
// version 8 for a place that only this library may write, see signals, and else of
// version 4, as Curator's.
func newUUID(owned bool) string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	version := byte(0x40)
	if owned {
		version = 0x80
	}
	b[6] = b[6]&0x0f | version
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

// isUUID reports whether name is a uuid in the form that Curator writes.
func isUUID(name string) bool {
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
