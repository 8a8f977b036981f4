package hold

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The watches on the znodes of what is held or waits, and what it means that one of these is gone.

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
	remove := z.Session.Retry(nil, []any{&zk.DeleteRequest{Path: z.Path, Version: -1}})
	switch o := remove.Wait(ctx); {
	case !o.Applied() && !o.Is(zk.ErrNoNode):
		return o.Err()
	case z.Session.WasLost(z.Path):
		return errs.ErrPlaceLost
	}
	return errs.ErrEvicted
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

// WhyGone returns why the Znode is gone, see Znode.WhyGone.
func (g *Grant) WhyGone(ctx context.Context) error { return g.Thing().Node().WhyGone(ctx) }

// watch sets the watches on the znodes of a grant, which has none, or of which one has fired.
func (g *Grant) watch() {
	select {
	case <-g.Over:
		return
	default:
	}
	for _, path := range g.Thing().Paths() {
		if _, err := g.Session.Watch(g.Session.UntilAnswered(), path); errors.Is(err, zk.ErrNoNode) {
			g.znodeGone(path, &errs.Deletion{IfByOther: errs.ErrDeleted})
			return
		}
	}
}

// znodeGone ends the grant, for that cause, after the znode at path was deleted, unless the
// grant is of another thing by now.
func (g *Grant) znodeGone(path string, cause error) {
	g.awaitChange(g.Session.UntilAnswered())
	if g.needs(path) {
		g.End(errs.Lost(cause))
	}
}

// whyFailed is for a transaction of the holder's that found no znode at path, which guarded has
// returned. It returns why the grant has ended, nil if a change was quicker and the grant is of
// another thing.
func (g *Grant) whyFailed(ctx context.Context, path string) error {
	if err := g.awaitChange(ctx); err != nil {
		return err
	}
	if !g.needs(path) {
		return nil
	}
	g.znodeGone(path, errs.ErrDeleted) // servers carry out no write of a session that has ended
	return g.endIfLost()
}

// guarded returns the paths of all znodes that a Commit checks.
func (g *Grant) guarded() []string {
	t := g.Thing()
	return append(t.Paths(), t.Checked()...)
}

func (g *Grant) needs(path string) bool { return slices.Contains(g.guarded(), path) }
