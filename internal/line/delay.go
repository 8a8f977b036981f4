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

// hold writes that the place, whose turn it is, holds the lock. Before, it waits for the rest of a
// delay or, if it may not wait, returns ErrLocked. The delay begins when somebody first sees that
// there is one. Each write checks the place: its turn lasts for as long as it stands.
func (p *Place) hold(ctx context.Context, mayWait bool) error {
	if p.Line.Delay == 0 {
		return nil
	}
	path := p.Line.Abs() + "/" + HeldName
	check := &zk.CheckVersionRequest{Path: p.Path, Version: -1}
	create := &zk.CreateRequest{Path: path, Data: []byte(p.Name), Acl: p.Session.ACL()}
	for write, mine := any(create), true; ; {
		o := p.Session.Multi(ctx, check, write)
		p.holds, p.unsure = mine && o.Applied(), mine && !o.Applied() && !o.Refused()
		switch {
		case p.holds:
			return nil
		case o.RefusedAt(check, zk.ErrNoNode):
			return p.WhyGone(ctx)
		case !tellsMore(o, write):
			return o.Err()
		}
		data, stat, err := p.Session.Get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			write, mine = create, true
		case err != nil:
			return err
		case string(data) == p.Name: // the reply to an earlier write was lost
			p.holds, p.unsure = true, false
			return nil
		case string(data) != string(wentAway):
			write, mine = &zk.SetDataRequest{Path: path, Data: wentAway, Version: stat.Version}, false
		default:
			if err := p.awaitDelay(ctx, stat, mayWait); err != nil {
				return err
			}
			write, mine = &zk.SetDataRequest{Path: path, Data: create.Data, Version: stat.Version}, true
		}
	}
}

// tellsMore reports whether a read of the znode tells how to go on after that outcome of a write.
func tellsMore(o zkconn.Outcome, write any) bool {
	return o.Applied() || o.Transient() || o.RefusedAt(write, zk.ErrNodeExists, zk.ErrNoNode, zk.ErrBadVersion)
}

// awaitDelay waits until the delay has passed since the servers wrote the znode with that Stat. By
// their clock they had done so when the place was created, or had not. From the reply to the join on
// the client's clock counts. If the servers' clock was set back meanwhile, it waits for all of it.
func (p *Place) awaitDelay(ctx context.Context, went *zk.Stat, mayWait bool) error {
	if err := p.WatchOwn(ctx); err != nil {
		return err
	}
	before := time.Duration(p.Own.Stat.Ctime-went.Mtime-1) * time.Millisecond // of which 1 for parts of one
	left := min(p.Line.Delay-before-time.Since(p.joined), p.Line.Delay)
	switch {
	case left <= 0:
		return nil
	case !mayWait:
		return errs.ErrLocked
	}
	over := make(chan struct{})
	defer time.AfterFunc(left, func() { close(over) }).Stop()
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

// releaseOps delete the znode together with a place that holds.
func (p *Place) releaseOps() []any {
	if !p.holds {
		return nil
	}
	return []any{&zk.DeleteRequest{Path: p.Line.Abs() + "/" + HeldName, Version: -1}}
}
