package zkrecipes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

func nothing(context.Context, *Lease) error { return nil }

// rig is a lock, its path, a client behind a proxy, and a bare connection that
// looks on.
type rig struct {
	t    *testing.T
	ctx  context.Context
	path string
	p    *harness.Proxy
	c    *Client
	m    *Mutex
	raw  *zk.Conn
}

// newRig has the client use the line once, so that later counts are those of a
// known line.
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

func lockOn(t testing.TB, m *Mutex) *Lease {
	t.Helper()
	l, err := m.Lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	return l
}

// lockLater has a mutex locked in the background.
func lockLater(t testing.TB, m *Mutex) *harness.Call[*Lease] { return harness.Go(t, m.Lock) }

// inLine returns the places in order.
func (r *rig) inLine() []placeName {
	ms := placeNames(harness.Children(r.t, r.raw, r.path), lockKinds)
	slices.SortFunc(ms, placeName.compare)
	return ms
}

// queued waits until the line has n places.
func (r *rig) queued(n int) {
	r.t.Helper()
	harness.Eventually(r.t, "places in line", func() bool { return len(harness.Children(r.t, r.raw, r.path)) == n })
}

// armed waits until n more watches have been asked for through the proxy: until
// a waiter sleeps.
func (r *rig) asleep(n int) {
	r.t.Helper()
	harness.Eventually(r.t, "waiter asleep", func() bool { return r.p.CountOf("getData") >= 2*n && r.c.idle() })
}

// idle reports that no request is under way.
func (c *Client) idle() bool {
	s, _ := c.session()
	return s.Inspect().Calls == 0
}

// byHand makes a place as another library would.
func (r *rig) byHand(prefix string) string {
	r.t.Helper()
	if ok, _, _ := r.raw.Exists(r.path); !ok { // reaped
		harness.MakeParents(r.t, r.raw, r.path)
	}
	name, err := r.raw.Create(r.path+"/"+prefix, []byte("by hand"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(r.t, err)
	return name
}

// events records what a Trace is told.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) trace() *Trace {
	note := func(what string) func(TraceEvent) {
		return func(ev TraceEvent) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.all = append(e.all, what)
		}
	}
	return &Trace{
		Queued: note("queued"), Granted: note("granted"), Released: note("released"), Lost: note("lost"),
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

func (e *events) count(what string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Count(strings.Join(e.all, " ")+" ", what+" ")
}

func watchesOf(c *Client) int {
	s, _ := c.session()
	return len(s.Inspect().Watches)
}

// recorder keeps what a Client's Trace is told.
type recorder struct {
	mu   sync.Mutex
	told map[string][]TraceEvent
}

func newRecorder() *recorder { return &recorder{told: map[string][]TraceEvent{}} }

func (r *recorder) trace() *Trace {
	note := func(what string) func(TraceEvent) {
		return func(e TraceEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told[what] = append(r.told[what], e)
		}
	}
	return &Trace{
		Queued: note("queued"), Granted: note("granted"), Released: note("released"), Lost: note("lost"),
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

func (r *recorder) of(what string) []TraceEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told[what])
}

// nth waits until something has been told n times, and returns what then.
func (r *recorder) nth(t testing.TB, n int, what string) TraceEvent {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s told %d times", what, n), func() bool { return len(r.of(what)) >= n })
	return r.of(what)[n-1]
}

// sleeps waits until the client has n watches, all of them answered: two for a
// waiter, one for who has held for long enough.
func sleeps(t testing.TB, c *Client, n int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d watches", n), func() bool {
		s, _ := c.session()
		watches := s.Inspect().Watches
		for _, w := range watches {
			if !w.Answered {
				return false
			}
		}
		return len(watches) == n
	})
}

// places returns the names of the places in a line, in order.
func places(t testing.TB, servers []string, path string) (names []string) {
	t.Helper()
	conn := harness.RawTo(t, servers)
	defer conn.Close() // go-zookeeper's can hang for a minute when its server dies
	_, err := conn.Sync(path)
	require.NoError(t, err)
	ms := placeNames(harness.Children(t, conn, path), lockKinds)
	slices.SortFunc(ms, placeName.compare)
	for _, m := range ms {
		names = append(names, m.name)
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

// held calls what takes a lock, and fails the test if it cannot.
func held(t testing.TB, lock func(context.Context) (*Lease, error)) *Lease {
	t.Helper()
	l, err := lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	return l
}

// later is held for what goes on in the background.
func later(t testing.TB, lock func(context.Context) (*Lease, error)) *harness.Call[*Lease] {
	return harness.Go(t, lock)
}

// joins is later, and waits until it stands in line as the nth.
func (r *rwRig) joins(n int, lock func(context.Context) (*Lease, error)) *harness.Call[*Lease] {
	r.t.Helper()
	a := later(r.t, lock)
	r.queued(n)
	return a
}

// curatorUUID is the nth uuid as Curator makes them, of version 4.
func curatorUUID(n int) string { return fmt.Sprintf("7a1b2c3d-4e5f-4a6b-8c7d-%012d", n) }

// dial returns a Client on the shared server, closed at the end of the test.
func dial(t testing.TB, opts *Options) *Client {
	t.Helper()
	return dialTo(t, harness.Servers(), opts)
}

func dialTo(t testing.TB, servers []string, opts *Options) *Client {
	t.Helper()
	c, err := Dial(harness.Within(t, 30*time.Second), servers, opts)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
