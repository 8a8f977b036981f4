package zkrecipes

import (
	"context"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Get reads a znode's data. It blocks, through disconnections and into the next session,
// until a server answers, ctx ends (its error is returned) or the Client is closed
// (ErrClosed). zk.ErrNoNode is returned if there is no znode. path is under Options.Prefix,
// and "/" is the prefix itself.
//
// The server may lag behind the others. Call Ping first to see at least what was committed
// before the call. A read that must belong to a lock's holder is Lease.Get.
//
// Get costs one request.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return clientRead(ctx, c, "get", path, (*session.Session).Get)
}

// Children is like Get but lists a znode's children, by their names alone, in lexical order.
func (c *Client) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	names, stat, err := clientRead(ctx, c, "list", path, (*session.Session).Children)
	return ownNames(names), stat, err
}

// Exists is like Get but returns a znode's Stat alone.
func (c *Client) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	_, stat, err := clientRead(ctx, c, "look at", path, func(s *session.Session, ctx context.Context, path string) (none struct{}, _ *zk.Stat, _ error) {
		stat, err := s.Exists(ctx, path)
		return none, stat, err
	})
	return stat, err
}

func clientRead[A any](ctx context.Context, c *Client, op, path string, read func(*session.Session, context.Context, string) (A, *zk.Stat, error)) (a A, stat *zk.Stat, err error) {
	err = c.inSessions(ctx, op, path, func(ctx context.Context, s *session.Session, abs string) error {
		a, stat, err = read(s, ctx, abs)
		return err
	})
	return a, stat, err
}

// inSessions calls f with the session and the absolute path, and again with the next session
// for as long as sessions end before f does.
func (c *Client) inSessions(ctx context.Context, op, path string, f func(ctx context.Context, s *session.Session, abs string) error) error {
	abs, err := "", c.check(ctx)
	if err == nil {
		abs, err = c.client.Resolve(path)
	}
	if err != nil {
		return fail(op, path, err)
	}
	ctx, done := c.client.Bind(ctx)
	defer done()
	return fail(op, path, c.client.InSessions(ctx, func(s *session.Session) error { return f(ctx, s, abs) }))
}

// ownNames returns names that share no memory with others, so that a caller that keeps one
// keeps no more than that, in lexical order.
func ownNames(names []string) []string {
	own := make([]string, len(names))
	for i, name := range names {
		own[i] = strings.Clone(name)
	}
	slices.Sort(own)
	return own
}
