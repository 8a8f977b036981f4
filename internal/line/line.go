package line

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Line is a container znode in which places stand in order. The recipe says which
// places block which. Everything else is the same for all recipes.
type Line struct {
	session.At
	// AlsoAccepts is a second recipe whose marker this line accepts (Mutex and RWLock), or empty. See
	// Foreign for places of both in one line.
	AlsoAccepts string
	Kinds       []layout.Kind // of its places; other children are not places
	// Blocks reports whether a place of kind own has to wait for one of kind other
	// that is ahead of it. It waits for the nearest of those. nil: no place waits for another.
	Blocks func(own, other layout.Kind) bool
	// Foreign reports whether a kind must not stand in this line, because its recipe
	// takes turns by other rules. It must be set if places wait in the line.
	Foreign func(layout.Kind) bool
	// ExtraChild is the name of a child that is no place and belongs to the recipe; empty: none.
	ExtraChild string
	// RejoinsIfDeleted: if somebody deletes the whole line, its waiters join again.
	RejoinsIfDeleted bool
	// Delay is how long the next grant is held back after a holder that went without a release, see
	// delay.go. 0: not at all.
	Delay time.Duration
	// NamePlace returns the uuid of a new place with what its name is to tell the others; nil: nothing.
	NamePlace func(s *session.Session, uuid string) string
}

// Rules for Line.Blocks. Those for Line.Foreign are in package layout.

// EveryoneBlocks is the rule where only the first may act, as in the line of a Mutex:
// each place waits for the one ahead of it.
func EveryoneBlocks(_, _ layout.Kind) bool { return true }

// WritersBlock is the rule of an RWLock: readers share; a writer blocks, and is
// blocked by, everybody. It is enough to wait for the nearest place that blocks: if it is a writer
// that releases, it was the first in the line, so nobody else is ahead. In every other case the
// waiter lists the line again.
func WritersBlock(own, other layout.Kind) bool { return own.Exclusive() || other.Exclusive() }

// CheckData returns ErrPathInUse if the data of the znode say that another recipe uses the
// path, or a version of this library with another layout. Any other data are somebody's
// own, or a marker that this recipe accepts.
func (l *Line) CheckData(data []byte) error {
	m, ours := layout.ParseMark(l.Recipe, data)
	switch {
	case ours:
		if !l.accepts(m.Recipe) {
			return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by another recipe: %.40q", data)
		}
	case !layout.IsKnownLayout(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a version with another layout: %.40q", data)
	case layout.IsSize(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path holds the size of a semaphore or barrier: %.40q", data)
	}
	return nil
}
