// Package election has the leader's znode.
package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The leader's znode says who leads. What makes a leader is its place, the first in the
// line: the znode is created and deleted only by transactions that need the own place and
// that are sent at its turn. So nobody deletes the znode of another leader, however often
// a transaction is sent. A candidate that does not know whether it has created the znode
// reads whose it is, because somebody else may have created it.

// LeaderName is the rest of the path of the leader's znode.
const LeaderName = "/leader"

// candidate is a place at its turn.
type candidate struct {
	*line.Place
	leader string
	// czxid is that of the leader's znode, 0 if it is not known.
	czxid int64

	// leaderGone: somebody has deleted the leader's znode.
	leaderGone atomic.Bool
}

// Campaign joins the line, waits for its turn and creates the leader's znode.
func Campaign(ctx context.Context, l *line.Line, k layout.Kind, value []byte) (g *hold.Grant, err error) {
	err = l.InTurn(ctx, k, func(p *line.Place) error {
		c := newCandidate(p)
		if err := c.create(ctx, value); err != nil {
			return err
		}
		if g, err = p.Grant(ctx); err == nil {
			l.Client.Tasks.Start(func() { c.watchLeader(g) })
		}
		return err
	})
	return g, err
}

// newCandidate makes a candidate of a place at its turn, and only then: from now on the
// leader's znode is deleted with the place.
func newCandidate(p *line.Place) *candidate {
	c := &candidate{Place: p, leader: p.Line.Abs() + LeaderName}
	p.Become(c)
	return c
}

// createOps create the leader's znode. The Stat of set tells its czxid.
func (c *candidate) createOps(value []byte) (create *zk.CreateRequest, set *zk.SetDataRequest) {
	create = &zk.CreateRequest{Path: c.leader, Acl: c.ACL.ForWritten(c.Session.Session), Flags: zk.FlagEphemeral}
	return create, &zk.SetDataRequest{Path: c.leader, Data: value, Version: 0}
}

// create creates the leader's znode. Its czxid is the base of the token.
func (c *candidate) create(ctx context.Context, value []byte) error {
	check := &zk.CheckVersionRequest{Path: c.Path, Version: -1}
	var replaced []any
	for range zkconn.MaxTries {
		create, set := c.createOps(value)
		o := c.Session.Retry(nil, []any{check}, replaced, []any{create, set}).Wait(ctx)
		switch {
		case o.Applied():
			c.czxid = o.Stat(set).Czxid
			c.Place.Czxid = c.czxid
			return nil
		case o.RefusedAt(check, zk.ErrNoNode):
			return c.WhyGone(ctx)
		case o.RefusedAt(create, zk.ErrNodeExists):
			var err error
			if replaced, err = c.replaceOps(ctx); err != nil {
				return err
			}
		case o.RefusedIn(replaced, zk.ErrNoNode, zk.ErrBadVersion):
			replaced = nil
		default:
			return o.Err()
		}
	}
	return zkconn.ErrContended
}

// replaceOps delete a leader's znode whose leader has been evicted and does not know it
// yet, or which an attempt of this candidate's has created whose reply was lost. A znode
// that belongs to no session is somebody else's.
func (c *candidate) replaceOps(ctx context.Context) ([]any, error) {
	stat, err := c.Session.Exists(ctx, c.leader)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	case stat.EphemeralOwner == 0:
		return nil, zkconn.Errorf(zkconn.ErrPathInUse, "%s is not ephemeral, so no leader has created it", c.Line.Path+LeaderName)
	}
	return []any{&zk.DeleteRequest{Path: c.leader, Version: stat.Version}}, nil
}

// Checked returns the path of the leader's znode, once that exists.
func (c *candidate) Checked() []string {
	if c.czxid == 0 {
		return nil
	}
	return []string{c.leader}
}

// Delete deletes the place and the leader's znode, once. zk.ErrNoNode: one of them was gone, and
// now both are.
func (c *candidate) Delete(signal bool, begin hold.BeginFunc) error {
	leader, err := c.deleteOps()
	if err != nil {
		return err
	}
	o := c.DeleteWith(signal, begin, leader...)
	deposed := false
	if o.RefusedIn(leader) { // somebody has deleted or changed it
		deposed = o.Is(zk.ErrNoNode)
		leader = nil
		o = c.DeleteWith(signal, begin)
	}
	switch {
	case o.Is(zk.ErrNoNode), // given up before, or evicted
		o.Applied() && len(leader) == 0 && c.czxid == 0: // a server that lagged may not have shown it
		c.Line.Client.Tasks.Start(c.withdraw)
	case o.Applied() && deposed:
		return zk.ErrNoNode
	}
	return o.Err()
}

// deleteOps delete the leader's znode, if that is this candidate's. Where a reply was lost,
// or never awaited, its Stat tells.
func (c *candidate) deleteOps() ([]any, error) {
	switch {
	case c.leaderGone.Load():
		return nil, nil
	case c.czxid != 0:
		return []any{&zk.DeleteRequest{Path: c.leader, Version: -1}}, nil
	}
	stat, err := c.Session.Exists(c.Session.UntilAnswered(), c.leader)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && !c.owns(stat):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []any{&zk.DeleteRequest{Path: c.leader, Version: stat.Version}}, nil
}

var errWithdrawn = errors.New("no leader's znode is left")

// withdraw deletes the leader's znode of a place that somebody has deleted alone. Where it
// fails, because the servers refuse or because somebody deletes its place, too, it goes on
// in longer and longer intervals.
func (c *candidate) withdraw() {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, c.Session.Timeout()) {
		err := c.withdrawOnce()
		if err == nil || c.Session.IsOver() || c.Line.Client.Closing.Err() != nil {
			return
		}
		c.Line.Client.Log(slog.LevelWarn, "cannot delete the znode of a leader that was evicted", "path", c.leader, "err", err)
		if !c.Pause(wait) {
			return
		}
	}
}

// withdrawOnce deletes the leader's znode at a turn in the line, because the znode may be
// the next leader's by then. The next leader replaces it, and then there is nothing left
// to do.
func (c *candidate) withdrawOnce() error {
	ctx, done := c.Line.Client.Bind(c.Session.UntilAnswered())
	defer done()
	w, err := c.Session.WatchChildren(ctx, c.leader)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && !c.owns(&w.Stat):
		_, _, _ = c.Session.GetOwn(ctx, c.leader)
		return nil
	case err != nil:
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Line.Client.Tasks.Start(func() {
		defer cancel()
		select {
		case <-w.Fired():
		case <-c.Session.Over():
		case <-ctx.Done():
		}
	})
	err = c.Line.WithPlace(ctx, layout.KindLock, func(p *line.Place, guess *line.Guess) error {
		if err := p.AwaitTurn(ctx, guess); err != nil { // and no delay: nothing is granted
			return err
		}
		newCandidate(p)
		return errWithdrawn // and p is deleted, with the znode
	})
	if errors.Is(err, errWithdrawn) || w.HasFired() {
		return nil
	}
	return err
}

// owns reports whether the leader's znode with that Stat is this candidate's, or that of an
// earlier term of the session, which is back because the servers have lost its deletion.
func (c *candidate) owns(stat *zk.Stat) bool {
	return stat.EphemeralOwner == c.Session.ID() && (c.czxid == 0 || stat.Czxid <= c.czxid)
}

var errLeaderDeleted = fmt.Errorf("%q was deleted by somebody else", LeaderName[1:])

// watchLeader ends the grant if somebody deletes the leader's znode. Like the place, it is
// watched once the grant has lasted for a while. The watch is one on children, of which
// there are none: it fires when the znode is deleted, and not when its data change.
func (c *candidate) watchLeader(g *hold.Grant) {
	age := time.NewTimer(hold.WatchDelay(c.Session))
	defer age.Stop()
	select {
	case <-age.C:
	case <-g.Over:
		return
	}
	for {
		w, err := c.Session.WatchChildren(c.Session.UntilAnswered(), c.leader)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && w.Stat.Czxid != c.czxid:
			c.leaderGone.Store(err != nil || !c.owns(&w.Stat))
			g.End(errs.Lost(&errs.Deletion{IfByOther: errLeaderDeleted}))
			return
		case err != nil:
			return
		}
		select {
		case <-w.Fired():
		case <-g.Over:
			return
		}
	}
}

// CheckValue refuses a value too large for one request.
func CheckValue(l *line.Line, value []byte) error {
	path := l.Abs() + LeaderName
	return zkconn.CheckSize(zkconn.MultiSize([]any{
		&zk.CheckVersionRequest{Path: l.Abs() + "/_c_" + layout.NewUUID() + "-" + string(layout.KindLock) + "0123456789"},
		&zk.DeleteRequest{Path: path},
		&zk.CreateRequest{Path: path, Acl: l.Client.ACL},
		&zk.SetDataRequest{Path: path, Data: value},
	}), l.Client.MaxBuffer)
}
