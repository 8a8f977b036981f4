// Package layout says what the data of the recipes' znodes mean: the marker of a line, and the
// size of a semaphore or barrier.
package layout

import (
	"bytes"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

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
func Record(recipe, seal, name string) []byte {
	b := append([]byte(version), recipe...)
	if seal != "" {
		b = append(append(b, ' '), seal...)
	}
	if name != "" {
		b = append(append(b, ' '), name...)
	}
	return b
}

// Marker is what a marker says.
type Marker struct {
	Recipe string
	Seal   string // see line.ACL; empty: none
	Name   string // see Record; empty: none
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
	if strings.HasPrefix(rest, SealPrefix) {
		m.Seal, rest, _ = strings.Cut(rest, " ")
	}
	m.Name = rest
	return m, true
}

// SealPrefix begins a seal.
const SealPrefix = "acl="

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
