package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Gate is shut or open, and while it is shut everyone waits. It is shut while
// its znode exists (ZooKeeper's simple barrier, in "ZooKeeper Recipes and
// Solutions"), whoever made it: Curator's DistributedBarrier on the same path is
// the same gate. It stays as it is when clients go. It is only a name; values
// are safe for concurrent use.
//
// When it opens, all who wait are woken at once: that is what it is for.
type Gate struct{ line *line }

// NewGate returns the gate with that path. It sends nothing; a path that is none
// is an error at the first use.
func NewGate(c *Client, path string) *Gate {
	return &Gate{&line{c: c, path: path, recipe: "gate"}}
}

// Shut shuts the gate; one that is shut stays so. The znode bears
// Options.Identity. It blocks until a server answers, and is tried again when a
// reply is lost: so an Open that another client calls meanwhile may be undone,
// one that it calls afterwards is not. ErrUncertain: ctx ended before the
// answer came. Cost: one request and one commit, one more of each for each
// parent that is missing.
func (g *Gate) Shut(ctx context.Context) error {
	return g.turn(ctx, "shut", zk.ErrNodeExists, func(c *Client, path string) any {
		return &zk.CreateRequest{Path: path, Data: []byte(c.identity), Acl: c.acl}
	})
}

// Open opens the gate; one that is open stays so. It deletes the znode, so a
// path at which others keep data is no path for a gate. It blocks until a server
// answers, and is tried again when a reply is lost: so a Shut that another
// client calls meanwhile may be undone. ErrUncertain: ctx ended before the
// answer came. Cost: one request and one commit.
func (g *Gate) Open(ctx context.Context) error {
	return g.turn(ctx, "open", zk.ErrNoNode, func(_ *Client, path string) any {
		return &zk.DeleteRequest{Path: path, Version: -1}
	})
}

// turn repeats a write until its outcome is known, in the next session too: what
// it writes belongs to none. is is the answer where there is nothing to do.
func (g *Gate) turn(ctx context.Context, op string, is error, write func(c *Client, path string) any) error {
	r := g.self()
	if err := r.check(ctx); err != nil {
		return fail(op, r.path(), err)
	}
	ctx, done := r.c.bind(ctx)
	defer done()
	path := r.abs()
	doubt := false
	for tries := 0; tries < zkconn.MaxTries; {
		s, err := r.c.live(ctx)
		var t *zkconn.Transaction
		if err == nil {
			t, err = s.Begin(ctx, write(r.c, path))
		}
		if err == nil {
			if _, _, err = t.Wait(ctx); !errors.Is(err, zkconn.ErrNotSent) {
				doubt = doubt || zkconn.Transient(err) || errors.Is(err, zkconn.ErrSessionOver) || isContextErr(ctx, err)
			}
		}
		switch {
		case err == nil:
			return nil
		case isContextErr(ctx, err): // whatever its cause is
		case errors.Is(err, is):
			return nil
		case errors.Is(err, zk.ErrNoNode) && zkconn.Parent(path) != "":
			err = s.CreateContainer(ctx, zkconn.Parent(path), nil, r.c.acl)
			tries++
			if err == nil || errors.Is(err, zk.ErrNodeExists) {
				continue
			}
		}
		switch {
		case doubt && isContextErr(ctx, err):
			return fail(op, r.path(), fmt.Errorf("%w: %w", ErrUncertain, err))
		case !zkconn.Transient(err) && !errors.Is(err, zkconn.ErrSessionOver):
			return fail(op, r.path(), err)
		}
	}
	return fail(op, r.path(), zkconn.ErrContended)
}

// Wait returns once the gate is open, at once if it is. It blocks until then,
// until ctx ends or the Client is closed (ErrClosed), through disconnections and
// the end of the session. That it returned says that the gate was open at a
// moment after the call: it may be shut again.
//
// Cost: one request when it finds the gate shut, none while it waits, and two
// when it opens. It concludes that the gate is open behind a sync only
// (the request "sync"), because the server may be behind the others.
func (g *Gate) Wait(ctx context.Context) error {
	return g.look(ctx, "wait", func(ctx context.Context, s *session, path string) error {
		for {
			w, err := s.Watch(ctx, path)
			switch {
			case err == nil:
				select {
				case <-w.Fired():
				case <-s.Over():
					return zkconn.ErrSessionOver
				case <-ctx.Done():
					return zkconn.ContextErr(ctx)
				}
				if !w.Deleted() {
					continue
				}
			case !errors.Is(err, zk.ErrNoNode):
				return err
			}
			// The event, or the answer, may tell of a moment that is long past.
			if open, err := isOpen(ctx, s, path); open || err != nil {
				return err
			}
		}
	})
}

// IsOpen reports whether the gate is open. It blocks until a server has caught
// up with its leader and answered. Cost: two requests.
func (g *Gate) IsOpen(ctx context.Context) (open bool, err error) {
	err = g.look(ctx, "look at", func(ctx context.Context, s *session, path string) error {
		open, err = isOpen(ctx, s, path)
		return err
	})
	return open, err
}

func isOpen(ctx context.Context, s *session, path string) (bool, error) {
	if err := s.Sync(ctx, path); err != nil {
		return false, err
	}
	_, err := s.Exists(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return true, nil
	}
	return false, err
}

// look runs f until it ends otherwise than by the end of the session.
func (g *Gate) look(ctx context.Context, op string, f func(ctx context.Context, s *session, path string) error) error {
	r := g.self()
	if err := r.check(ctx); err != nil {
		return fail(op, r.path(), err)
	}
	ctx, done := r.c.bind(ctx)
	defer done()
	for {
		s, err := r.c.live(ctx)
		if err == nil {
			err = f(ctx, s, r.abs())
		}
		if !errors.Is(err, zkconn.ErrSessionOver) {
			return fail(op, r.path(), err)
		}
	}
}

func (g *Gate) self() recipe {
	if g == nil {
		return recipe{}
	}
	return recipe{g.line}
}
