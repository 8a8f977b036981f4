package session

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What each call of a recipe needs: that its arguments are checked, a context that ends with the Client,
// a session that lives, and what the packages above remember with the Client.

// At is an address. An address is a Client, a path and a recipe: what that recipe keeps there. The
// same address is the same lock, queue or barrier, so it is a key, too.
type At struct {
	Client *Client
	Path   string // as the user gave it
	Recipe string
}

// Abs returns the path with the Client's prefix.
func (a At) Abs() string { return a.Client.Abs(a.Path) }

// Fail wraps an error for the user.
func (a At) Fail(op string, err error) error { return a.Client.Fail(op, a.Path, err) }

// Check refuses what no call can work with: a nil client, a nil context, an
// invalid path.
func (c *Client) Check(ctx context.Context, path string) error {
	switch {
	case c == nil:
		return errors.New("nil client")
	case c.Closing == nil:
		return errors.New("client was not made by Dial")
	case ctx == nil:
		return errs.ErrNilContext
	}
	return c.CheckPath(path)
}

// CheckPath also refuses paths too long for one request.
func (c *Client) CheckPath(path string) error {
	const room = 1024 // for the rest of a request, and for the name of a place
	if err := zkconn.CheckSize(len(c.Prefix)+len(path)+room, zkconn.MaxRequest(c.MaxBuffer)); err != nil {
		return err
	}
	return CheckPath(path)
}

// Bind returns a context that ends with ctx and when the Client is closed.
func (c *Client) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.Closing, ctx)
}

// BindWait is like Bind for a call that waits for a grant or for others, which a Shutdown
// ends, too.
func (c *Client) BindWait(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.Waiting, ctx)
}

func bindTo(end, ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := func() { cancel(zkconn.Stopped(errs.ErrClosed)) }
	stop := context.AfterFunc(end, ended)
	if end.Err() != nil { // AfterFunc takes a moment, in which the call would begin
		ended()
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Session returns the newest session, or nil before the first one, and a channel
// that is closed when there is a newer one.
func (c *Client) Session() (*Session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.changed
}

// Live waits for a session that has been established and has not ended. The
// session may be disconnected for the moment.
func (c *Client) Live(ctx context.Context) (*Session, error) {
	for {
		if c.Closing.Err() != nil {
			return nil, errs.ErrClosed
		}
		if ctx.Err() != nil {
			return nil, c.ContextErr(ctx)
		}
		s, changed := c.Session()
		if s != nil && s.IsEstablished() && !s.IsOver() {
			return s, nil
		}
		var first <-chan struct{}
		if s != nil && !s.IsOver() {
			first = s.Established()
		}
		select {
		case <-first:
		case <-changed:
		case <-ctx.Done():
		case <-c.Closing.Done():
		}
	}
}

// IsValid reports whether the session is known to be alive. The wall clock is looked at
// too, since the monotonic clock stands still while a machine is suspended
// (CLOCK_MONOTONIC).
func (s *Session) IsValid() bool {
	now, until := time.Now(), s.ValidUntil()
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// InSessions calls f with the live session. If that ends meanwhile, it calls f again with the
// next one, unless what f did is uncertain.
func InSessions[A any](ctx context.Context, c *Client, f func(*Session) (A, error)) (a A, err error) {
	for {
		s, err := c.Live(ctx)
		if err == nil {
			a, err = f(s)
		}
		if !errors.Is(err, zkconn.ErrSessionOver) || errors.Is(err, errs.ErrUncertain) {
			return a, err
		}
	}
}

// InSessions is like the function for an f without a result.
func (c *Client) InSessions(ctx context.Context, f func(*Session) error) error {
	_, err := InSessions(ctx, c, func(s *Session) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// ContextErr returns why ctx has ended and, where there is no connection, why not.
func (c *Client) ContextErr(ctx context.Context) error {
	if s, _ := c.Session(); s != nil {
		return s.ContextErr(ctx)
	}
	return zkconn.ContextErr(ctx)
}

// Abs puts the prefix before a path.
func (c *Client) Abs(path string) string { return c.Prefix + path }

// Resolve returns the absolute path for a path in a lease's reads and writes, where
// "/" is the prefix itself.
func (c *Client) Resolve(path string) (string, error) {
	if path == "/" {
		if c.Prefix == "" {
			return "/", nil
		}
		return c.Prefix, nil
	}
	return c.Abs(path), c.CheckPath(path)
}

// Expired returns why a member's session has ended: the Client may have ended it.
func (c *Client) Expired() error {
	if c.Closing.Err() != nil {
		return errs.ErrClosed
	}
	return errs.ErrExpired
}

// attachments are what the packages above remember with a Client or a session. The zero value
// has none.
type attachments struct {
	mu  sync.Mutex // behind all other mutexes
	all map[reflect.Type]any
}

func (a *attachments) attached() *attachments { return a }

// Attached returns the attachment of type T to a Client or a Session. If there is none yet, it is
// what create returns, which must take no lock. create may be nil if there certainly is one.
func Attached[T any](to interface{ attached() *attachments }, create func() *T) *T {
	a := to.attached()
	a.mu.Lock()
	defer a.mu.Unlock()
	key := reflect.TypeFor[T]()
	if t, ok := a.all[key]; ok {
		return t.(*T)
	}
	if a.all == nil {
		a.all = map[reflect.Type]any{}
	}
	t := create()
	a.all[key] = t
	return t
}

// CheckPath refuses what is no path of a znode, or is the root, by the rules
// of org.apache.zookeeper.common.PathUtils, and says what is wrong with it. The error is
// ErrInvalidPath.
func CheckPath(path string) error {
	switch {
	case path == "":
		return zkconn.Errorf(zkconn.ErrInvalidPath, "path is empty")
	case path[0] != '/':
		return zkconn.Errorf(zkconn.ErrInvalidPath, `path does not begin with "/"`)
	case path == "/":
		return zkconn.Errorf(zkconn.ErrInvalidPath, "path is the root")
	case path[len(path)-1] == '/':
		return zkconn.Errorf(zkconn.ErrInvalidPath, `path ends with "/"`)
	case !utf8.ValidString(path):
		return zkconn.Errorf(zkconn.ErrInvalidPath, "path is not valid UTF-8")
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return zkconn.Errorf(zkconn.ErrInvalidPath, `path contains "//"`)
		case ".", "..":
			return zkconn.Errorf(zkconn.ErrInvalidPath, "path contains the relative element %q", name)
		}
	}
	for i, r := range path {
		if isForbidden(r) {
			return zkconn.Errorf(zkconn.ErrInvalidPath, "path contains the character %U at byte %d", r, i)
		}
	}
	return nil
}

// isForbidden reports whether no path may contain r: a control character, one for private
// use, one of the specials at the end of the basic multilingual plane, or one above it, which
// the servers see as two surrogates.
func isForbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
