package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// nothing is a function for Do.
func nothing(context.Context, *Lease) error { return nil }

// rig is what most tests of locks need: a Mutex and its path, its client, which is
// connected through a proxy, and a bare connection that bypasses the library.
type rig struct {
	t    *testing.T
	ctx  context.Context
	path string
	p    *harness.Proxy
	c    *Client
	m    *Mutex
	raw  *zk.Conn
}

// newRig returns a rig whose client has used the line once, so that a test counts the
// requests for a known line.
func newRig(t *testing.T, opts *Options) *rig {
	t.Helper()
	r := &rig{t: t, ctx: harness.Within(t, 30*time.Second), path: harness.NewPath(t), p: harness.NewProxy(t, harness.Server()), raw: harness.Raw(t)}
	r.c = dialTo(t, []string{r.p.Addr()}, opts)
	r.m = NewMutex(r.c, r.path)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	return r
}

// lock takes the lock and fails the test if it cannot.
func (r *rig) lock() *Lease {
	r.t.Helper()
	return lockOn(r.t, r.m)
}

// lockOn locks m and fails the test if it cannot.
func lockOn(t testing.TB, m *Mutex) *Lease {
	t.Helper()
	l, err := m.Lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	return l
}

// lockLater locks m in the background.
func lockLater(t testing.TB, m *Mutex) *harness.Call[*Lease] { return harness.Go(t, m.Lock) }

// inLine returns the names of the places in the line, in order.
func (r *rig) inLine() []line.PlaceName {
	ms := line.PlaceNames(harness.Children(r.t, r.raw, r.path), line.LockKinds)
	slices.SortFunc(ms, line.PlaceName.Compare)
	return ms
}

// queued waits until the line has n places.
func (r *rig) queued(n int) {
	r.t.Helper()
	harness.Eventually(r.t, "places in line", func() bool { return len(harness.Children(r.t, r.raw, r.path)) == n })
}

// asleep waits until n waiters sleep: since the proxy's last Reset each has armed two
// watches, and no request is in flight.
func (r *rig) asleep(n int) {
	r.t.Helper()
	harness.Eventually(r.t, "waiter asleep", func() bool { return r.p.CountOf("getData") >= 2*n && idle(r.c) })
	askOnce(r.t, r.c)
}

// askOnce asks what a waiter may ask once a session, after its watches are set. So a
// test that counts requests from now on does not count that.
func askOnce(t testing.TB, c *Client) {
	t.Helper()
	s, err := c.client.Live(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	s.EnforcesACLs(harness.Within(t, 20*time.Second), "/")
}

// insider makes conn a member of the library: it may write what clients without
// Options.Auth create, and nobody else may.
func insider(t testing.TB, conn *zk.Conn) *zk.Conn {
	t.Helper()
	identity := zkconn.Identity(wire.Credential{})
	require.NoError(t, conn.AddAuth(identity.Scheme, identity.Auth))
	return conn
}

// clientOf returns the Client that has this core.
func clientOf(c *line.Client) *Client { return &Client{c} }

// idle reports whether no request of the client is in flight.
func idle(c *Client) bool {
	s, _ := c.client.Session()
	return s.Inspect().Calls == 0
}

// byHand creates a place as another library would.
func (r *rig) byHand(prefix string) string {
	r.t.Helper()
	if ok, _, _ := r.raw.Exists(r.path); !ok { // reaped
		harness.MakeParents(r.t, r.raw, r.path)
	}
	name, err := r.raw.Create(r.path+"/"+prefix, []byte("by hand"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(r.t, err)
	return name
}

// tracedEvent is what a Trace's functions were called with.
type tracedEvent struct {
	Time    time.Time
	Recipe  Recipe
	Path    string
	Op      string
	Session int64
	Place   string
	Token   Token
	Ahead   int
	Err     error
}

// traceOf returns a Trace that calls note for all that happens: "start"; "queued"; for the
// end of an acquisition "granted", "passed" if there is nothing to hold, or "failed"; for
// the end of a hold "released", "lost" or "closed"; "up", "down", "expired", "over".
func traceOf(note func(what string, e tracedEvent)) *Trace {
	return &Trace{
		AcquireStart: func(_ context.Context, e TraceAcquireStart) context.Context {
			note("start", tracedEvent{Recipe: e.Recipe, Path: e.Path, Op: e.Op})
			return nil
		},
		Queued: func(_ context.Context, e TraceQueued) {
			note("queued", tracedEvent{e.Time, e.Recipe, e.Path, e.Op, e.Session, e.Place, 0, e.Ahead, nil})
		},
		AcquireEnd: func(_ context.Context, e TraceAcquireEnd) {
			what := "granted"
			if e.Err != nil {
				what = "failed"
			} else if e.Token == 0 {
				what = "passed"
			}
			note(what, tracedEvent{e.Time, e.Recipe, e.Path, e.Op, e.Session, e.Place, e.Token, e.Ahead, e.Err})
		},
		HoldEnd: func(e TraceHoldEnd) {
			what := "released"
			if errors.Is(e.Err, ErrClosed) {
				what = "closed"
			} else if e.Err != nil {
				what = "lost"
			}
			note(what, tracedEvent{e.Time, e.Recipe, e.Path, e.Op, e.Session, e.Place, e.Token, 0, e.Err})
		},
		Session: func(e TraceSession) {
			what := map[SessionState]string{
				SessionConnected: "up", SessionDisconnected: "down", SessionExpired: "expired", SessionClosed: "over",
			}[e.State]
			note(what, tracedEvent{Time: e.Time, Session: e.ID, Err: e.Err})
		},
	}
}

// events counts the calls of a Trace's functions.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) trace() *Trace {
	return traceOf(func(what string, _ tracedEvent) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, what)
	})
}

func (e *events) count(what string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Count(strings.Join(e.all, " ")+" ", what+" ")
}

// watchesOf returns the number of a client's watches.
func watchesOf(c *Client) int {
	s, _ := c.client.Session()
	return len(s.Inspect().Watches)
}

// recorder keeps the events that a Client's Trace reports.
type recorder struct {
	mu       sync.Mutex
	reported map[string][]tracedEvent
}

func newRecorder() *recorder { return &recorder{reported: map[string][]tracedEvent{}} }

func (r *recorder) trace() *Trace {
	return traceOf(func(what string, e tracedEvent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reported[what] = append(r.reported[what], e)
	})
}

func (r *recorder) of(what string) []tracedEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reported[what])
}

// nth waits until an event has been reported n times, and returns the nth.
func (r *recorder) nth(t testing.TB, n int, what string) tracedEvent {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d events %q", n, what), func() bool { return len(r.of(what)) >= n })
	return r.of(what)[n-1]
}

// sleeps waits until the client has n watches and the server has answered the
// requests that arm them. A waiter has two. A holder has one, on its own place, once
// it has held for long enough.
func sleeps(t testing.TB, c *Client, n int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d watches", n), func() bool {
		s, _ := c.client.Session()
		watches := s.Inspect().Watches
		for _, w := range watches {
			if !w.Answered {
				return false
			}
		}
		return len(watches) == n
	})
	if n > 1 {
		askOnce(t, c)
	}
}

// places returns the names of the places in a line, in order.
func places(t testing.TB, servers []string, path string) (names []string) {
	t.Helper()
	conn := harness.RawTo(t, servers)
	defer conn.Close() // go-zookeeper's Close can hang for a minute when its server dies
	_, err := conn.Sync(path)
	require.NoError(t, err)
	ms := line.PlaceNames(harness.Children(t, conn, path), line.LockKinds)
	slices.SortFunc(ms, line.PlaceName.Compare)
	for _, m := range ms {
		names = append(names, m.Name)
	}
	return names
}

// rwRig is a rig whose line is an RWLock's.
type rwRig struct {
	*rig
	w *RWLock
}

func newRWRig(t *testing.T, opts *Options) *rwRig {
	t.Helper()
	r := &rwRig{rig: &rig{t: t, ctx: harness.Within(t, 30*time.Second), path: harness.NewPath(t), p: harness.NewProxy(t, harness.Server()), raw: harness.Raw(t)}}
	r.c = dialTo(t, []string{r.p.Addr()}, opts)
	r.w = NewRWLock(r.c, r.path)
	require.NoError(t, r.w.Do(r.ctx, nothing))
	return r
}

// another returns the same lock in a session of its own.
func (r *rwRig) another() *RWLock {
	r.t.Helper()
	return NewRWLock(dial(r.t, nil), r.path)
}

// held takes a lock with the given method and fails the test if it cannot.
func held(t testing.TB, lock func(context.Context) (*Lease, error)) *Lease {
	t.Helper()
	l, err := lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	return l
}

// later takes a lock with the given method in the background.
func later(t testing.TB, lock func(context.Context) (*Lease, error)) *harness.Call[*Lease] {
	return harness.Go(t, lock)
}

// joins is like later and waits until the line has n places.
func (r *rwRig) joins(n int, lock func(context.Context) (*Lease, error)) *harness.Call[*Lease] {
	r.t.Helper()
	a := later(r.t, lock)
	r.queued(n)
	return a
}

// curatorUUID returns the nth of some UUIDs of version 4, which Curator uses.
func curatorUUID(n int) string { return fmt.Sprintf("7a1b2c3d-4e5f-4a6b-8c7d-%012d", n) }

// dial returns a Client on the shared server, closed at the end of the test.
func dial(t testing.TB, opts *Options) *Client {
	t.Helper()
	return dialTo(t, harness.Servers(), opts)
}

// dialTo returns a Client on the given servers, closed at the end of the test.
func dialTo(t testing.TB, servers []string, opts *Options) *Client {
	t.Helper()
	c, err := Dial(harness.Within(t, 30*time.Second), servers, opts)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
