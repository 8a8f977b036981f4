package recipetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Core is what stands behind a Client, for tests of the packages below the API, and its first session.
type Core struct {
	*session.Client
	S *session.Session
}

// NewCore returns a Core that is connected, and closed at the end of the test.
func NewCore(t testing.TB, servers []string, dial dialFunc) Core {
	t.Helper()
	c := line.NewClient(session.Config{
		Servers: servers, Dialer: dial, Timeout: DefaultSessionTimeout, ACL: zk.WorldACL(zk.PermAll), Idle: line.IdleLine,
		Auth:    func() []wire.Credential { return nil },
		Log:     func(slog.Level, string, ...any) {},
		OnState: func(*session.Session, session.State, string, error) {},
		Fail:    func(_, _ string, err error) error { return err },
	}, line.Settings{LastNumber: line.MaxNumber, LongLine: line.LongLine})
	require.NoError(t, c.Dial(harness.Within(t, 2*time.Minute)))
	t.Cleanup(func() { c.Close() })
	s, err := c.Live(t.Context())
	require.NoError(t, err)
	return Core{c, s}
}

// NewCore returns one for the world's server.
func (w *World) NewCore() Core {
	w.T.Helper()
	return NewCore(w.T, []string{w.Srv.Addr()}, w.Srv.DialContext)
}

// MutexLine returns the line of a Mutex.
func (c Core) MutexLine(path string) *line.Line {
	return &line.Line{
		At:          session.At{Client: c.Client, Path: path, Recipe: string(zkrecipes.RecipeMutex)},
		AlsoAccepts: string(zkrecipes.RecipeRWLock), Kinds: layout.LockKinds,
		Blocks: line.EveryoneBlocks, Foreign: layout.IsRWLockKind,
	}
}

// RWLine returns the line of an RWLock.
func (c Core) RWLine(path string) *line.Line {
	l := c.MutexLine(path)
	l.Recipe, l.AlsoAccepts, l.Blocks, l.Foreign = l.AlsoAccepts, l.Recipe, line.WritersBlock, layout.IsMutexKind
	return l
}

// Grab acquires what a line, or a kept lock, grants.
func Grab(t testing.TB, acquire func(context.Context, layout.Kind) (*hold.Grant, error), k layout.Kind) *hold.Handle {
	t.Helper()
	g, err := acquire(harness.Within(t, time.Minute), k)
	require.NoError(t, err)
	h, err := g.AddHandle(k.Exclusive())
	require.NoError(t, err)
	return h
}
