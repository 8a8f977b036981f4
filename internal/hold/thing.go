package hold

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Thing is what a grant holds. It embeds a Znode, whose methods are those of a thing that is one
// znode, and that nobody else holds.
type Thing interface {
	znode() *Znode
	// Paths returns the paths of all znodes without which it is not held, that of the Znode first.
	Paths() []string
	// Checked returns the paths of further znodes without which it is not held either. A Commit
	// checks them, and the recipe watches them.
	Checked() []string
	// Exclusive reports whether it is held alone.
	Exclusive() bool
	// Delete deletes it, once, by a transaction that begin sends. signal: it was held until now, so
	// a successor may get a signal that it is next. zk.ErrNoNode: it was gone before.
	Delete(signal bool, begin BeginFunc) error
}

// BeginFunc sends a transaction: zkconn.Session.Begin or Start.
type BeginFunc func(ops ...any) (*zkconn.Transaction, error)

// Znode is an ephemeral znode of a session.
type Znode struct {
	Session *session.Session
	Path    string
	// Czxid is 0 if it is not known yet.
	Czxid int64
	// Own is the watch on Path, nil if there is none yet.
	Own *zkconn.Watch
}

func (z *Znode) znode() *Znode { return z }

func (z *Znode) Paths() []string { return []string{z.Path} }

func (z *Znode) Checked() []string { return nil }

func (z *Znode) Exclusive() bool { return true }

// WatchOwn sets the watch on the znode, if there is none.
func (z *Znode) WatchOwn(ctx context.Context) error { return z.AwaitOwn(ctx, z.StartOwn()) }

// StartOwn is the first half of WatchOwn, which sends the request.
func (z *Znode) StartOwn() *zkconn.Watch {
	if z.Own != nil && !z.Own.HasFired() {
		return z.Own
	}
	return z.Session.StartWatch(z.Path)
}

// AwaitOwn is the second half of WatchOwn.
func (z *Znode) AwaitOwn(ctx context.Context, own *zkconn.Watch) error {
	own, err := z.Session.Await(ctx, own)
	if errors.Is(err, zk.ErrNoNode) {
		return z.WhyGone(ctx)
	}
	if err != nil {
		return err
	}
	z.Own = own
	return nil
}

// WhyGone distinguishes an eviction from the end of the session, which deletes the znode as
// well, and of which the client may learn later. It sends a write, because the servers carry
// out none for a session that has ended. ErrPlaceLost: servers that have lost transactions may
// have lost the znode.
func (z *Znode) WhyGone(ctx context.Context) error {
	for {
		err := z.Session.Multi(ctx, &zk.DeleteRequest{Path: z.Path, Version: -1}).Err()
		switch {
		case (err == nil || errors.Is(err, zk.ErrNoNode)) && z.Session.WasLost(z.Path):
			return errs.ErrPlaceLost
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return errs.ErrEvicted
		case !zkconn.Transient(err):
			return err
		}
	}
}

// Pause waits. It returns false if the session or the Client ends first.
func (z *Znode) Pause(wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-z.Session.Over():
	case <-z.Session.Client.Closing.Done():
	}
	return false
}

// Withdraw deletes a thing that nobody holds. It returns when the thing is gone, or its session has
// ended.
func Withdraw(t Thing) { _ = deleteUntilGone(t, false) }

// deleteUntilGone deletes a thing, until it is gone or its session has ended, which it returns as
// ErrSessionOver, or zk.ErrNoNode if it was gone before. Where the servers refuse, it goes on in
// longer and longer intervals. A Client that is being closed is about to end its session, which
// deletes everything at once.
func deleteUntilGone(t Thing, signal bool) error {
	z := t.znode()
	s, c := z.Session, z.Session.Client
	for wait := 100 * time.Millisecond; c.Closing.Err() == nil; {
		err := t.Delete(signal, func(ops ...any) (*zkconn.Transaction, error) { return s.Begin(s.Lifetime(), ops...) })
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return err
		case errors.Is(err, zkconn.ErrSessionOver):
			return zkconn.ErrSessionOver
		case zkconn.Transient(err):
			continue
		}
		c.Log(slog.LevelError, "cannot delete a place; it blocks the line until the session ends", "place", z.Path, "err", err)
		if !z.Pause(wait) {
			return zkconn.ErrSessionOver
		}
		wait = min(2*wait, s.Timeout())
	}
	return zkconn.ErrSessionOver
}
