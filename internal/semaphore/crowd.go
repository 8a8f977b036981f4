package semaphore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// How slots are taken in a crowd. If many clients take slots at the same time, each over the
// version that it has seen, all but one fail, although enough slots are free for all. So in a
// crowd a caller takes slots over any version, and finds out afterwards whether it may keep
// them. It may keep them if
//
//   - nobody stood in line when the transaction was carried out. The transaction writes the
//     line, so its reply says so. So nobody is overtaken.
//   - no znode that was created earlier stands for one of the slots. The caller lists the
//     slots after its transaction, so it sees all such znodes that still stand. So of
//     several callers that take a slot at most the first one keeps it.
//
// Otherwise it gives them back. Nobody holds a slot that was taken so until both are known.
//
// The other two ways to take slots remain safe. A transaction over a version fails if anybody
// has taken slots since, whether they are kept or not. The first in line lists the slots after
// it has joined: from then on nobody keeps what is taken in a crowd, and what was taken before
// and stands is in the list.
//
// The numbers bound how many slots are held only if none beyond n is, which a smaller n may
// have left over. So there must be none in the caller's view. There is none later, either: the
// transaction checks the version of the path, and with one n nobody takes slots beyond it.

// crowdLasts is for how long a client that has met a crowd expects one.
const CrowdLasts = 10 * time.Second

// anyVersion is the version over which slots are taken in a crowd.
const anyVersion = -1

// allowsCrowd reports whether slots can be taken in a crowd by what was seen. If other
// children than places stand in the line, its Stat does not tell that nobody waits.
func (v *view) allowsCrowd() bool {
	for _, i := range v.taken {
		if int(i) >= v.n {
			return false
		}
	}
	return v.empty
}

// isCrowded reports whether others probably take slots at the same time.
func (x *Semaphore) isCrowded() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Since(x.crowd) < CrowdLasts
}

func (x *Semaphore) NoteCrowd() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.crowd = time.Now()
}

// taking is a taking of slots without a place in line.
type taking struct {
	*slotPlace
	view *view
	// over is the version of the line's data over which they are taken, or anyVersion.
	over int32
}

// confirm returns nil if the caller may keep the slots that were taken. line is the line's
// Stat in the reply. errStale: they must be given back.
func (x *Semaphore) confirm(ctx context.Context, t *taking, line *zk.Stat) error {
	x.Line.NoteRewritten(line)
	t.Czxid = line.Mzxid // of the transaction that created the slots
	v := t.view
	switch {
	case line.Czxid != v.lineCzxid:
		return errStale // the line was deleted and made anew, and perhaps the path, with another n
	case line.Version == v.line+1: // nobody has joined or taken slots since the view
		t.addTo(v.taken)
	case line.NumChildren > 0:
		return errStale // the next look tells whether somebody waits
	default:
		taken, err := x.confirmFirst(ctx, t)
		if err != nil {
			return err
		}
		v.taken = taken
	}
	v.line = line.Version
	x.setKnown(v)
	return nil
}

// confirmFirst lists the slots. It returns errStale if a znode stands for one of t's slots
// that was created before.
func (x *Semaphore) confirmFirst(ctx context.Context, t *taking) (taken map[string]int32, err error) {
	names, _, err := t.Session.Children(ctx, x.slotsPath())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, errSlotsLost
	}
	if err != nil {
		return nil, err
	}
	mine := map[int32]bool{}
	for _, i := range t.numbers {
		mine[i] = true
	}
	taken = SlotsAmong(names)
	for name, i := range taken {
		if !mine[i] || strings.HasSuffix(name, t.UUID) {
			continue
		}
		rival, err := t.Session.Exists(ctx, x.slotsPath()+"/"+name)
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return nil, err
		case rival.Czxid < t.Czxid:
			return nil, errStale
		}
	}
	return taken, nil
}

// confirmLost is confirm for a transaction whose first reply was lost.
func (x *Semaphore) confirmLost(ctx context.Context, t *taking) error {
	if t.over == anyVersion {
		return errStale // it is not known who stood in line then
	}
	_, line, err := t.Session.Get(ctx, x.Line.Abs())
	if err == nil && line.Czxid != t.view.lineCzxid || errors.Is(err, zk.ErrNoNode) {
		return errStale // the line was deleted and made anew; somebody may wait
	}
	return err
}
