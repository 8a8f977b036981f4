package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The recipe: the gate is shut while its znode exists, and all that wait watch that znode.

// Gate is shut or open, and callers wait while it is shut. It is shut while its znode
// exists (ZooKeeper's simple barrier, in "ZooKeeper Recipes and Solutions"), no
// matter which client created that: Curator's DistributedBarrier on the same path is
// the same gate. It keeps its state when clients go. It is only a name. Values are
// safe for concurrent use.
//
// When it opens, all waiters wake at once: that is what it is for.
type Gate struct{ at session.At }

// NewGate returns the gate with that path. It sends nothing. An invalid path is
// reported on first use.
func NewGate(c *Client, path string) *Gate {
	return &Gate{session.At{Client: c.core(), Path: path, Recipe: "gate"}}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (g *Gate) Path() string { return g.self().Path }

// Shut shuts the gate. If it is shut already, nothing changes. The znode's data are
// "zkrecipes/1 gate " and Options.Identity.
//
// Shut blocks until a server answers. If a reply is lost, Shut tries again. It may
// therefore undo an Open that another client calls meanwhile, but not one that is
// called afterwards. ErrUncertain is returned if ctx ends before the reply comes, or, with
// the servers' error, if they refuse an attempt after one whose reply was lost.
//
// Cost: one request and one commit, and two more of each for each missing parent.
func (g *Gate) Shut(ctx context.Context) error {
	return g.set(ctx, "shut", zk.ErrNodeExists, func(s *session.Session, path string) any {
		return &zk.CreateRequest{Path: path, Data: layout.Record(g.at.Recipe, "", s.Client.Identity), Acl: s.ACL()}
	})
}

// Open opens the gate. If it is open already, nothing changes. Open deletes the
// znode, so do not use a path at which others keep data. ErrPathInUse is returned if the
// znode has children, because then it is no gate.
//
// Open blocks until a server answers. If a reply is lost, Open tries again. It may
// therefore undo a Shut that another client calls meanwhile. For ErrUncertain, see Shut.
//
// Cost: one request and one commit.
func (g *Gate) Open(ctx context.Context) error {
	return g.set(ctx, "open", zk.ErrNoNode, func(_ *session.Session, path string) any {
		return &zk.DeleteRequest{Path: path, Version: -1}
	})
}

// set shuts or opens the gate by a write, which it repeats until the outcome is known: in the next
// session, too, because what it writes belongs to no session. is is the error of the server if there
// is nothing to do.
func (g *Gate) set(ctx context.Context, op string, is error, write func(s *session.Session, path string) any) error {
	r := g.self()
	if err := r.check(ctx); err != nil {
		return fail(op, r.Path, err)
	}
	if !r.Client.Writes.Begin() {
		return fail(op, r.Path, ErrClosed)
	}
	defer r.Client.Writes.End()
	ctx, done := r.Client.Bind(ctx)
	defer done()
	doubt := false // an attempt may have been carried out
	err := r.Client.InSessions(ctx, func(s *session.Session) error {
		for range zkconn.MaxTries {
			x := s.Retry(nil, []any{write(s, r.Abs())})
			err := x.Wait(ctx).Err()
			doubt = doubt || x.Unknown()
			parent := zkconn.Parent(r.Abs())
			if !errors.Is(err, zk.ErrNoNode) || errors.Is(err, is) || parent == "" {
				return err
			}
			if err := s.CreateContainer(ctx, parent, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
		return zkconn.ErrContended
	})
	if err == nil || errors.Is(err, is) {
		return nil
	}
	err = errs.UncertainIf(doubt, err)
	if errors.Is(err, zk.ErrNotEmpty) {
		err = fmt.Errorf("%w: the znode has children, so it is no gate: %w", ErrPathInUse, err)
	}
	return fail(op, r.Path, err)
}

// Wait returns once the gate is open. If it is open already, Wait returns at once.
// Otherwise it waits through disconnections and the end of the session. When it
// returns nil, the gate was open at a moment after the call, and may be shut again.
//
// If ctx ends, Wait returns the error of ctx. ErrClosed is returned if the Client is
// closed.
//
// Cost: three requests if the gate is open. Otherwise one when Wait finds it shut, none while it
// waits, and two when it opens. One of these is a "sync", because the server may lag behind the
// others.
func (g *Gate) Wait(ctx context.Context) error {
	r := g.self()
	if err := r.check(ctx); err != nil {
		return fail("wait", r.Path, err)
	}
	ctx, traced := startAcquire(ctx, r.Client, RecipeGate, r.Path, "wait")
	err := r.waitUntilOpen(ctx)
	traced.end(nil, err)
	return err
}

func (r recipe) waitUntilOpen(ctx context.Context) error {
	return r.whileBound(ctx, "wait", (*session.Client).BindWait, func(ctx context.Context, s *session.Session, path string) error {
		for {
			w, err := s.Watch(ctx, path)
			switch {
			case err == nil:
				if err := zkconn.Until(ctx, s.Session, w.Fired()); err != nil {
					return err
				}
				if !w.Deleted() {
					continue
				}
			case !errors.Is(err, zk.ErrNoNode):
				return err
			}
			// The event, or the reply, may be about a moment that is long past.
			if open, err := isOpen(ctx, s, path); open || err != nil {
				return err
			}
		}
	})
}

// IsOpen reports whether the gate is open. It blocks until a server has caught up with
// its leader and answered. Cost: two requests.
func (g *Gate) IsOpen(ctx context.Context) (open bool, err error) {
	err = g.self().inSessions(ctx, "look at", func(ctx context.Context, s *session.Session, path string) error {
		open, err = isOpen(ctx, s, path)
		return err
	})
	return open, err
}

func isOpen(ctx context.Context, s *session.Session, path string) (bool, error) {
	if err := s.Sync(ctx, path); err != nil {
		return false, err
	}
	_, err := s.Exists(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return true, nil
	}
	return false, err
}

func (g *Gate) self() recipe {
	if g == nil {
		return recipe{}
	}
	return recipe{At: g.at}
}
