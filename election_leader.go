package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The leader's znode says who leads. What makes a leader is its place, the first in the
// line: the znode is created and deleted only by transactions that need the own place and
// that are sent at its turn. So nobody deletes the znode of another leader, however often
// a transaction is sent. A candidate that does not know whether it has created the znode
// reads whose it is, because somebody else may have created it.

// leaderName is the rest of the path of the leader's znode.
const leaderName = "/leader"

// candidate is a place at its turn.
type candidate struct {
	*place
	leader string // path of the leader's znode
	czxid  int64  // of the leader's znode; 0: not known

	leaderGone atomic.Bool // somebody has deleted the leader's znode
}

// enterAsLeader joins the line, waits for its turn and creates the leader's znode.
func enterAsLeader(ctx context.Context, l *line, k kind, value []byte) (g *grant, err error) {
	err = l.inTurn(ctx, k, nil, func(p *place) error {
		c := newCandidate(p)
		if err := c.create(ctx, value); err != nil {
			return err
		}
		if g, err = p.grant(ctx); err == nil {
			l.c.tasks.Start(func() { c.watchLeader(g) })
		}
		return err
	})
	return g, err
}

// newCandidate makes a candidate of a place at its turn, and only then: from now on the
// leader's znode is deleted with the place.
func newCandidate(p *place) *candidate {
	c := &candidate{place: p, leader: p.line.abs() + leaderName}
	p.release, p.deletes = c.giveUp, c.leaveOps
	return c
}

// createOps create the leader's znode. The Stat of set tells its czxid.
func (c *candidate) createOps(value []byte) (create *zk.CreateRequest, set *zk.SetDataRequest) {
	create = &zk.CreateRequest{Path: c.leader, Acl: c.bears.written(c.s), Flags: zk.FlagEphemeral}
	return create, &zk.SetDataRequest{Path: c.leader, Data: value, Version: 0}
}

// create creates the leader's znode. Its czxid is the base of the token.
func (c *candidate) create(ctx context.Context, value []byte) error {
	check := &zk.CheckVersionRequest{Path: c.path, Version: -1}
	var replaced []any
	for range zkconn.MaxTries {
		create, set := c.createOps(value)
		o := c.s.Retry(nil, []any{check}, replaced, []any{create, set}).Wait(ctx)
		switch {
		case o.Applied():
			c.czxid = o.Stat(set).Czxid
			c.place.czxid, c.checked = c.czxid, []string{c.leader}
			c.turnConn = 0 // the reply has advanced the zxid
			return nil
		case o.RefusedAt(check, zk.ErrNoNode):
			return c.whyGone(ctx)
		case o.RefusedAt(create, zk.ErrNodeExists):
			var err error
			if replaced, err = c.replaceOps(ctx); err != nil {
				return err
			}
		case o.RefusedAt(set, zk.ErrNoAuth) && c.s.IsOwner():
			c.s.OwnWriteFailed(o.Err())
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
	stat, err := c.s.Exists(ctx, c.leader)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	case stat.EphemeralOwner == 0:
		return nil, zkconn.Errorf(ErrPathInUse, "%s is not ephemeral, so no leader has created it", c.line.path+leaderName)
	}
	return []any{&zk.DeleteRequest{Path: c.leader, Version: stat.Version}}, nil
}

// giveUp deletes the place and the leader's znode, once.
func (c *candidate) giveUp(signal bool, begin beginFunc) error {
	leader, err := c.deleteOps()
	if err != nil {
		return err
	}
	o := c.removeWith(signal, begin, leader...)
	if o.RefusedIn(leader) { // somebody has deleted or changed it
		leader = nil
		o = c.removeWith(signal, begin)
	}
	switch {
	case o.Is(zk.ErrNoNode), // given up before, or evicted
		o.Applied() && len(leader) == 0 && c.czxid == 0: // a server that lagged may not have shown it
		c.line.c.tasks.Start(c.withdraw)
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
	stat, err := c.s.Exists(c.s.Lifetime(), c.leader)
	c.s.noteSeen(c.leader, stat, err)
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
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, c.s.Timeout()) {
		err := c.withdrawOnce()
		if err == nil || c.s.IsOver() || c.line.c.closing.Err() != nil {
			return // it goes with the session
		}
		c.line.c.log(slog.LevelWarn, "cannot delete the znode of a leader that was evicted", "path", c.leader, "err", err)
		if !c.pause(wait) {
			return
		}
	}
}

// withdrawOnce deletes the leader's znode at a turn in the line, because the znode may be
// the next leader's by then. The next leader replaces it, and then there is nothing left
// to do.
func (c *candidate) withdrawOnce() error {
	ctx, done := c.line.c.bind(c.s.Lifetime())
	defer done()
	w, err := c.s.WatchChildren(ctx, c.leader)
	c.s.noteWatched(c.leader, w, err)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && !c.owns(&w.Stat):
		return nil
	case err != nil:
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.line.c.tasks.Start(func() {
		defer cancel()
		select {
		case <-w.Fired():
		case <-c.s.Over():
		case <-ctx.Done():
		}
	})
	err = c.line.inTurn(ctx, kindLock, nil, func(p *place) error {
		newCandidate(p)
		return errWithdrawn // and p is deleted, with the znode
	})
	if errors.Is(err, errWithdrawn) || w.HasFired() {
		return nil
	}
	return err
}

// owns reports whether the leader's znode with that Stat is this candidate's.
func (c *candidate) owns(stat *zk.Stat) bool {
	return stat.EphemeralOwner == c.s.ID() && (c.czxid == 0 || stat.Czxid == c.czxid)
}

var errLeaderDeleted = fmt.Errorf("%q was deleted by somebody else", leaderName[1:])

// watchLeader ends the grant if somebody deletes the leader's znode. Like the place, it is
// watched once the grant has lasted for a while. The watch is one on children, of which
// there are none: it fires when the znode is deleted, and not when its data change.
func (c *candidate) watchLeader(g *grant) {
	age := time.NewTimer(c.s.watchAge())
	defer age.Stop()
	select {
	case <-age.C:
	case <-g.over:
		return
	}
	for {
		w, err := c.s.WatchChildren(c.s.Lifetime(), c.leader)
		c.s.noteWatched(c.leader, w, err)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && w.Stat.Czxid != c.czxid:
			c.leaderGone.Store(true)
			g.end(lost(&deletion{bySomebody: errLeaderDeleted}))
			return
		case err != nil:
			return
		}
		select {
		case <-w.Fired():
		case <-g.over:
			return
		}
	}
}

// checkLeaderValue refuses a value too large for one request.
func checkLeaderValue(l *line, value []byte) error {
	path := l.abs() + leaderName
	n := zkconn.MultiSize([]any{
		&zk.CheckVersionRequest{Path: l.abs() + "/_c_" + newUUID(true) + "-" + string(kindLock) + "0123456789"},
		&zk.DeleteRequest{Path: path},
		&zk.CreateRequest{Path: path, Acl: l.c.created},
		&zk.SetDataRequest{Path: path, Data: value},
	})
	if n > jute.MaxFrame {
		return zkconn.TooLarge(n)
	}
	return nil
}

// leaveOps delete the place and the leader's znode. nil: it is not known whether that is
// this candidate's.
func (c *candidate) leaveOps(signal bool) []any {
	if c.czxid == 0 || c.leaderGone.Load() {
		return nil
	}
	return append(c.exitOps(signal).ops, &zk.DeleteRequest{Path: c.leader, Version: -1})
}
