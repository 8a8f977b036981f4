package semaphore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How slots are taken. A caller in line takes them at its turn, in the transaction that
// deletes its place: as long as the place stands, nobody else may take any. A caller that
// finds nobody in line takes them by a transaction over the version of the line's data
// that it has seen. Joins and such callers write the data. So if anybody has joined or
// taken a slot since, the transaction fails.

// view is what was seen of a semaphore while nobody waited. As long as the line's data have
// this version, nobody waits, and no slot that is missing in taken has been taken. n holds as
// long as the path's data have their version.
type view struct {
	on session.Connection
	n  int
	// path and line are versions of the data there.
	path int32
	line int32
	// lineCzxid tells apart lines that have the same version.
	lineCzxid   int64
	fingerprint string
	// taken are the numbers of the slots, by their znodes' names.
	taken map[string]int32
}

// anyVersion stands for any version in a request, and a line of 2^32 takings has it. By it nobody could
// tell whether others have come since.
const anyVersion = -1

// lowest returns the k lowest numbers that are free. The slots beyond n, which a smaller n has
// left over, count as taken, too.
func (v *view) lowest(k int) (numbers []int32, ok bool) {
	taken := map[int32]bool{}
	for _, i := range v.taken {
		taken[i] = true
	}
	if len(taken)+k > v.n {
		return nil, false
	}
	for i := int32(0); len(numbers) < k; i++ {
		if !taken[i] {
			numbers = append(numbers, i)
		}
	}
	return numbers, true
}

var (
	// errUnused: the line has never been used. It is to be joined: then its data tell whether
	// its list is the session's own.
	errUnused = errors.New("line has never been used")
	// errStale: what was seen is no longer so.
	errStale = errors.New("semaphore has changed")
	// errSlotsLost: slots were lost before the caller had them.
	errSlotsLost = errors.New("slots lost at once")
)

// maxStale is how often a caller that may wait tries to take slots without a place in line
// while others take some in between. In line, nobody comes in between. But while somebody
// stands there, all others must, too, at twice the requests.
const maxStale = 4

// enterFree takes k slots without a place in line, in that many attempts. ErrLocked: somebody
// waits, or there are not enough. join: take a place in a line that has never been used.
func (x *Semaphore) enterFree(ctx context.Context, k, attempts int, join bool) (*slotGrant, error) {
	for tries := 0; tries < attempts; {
		s, err := x.At.Client.Live(ctx)
		var l *slotGrant
		if err == nil {
			l, err = x.enterFreeIn(ctx, s, k)
		}
		switch {
		case errors.Is(err, errStale):
			tries++
			continue
		case errors.Is(err, errUnused) && join:
			err = x.Line.TryInTurn(ctx, s, layout.KindLock, func(p *line.Place) error {
				l, err = x.enterFirst(ctx, p, k, false)
				return err
			})
		case errors.Is(err, errUnused):
			err = errs.ErrLocked
		}
		if !errors.Is(err, zkconn.ErrSessionOver) {
			return l, err
		}
	}
	return nil, zkconn.ErrContended
}

func (x *Semaphore) enterFreeIn(ctx context.Context, s *session.Session, k int) (*slotGrant, error) {
	if err := s.CheckRoom(k * zkconn.Weight(x.slotPath(0, layout.NoUUID), false)); err != nil {
		return nil, err
	}
	v := x.takeKnown(s)
	var free []int32
	enough := false
	if v != nil {
		free, enough = v.lowest(k)
	}
	if !enough { // or not any more
		var err error
		if v, err = x.look(ctx, s, k); err != nil {
			return nil, err
		}
		if free, enough = v.lowest(k); !enough {
			return nil, errs.ErrLocked
		}
	}
	h := x.newSlots(s, free)
	set := &zk.SetDataRequest{Path: x.Line.Abs(), Data: layout.Record(x.Line.Recipe, v.fingerprint, ""), Version: v.line}
	o := h.take(ctx, &zk.CheckVersionRequest{Path: x.At.Abs(), Version: v.path}, set)
	switch {
	case o.RefusedAt(set, zk.ErrBadVersion, zk.ErrNoNode):
		return nil, errStale
	case !o.Applied():
		return nil, o.Err()
	}
	var err error
	if o.HasResults() {
		err = x.confirm(h, v, o.Stat(set))
	} else {
		err = x.confirmLost(ctx, h, v)
	}
	if err != nil {
		h.abandon()
		return nil, err
	}
	return h.granted(ctx)
}

// confirm notes that the slots were taken by what v shows. stat is the line's in the reply.
// errStale: the slots must be given back, since the line was deleted and made anew, and has the
// version that was seen by chance. Somebody may wait there, and the path may have another n.
func (x *Semaphore) confirm(h *slotSet, v *view, stat *zk.Stat) error {
	x.Line.NoteWritten(line.ACL{}, stat)
	if stat.Czxid != v.lineCzxid {
		return errStale
	}
	h.Czxid = stat.Mzxid // of the transaction that created the slots
	h.addTo(v.taken)
	v.line = stat.Version
	x.setKnown(v)
	return nil
}

// confirmLost is confirm for a transaction whose first reply was lost.
func (x *Semaphore) confirmLost(ctx context.Context, h *slotSet, v *view) error {
	_, line, err := h.Session.Get(ctx, x.Line.Abs())
	if err == nil && line.Czxid != v.lineCzxid || errors.Is(err, zk.ErrNoNode) {
		return errStale
	}
	return err
}

// look reads the semaphore, for a caller that wants k slots. ErrLocked: somebody waits.
func (x *Semaphore) look(ctx context.Context, s *session.Session, k int) (*view, error) {
	synced := false
	for tries := 0; tries < zkconn.MaxTries; {
		err := s.Ready(ctx)
		var v *view
		if err == nil {
			v, err = x.lookOnce(ctx, s, k)
		}
		stale := errors.Is(err, errStale)
		if errors.Is(err, errs.ErrSize) && !synced { // the server may not know of a Resize yet
			err = s.Sync(ctx, x.At.Abs())
			synced, stale = err == nil, err == nil
		}
		switch {
		case stale:
			tries++
		case !zkconn.Transient(err):
			return v, err
		}
	}
	return nil, zkconn.ErrContended
}

func (x *Semaphore) lookOnce(ctx context.Context, s *session.Session, k int) (*view, error) {
	// The line must be read before the slots: then the slots show all that were taken up
	// to the line's version.
	on := s.On()
	path, waiters, names, err := x.readAll(ctx, s)
	if err != nil {
		return nil, err
	}
	n, err := x.agree(ctx, s, path)
	switch {
	case err != nil:
		return nil, err
	case k > n:
		return nil, tooMany(k, n)
	case waiters.err != nil && !errors.Is(waiters.err, zk.ErrNoNode):
		return nil, waiters.err
	case waiters.err != nil, waiters.stat.Version == 0, waiters.stat.Version == anyVersion:
		return nil, errUnused
	}
	m, ok := layout.ParseMark(x.Line.Recipe, waiters.data)
	if !ok || m.Recipe != x.Line.Recipe {
		return nil, errUnused
	}
	v := &view{
		on: on, n: n, path: path.stat.Version, line: waiters.stat.Version, lineCzxid: waiters.stat.Czxid,
		fingerprint: m.Fingerprint, taken: SlotsAmong(names),
	}
	if waiters.stat.NumChildren > 0 {
		if _, enough := v.lowest(k); !enough { // even if nobody waits: a line may be long to list
			return nil, errs.ErrLocked
		}
		if names, err = x.slotsIfFree(ctx, s); err != nil {
			return nil, err
		}
		v.taken = SlotsAmong(names)
	}
	return v, nil
}

// slotsIfFree lists the slots, or returns ErrLocked if somebody waits. Children of the
// line that are no places do not count. The slots must be listed last: then they show
// what was taken by a place that is no longer in line. Later joins write the line's data.
func (x *Semaphore) slotsIfFree(ctx context.Context, s *session.Session) ([]string, error) {
	children, _, err := s.Children(ctx, x.Line.Abs())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, errStale
	case err != nil:
		return nil, err
	case len(layout.ParsePlaces(children, x.Line.Kinds)) > 0:
		return nil, errs.ErrLocked
	}
	slots, _, err := s.Children(ctx, x.slotsPath())
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return slots, err
}

// answer is the answer to a read.
type answer struct {
	data []byte
	stat *zk.Stat
	err  error
}

// readAll reads the path, the line and the slots, in this order, in one round trip. It
// fails if the connection is lost.
func (x *Semaphore) readAll(ctx context.Context, s *session.Session) (path, line answer, slots []string, err error) {
	var rs [2]*zkconn.Reading
	for i, at := range []string{x.At.Abs(), x.Line.Abs()} {
		if rs[i], err = s.StartGet(at); err != nil {
			return path, line, nil, err
		}
	}
	slots, _, err = s.Children(ctx, x.slotsPath())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return path, line, nil, err
	}
	for i, to := range []*answer{&path, &line} {
		select {
		case <-rs[i].Done():
		case <-ctx.Done():
			return path, line, nil, s.ContextErr(ctx)
		}
		if to.data, to.stat, to.err = rs[i].Data(); zkconn.Transient(to.err) {
			return path, line, nil, to.err
		}
	}
	return path, line, slots, nil
}

// takeKnown returns what is known on the session's connection, and forgets it: it is good for
// one transaction.
func (x *Semaphore) takeKnown(s *session.Session) *view {
	on := s.On()
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.Known
	x.Known = nil
	if v != nil && (v.on != on || v.line == anyVersion) {
		return nil
	}
	return v
}

func (x *Semaphore) setKnown(v *view) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Known, x.busy = v, false
}

func (x *Semaphore) isBusy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.busy
}

func (x *Semaphore) SetBusy(busy bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy = busy
}

// enterFirst waits, with p first in line, until k slots are free, and takes them. If it
// must not wait, it returns ErrLocked.
func (x *Semaphore) enterFirst(ctx context.Context, p *line.Place, k int, wait bool) (*slotGrant, error) {
	busy := p.LineCount != 1
	for synced := false; ; {
		v, watches, err := x.watch(ctx, p)
		if err == nil && k > v.n {
			err = tooMany(k, v.n)
		}
		if errors.Is(err, errs.ErrSize) && !synced { // the server may not know of a Resize yet
			if err = p.Session.Sync(ctx, x.At.Abs()); err == nil {
				synced, err = true, errStale
			}
		}
		if errors.Is(err, errStale) {
			continue
		}
		if err != nil {
			return nil, err
		}
		free, enough := v.lowest(k)
		switch {
		case !enough && !wait:
			return nil, errs.ErrLocked
		case !enough:
			busy = true
			if err := line.AwaitAny(ctx, p, watches, nil); err != nil {
				return nil, err
			}
			continue
		}
		l, err := x.takeTurn(ctx, p, v, free)
		if !errors.Is(err, errStale) {
			x.SetBusy(busy)
			return l, err
		}
	}
}

// watch returns what the first in line sees, and the watches that fire when a slot is
// given back or when n changes. errStale: look again.
func (x *Semaphore) watch(ctx context.Context, p *line.Place) (*view, []*zkconn.Watch, error) {
	path, err := p.Session.Watch(ctx, x.At.Abs())
	var n int
	switch {
	case errors.Is(err, zk.ErrNoNode):
		n, err = x.agree(ctx, p.Session, answer{err: err})
	case err == nil:
		n, err = x.agree(ctx, p.Session, answer{data: path.Data, stat: &path.Stat})
	}
	if err != nil {
		return nil, nil, err
	}
	slots, err := p.Session.WatchChildren(ctx, x.slotsPath())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, x.newSlots(p.Session, []int32{0}).makeParent(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	return &view{n: n, path: path.Stat.Version, taken: SlotsAmong(slots.Children)}, []*zkconn.Watch{path, slots}, nil
}

// takeTurn takes the slots and deletes the place, whose turn ends.
func (x *Semaphore) takeTurn(ctx context.Context, p *line.Place, v *view, free []int32) (*slotGrant, error) {
	for leave := p.Deletion(true); ; {
		h := x.newSlots(p.Session, free)
		check := &zk.CheckVersionRequest{Path: x.At.Abs(), Version: v.path}
		o := h.take(ctx, append([]any{check}, leave.Ops...)...)
		if o.Applied() {
			if o.HasResults() && leave.Signal != nil {
				h.Czxid = o.Stat(leave.Signal).Mzxid
			}
			return h.granted(ctx)
		}
		var err error
		if leave, err = p.DeletionAgain(ctx, leave, o); err != nil {
			return nil, err
		}
	}
}

// forget notes that slots were given back.
func (x *Semaphore) forget(names []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.Known != nil {
		maps.DeleteFunc(x.Known.taken, func(name string, _ int32) bool { return slices.Contains(names, name) })
	}
}
