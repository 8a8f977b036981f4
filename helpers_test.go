package zkrecipes

import (
	"context"
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
