package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Lock delay: if the last holder went without a release, nothing is granted for a while. Beside the
// places stands a persistent znode with the name of the place that holds, which a release deletes.
// The protocol was model-checked (docs/models/delay.pml).

// HeldName is the name of that znode. Other libraries look at it: go-zookeeper's Lock needs a number
// behind "__" in the name of each child, and both it and Curator sort this one behind all places.
const HeldName = "held__2147483647"

// wentAway is what the znode says instead once somebody has seen that its holder has gone.
var wentAway = []byte("went without a release")

// writeHeld writes that the place, whose turn it is, holds the lock. Before, it waits for the rest of a
// delay or, if it may not wait, returns ErrLocked. The delay begins when somebody first sees that
// there is one.
func (p *Place) writeHeld(ctx context.Context, mayWait bool) error {
	path := p.Line.Abs() + "/" + HeldName
	create := &zk.CreateRequest{Path: path, Data: []byte(p.Name), Acl: p.ACL.ForWritten(p.Session.Session)}
	for write, mine := any(create), true; ; {
		if err := p.tryHold(ctx, write, mine); err != nil || p.heldWritten {
			return err
		}
		held, err := p.Session.Watch(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			write, mine = create, true
		case err != nil:
			return err
		case string(held.Data) == p.Name: // the reply to an earlier write was lost
			p.heldWritten, p.heldUnsure = true, false
			return nil
		case string(held.Data) != string(wentAway):
			write, mine = &zk.SetDataRequest{Path: path, Data: wentAway, Version: held.Stat.Version}, false
		default:
			if err := p.awaitDelay(ctx, held, mayWait); err != nil {
				return err
			}
			write, mine = create, true
			if !held.HasFired() { // if it has, somebody has probably deleted the znode
				write = &zk.SetDataRequest{Path: path, Data: create.Data, Version: held.Stat.Version}
			}
		}
	}
}

// tryHold writes the znode, once, if the place stands: for as long as it does, its turn lasts. mine:
// the data are its name. No error, and heldWritten is not set: the caller must look.
func (p *Place) tryHold(ctx context.Context, write any, mine bool) error {
	check := &zk.CheckVersionRequest{Path: p.Path, Version: -1}
	o := p.Session.Multi(ctx, check, write)
	p.heldWritten, p.heldUnsure = mine && o.Applied(), mine && !o.Applied()
	switch {
	case o.RefusedAt(check, zk.ErrNoNode):
		return p.WhyGone(ctx)
	case o.Transient(), o.RefusedAt(write, zk.ErrNodeExists, zk.ErrNoNode, zk.ErrBadVersion):
		return nil
	}
	return o.Err()
}

// awaitDelay waits until the delay has passed since the servers wrote the znode of that watch, or until the
// watch fires. The servers' clock measures the time up to the creation of the place, the client's the time
// from the reply to the join. If the servers' clock was set back meanwhile, it waits for all of the delay.
func (p *Place) awaitDelay(ctx context.Context, went *zkconn.Watch, mayWait bool) error {
	if err := p.WatchOwn(ctx); err != nil {
		return err
	}
	before := time.Duration(p.Own.Stat.Ctime-went.Stat.Mtime-1) * time.Millisecond // of which 1 for parts of one
	left := p.Line.Delay - max(0, before+time.Since(p.joined))
	if left <= 0 {
		return nil
	}
	if p.heldUnsure = false; !mayWait {
		return errs.ErrLocked
	}
	over := make(chan struct{})
	defer time.AfterFunc(left, func() { close(over) }).Stop()
	p.TellQueued(ctx, 0)
	for {
		if err := AwaitAny(ctx, p, []*zkconn.Watch{went}, over); err != nil {
			return err
		}
		select {
		case <-over:
			return nil
		case <-went.Fired():
			return nil
		default: // somebody has changed the place's data
		}
	}
}
