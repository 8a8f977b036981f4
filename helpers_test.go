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
)

func nothing(context.Context, *Lease) error { return nil }

// rig is a lock, its path, a client behind a proxy, and a bare connection that
// looks on.
type rig struct {
	t    *testing.T
	ctx  context.Context
	path string
	p    *proxy
	c    *Client
	m    *Mutex
	raw  *zk.Conn
}

// newRig has the client use the line once, so that later counts are those of a
// known line.
func newRig(t *testing.T, opts *Options) *rig {
	t.Helper()
	r := &rig{t: t, ctx: within(t, 30*time.Second), path: newPath(t), p: newProxy(t, harness.shared[0]), raw: raw(t)}
	r.c = dialTo(t, []string{r.p.addr()}, opts)
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
	l, err := m.Lock(within(t, 20*time.Second))
	require.NoError(t, err)
	return l
}

// attempt is a call of Lock that goes on in the background.
type attempt struct {
	t      testing.TB
	cancel context.CancelCauseFunc
	lease  *Lease
	err    error
	done   chan struct{}
}

func lockLater(t testing.TB, m *Mutex) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	a := &attempt{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lease, a.err = m.Lock(ctx)
	}()
	return a
}

// wait returns what Lock did, in bounded time.
func (a *attempt) wait() (*Lease, error) {
	a.t.Helper()
	select {
	case <-a.done:
		return a.lease, a.err
	case <-time.After(20 * time.Second):
		require.FailNow(a.t, "Lock does not return")
		return nil, nil
	}
}

// going is a call that goes on in the background.
type going[R any] struct {
	t      testing.TB
	cancel context.CancelCauseFunc
	result R
	err    error
	done   chan struct{}
}

func goes[R any](t testing.TB, f func(context.Context) (R, error)) *going[R] {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	g := &going[R]{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.result, g.err = f(ctx)
	}()
	return g
}

// does is goes for a call that returns no more than an error.
func does(t testing.TB, f func(context.Context) error) *going[struct{}] {
	return goes(t, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
}

// wait returns what the call did, in bounded time.
func (g *going[R]) wait() (R, error) {
	g.t.Helper()
	select {
	case <-g.done:
	case <-time.After(30 * time.Second):
		require.FailNow(g.t, "the call does not return")
	}
	return g.result, g.err
}

func (g *going[R]) waiting() bool {
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

func (a *attempt) granted() *Lease {
	a.t.Helper()
	l, err := a.wait()
	require.NoError(a.t, err)
	return l
}

func (a *attempt) waiting() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// children returns what stands under a path, nothing where there is no znode.
func children(t testing.TB, conn *zk.Conn, path string) []string {
	t.Helper()
	names, _, err := conn.Children(path)
	if err != zk.ErrNoNode {
		require.NoError(t, err)
	}
	return names
}

// eventually waits for something to become true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, 5*time.Millisecond, what)
}

// inLine returns the places in order.
func (r *rig) inLine() []member {
	ms := members(children(r.t, r.raw, r.path), lockKinds)
	slices.SortFunc(ms, member.compare)
	return ms
}

// queued waits until the line has n places.
func (r *rig) queued(n int) {
	r.t.Helper()
	eventually(r.t, "places in line", func() bool { return len(children(r.t, r.raw, r.path)) == n })
}

// armed waits until n more watches have been asked for through the proxy: until
// a waiter sleeps.
func (r *rig) asleep(n int) {
	r.t.Helper()
	eventually(r.t, "waiter asleep", func() bool { return r.p.countOf("getData") >= 2*n && r.c.idle() })
}

// idle reports that no request is under way.
func (c *Client) idle() bool {
	s, _ := c.session()
	select {
	case <-s.calling.done():
		return true
	default:
		return false
	}
}

// byHand makes a place as another library would.
func (r *rig) byHand(prefix string) string {
	r.t.Helper()
	if ok, _, _ := r.raw.Exists(r.path); !ok { // reaped
		makeParents(r.t, r.raw, r.path)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// trail keeps what a Client's Trace is told.
type trail struct {
	mu   sync.Mutex
	told map[string][]TraceEvent
}

func newTrail() *trail { return &trail{told: map[string][]TraceEvent{}} }

func (r *trail) trace() *Trace {
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

func (r *trail) of(what string) []TraceEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told[what])
}

// nth waits until something has been told n times, and returns what then.
func (r *trail) nth(t testing.TB, n int, what string) TraceEvent {
	t.Helper()
	eventually(t, fmt.Sprintf("%s told %d times", what, n), func() bool { return len(r.of(what)) >= n })
	return r.of(what)[n-1]
}

// sleeps waits until the client has n watches, all of them answered: two for a
// waiter, one for who has held for long enough.
func sleeps(t testing.TB, c *Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d watches", n), func() bool {
		s, _ := c.session()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range s.watches {
			if w.confirmed == 0 {
				return false
			}
		}
		return len(s.watches) == n
	})
}

// places returns the names of the places in a line, in order.
func places(t testing.TB, servers []string, path string) (names []string) {
	t.Helper()
	conn := rawTo(t, servers)
	defer conn.Close() // go-zookeeper's can hang for a minute when its server dies
	_, err := conn.Sync(path)
	require.NoError(t, err)
	ms := members(children(t, conn, path), lockKinds)
	slices.SortFunc(ms, member.compare)
	for _, m := range ms {
		names = append(names, m.name)
	}
	return names
}

// waitFor returns why a context has ended, in bounded time.
func waitFor(t testing.TB, ctx context.Context) error {
	t.Helper()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the context does not end")
		return nil
	}
}

// rwRig is a rig whose line is an RWLock's.
type rwRig struct {
	*rig
	w *RWLock
}

func newRWRig(t *testing.T, opts *Options) *rwRig {
	t.Helper()
	r := &rwRig{rig: &rig{t: t, ctx: within(t, 30*time.Second), path: newPath(t), p: newProxy(t, harness.shared[0]), raw: raw(t)}}
	r.c = dialTo(t, []string{r.p.addr()}, opts)
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
	l, err := lock(within(t, 20*time.Second))
	require.NoError(t, err)
	return l
}

// later is held for what goes on in the background.
func later(t testing.TB, lock func(context.Context) (*Lease, error)) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	a := &attempt{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lease, a.err = lock(ctx)
	}()
	return a
}

// joins is later, and waits until it stands in line as the nth.
func (r *rwRig) joins(n int, lock func(context.Context) (*Lease, error)) *attempt {
	r.t.Helper()
	a := later(r.t, lock)
	r.queued(n)
	return a
}

// expire ends the client's session as its expiry would. No connection is made
// meanwhile: a client that is quick takes its session back, and the server closes
// the other connection (ZooKeeperServer.processConnectRequest).
func expire(p *proxy) {
	p.t.Helper()
	refuse := func(refuse bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refuse = refuse
	}
	refuse(true)
	defer refuse(false)
	p.expire()
}

// curatorUUID is the nth uuid as Curator makes them, of version 4.
func curatorUUID(n int) string { return fmt.Sprintf("7a1b2c3d-4e5f-4a6b-8c7d-%012d", n) }
