package line

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Lock delay: if the last holder went without a release, nothing is granted for a while. The
// protocol was model-checked (docs/models/line.pml, DELAY).
//
// Each join writes the line's data, and with a delay so does each release, in the transaction
// that deletes the place. So the Stat of the line counts the departures that were no releases,
// and no later join hides one; see unreleased. If such a departure was the last change in the
// line, the line's children changed after its data; see isCalm. A waiter that gives up writes
// nothing: it may have been about to wait for the delay, and the next one must.

// unreleased returns how many places have left a line with that Stat without a release, plus
// a constant. Cversion is twice the number of creates minus the number of children, and Version
// counts joins and releases. Another library's places and a leader's znode only make it grow.
// Servers count no creates any more if the next number is the largest one (see
// DataNode.setCversion in DataTree.createNode): then joins that are withdrawn hide departures.
func unreleased(line *zk.Stat) int32 { return line.Cversion - line.Version }

// noteDepartures notes the line's Stat. calm: nobody has to wait for the delay now, or somebody
// ahead of the place still has to.
func (p *Place) noteDepartures(line *zk.Stat, calm bool) {
	if p.Line.Delay == 0 {
		return
	}
	now := unreleased(line)
	if calm {
		p.calmAt = &now
	}
	p.delayed = p.calmAt == nil || *p.calmAt != now || !calm && NextNumber(line) == math.MaxInt32
}

// isCalm reports whether a newcomer to a line with that Stat need not wait: there is no delay, the
// last change was a release or a join, or this client saw this same last departure a delay ago.
// TryLock depends on the latter, since it does not wait.
func (l *Line) isCalm(line *zk.Stat) bool {
	if l.Delay == 0 || line.Mzxid == line.Pzxid {
		return true
	}
	t := l.containers()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(l.Abs())
	if e.departed != line.Pzxid {
		e.departed, e.departedAt = line.Pzxid, time.Now()
	}
	t.use(e)
	return time.Since(e.departedAt) >= l.Delay
}

// awaitDelay returns when a place whose turn it is may be granted. Until then it is a waiter.
func (p *Place) awaitDelay(ctx context.Context) error {
	if !p.delayed {
		return nil
	}
	over := make(chan struct{})
	defer time.AfterFunc(p.Line.Delay, func() { close(over) }).Stop()
	p.TellQueued(ctx, 0)
	for {
		if err := p.AwaitFired(ctx, over); err != nil {
			return err
		}
		select {
		case <-over:
			return nil
		default: // somebody has changed the place's data
		}
	}
}

// releaseOps write the line's data with the deletion of a place that held.
func (p *Place) releaseOps() []any {
	if p.Line.Delay == 0 {
		return nil
	}
	return []any{&zk.SetDataRequest{Path: p.Line.Abs(), Data: layout.Record(p.Line.Recipe, p.Bears.Seal, ""), Version: -1}}
}

// createLasting creates a line that no server reaps: with it, it would be forgotten that the
// last holder has died. See create.
func (l *Line) createLasting(ctx context.Context, s *session.Session, data []byte) error {
	for tries := 0; tries < zkconn.MaxTries; {
		o := s.Multi(ctx, &zk.CreateRequest{Path: l.Abs(), Data: data, Acl: s.ACL()})
		switch {
		case o.Applied():
			return nil
		case o.Transient(): // the next attempt shows whether it was created
			continue
		case !o.Is(zk.ErrNoNode) || zkconn.Parent(l.Abs()) == "":
			return o.Err()
		}
		if err := s.CreateContainer(ctx, zkconn.Parent(l.Abs()), nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		tries++
	}
	return zkconn.ErrContended
}

// pause waits for the delay before a line whose numbers are used up is deleted: the new one
// knows nothing of the last holder. Nothing is granted in the old one any more.
func (x *exhausted) pause(ctx context.Context) error {
	over := time.NewTimer(x.Line.Delay)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-x.Session.Over():
		return zkconn.ErrSessionOver
	case <-ctx.Done():
		return x.Session.ContextErr(ctx)
	}
}
