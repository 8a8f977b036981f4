package zkrecipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// locker is the common interface of Mutex and of either side of an RWLock.
type locker interface {
	Lock(context.Context) (*Lease, error)
	TryLock(context.Context) (*Lease, error)
	Do(context.Context, func(context.Context, *Lease) error) error
	Contenders(context.Context) ([]Contender, error)
}

// reading is the read side of an RWLock.
type reading struct{ *RWLock }

func (w reading) Lock(ctx context.Context) (*Lease, error) { return w.RLock(ctx) }

func (w reading) TryLock(ctx context.Context) (*Lease, error) { return w.TryRLock(ctx) }

func (w reading) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return w.RDo(ctx, f)
}

func mutex(c *Client, path string) locker { return NewMutex(c, path) }

func writer(c *Client, path string) locker { return NewRWLock(c, path) }

func reader(c *Client, path string) locker { return reading{NewRWLock(c, path)} }

// lineOf returns the line of a lock.
func lineOf(l locker) *line.Line {
	switch l := l.(type) {
	case *Mutex:
		return l.line
	case *RWLock:
		return l.line
	case reading:
		return l.line
	}
	panic("unknown kind of lock")
}

// side is a way to hold a lock, with a rival that it excludes. Most tests of locks
// run once for each side.
type side struct {
	name    string
	ours    func(*Client, string) locker
	theirs  func(*Client, string) locker // the rival: it excludes ours and is excluded by it
	kind    line.Kind                    // of the places of ours
	release string                       // the request that releases ours
	freed   string                       // the request that releases the rival
	by      string                       // another library's name prefix for a place like the rival's
}

var sides = []side{
	{"mutex", mutex, mutex, line.KindLock, opRelease, opRelease, "lock-"},
	{"writer", writer, writer, line.KindWrite, opRelease, opRelease, "_c_" + curatorUUID(0) + "-__WRIT__"},
	{"writer behind a reader", writer, reader, line.KindWrite, opRelease, opReadRelease, "_c_" + curatorUUID(0) + "-__READ__"},
	{"reader", reader, writer, line.KindRead, opReadRelease, opRelease, "_c_" + curatorUUID(0) + "-__WRIT__"},
}

// signalled reports whether a rival signals its successor when it releases.
func (s side) signalled() bool { return s.freed == opRelease }

// sideRig is a rig for one side. m uses the rig's client, rival has another session.
type sideRig struct {
	*rig
	side
	m, rival locker
}

func eachSide(t *testing.T, f func(t *testing.T, r *sideRig)) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) { f(t, side.rig(t, nil)) })
	}
}

// rig returns a sideRig whose client has used the line once.
func (s side) rig(t *testing.T, opts *Options) *sideRig {
	r := &sideRig{side: s, rig: &rig{t: t, ctx: harness.Within(t, 30*time.Second), path: harness.NewPath(t), p: harness.NewProxy(t, harness.Server()), raw: harness.Raw(t)}}
	r.c = dialTo(t, []string{r.p.Addr()}, opts)
	r.m, r.rival = s.ours(r.c, r.path), s.theirs(dial(t, nil), r.path)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	r.p.Reset()
	return r
}

// joins starts to lock l and waits until there are n places in the line.
func (r *sideRig) joins(n int, l locker) *harness.Call[*Lease] {
	r.t.Helper()
	a := later(r.t, l.Lock)
	r.queued(n)
	return a
}

// waits makes the rig's own client wait in line as the n-th place, asleep.
func (r *sideRig) waits(n int) *harness.Call[*Lease] {
	r.t.Helper()
	r.p.Reset()
	a := r.joins(n, r.m)
	r.asleep(1)
	r.p.Reset()
	return a
}

// watchesLeft waits until the client has no more than n watches.
func (r *sideRig) watchesLeft(n int) {
	r.t.Helper()
	harness.Eventually(r.t, "watches", func() bool { return watchesOf(r.c) <= n })
}
