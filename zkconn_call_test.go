package zkrecipes

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Calls whose caller gives up, whose connection is lost, or whose reply is unexpected.

// awaited is a context that closes a channel when Done is first called: when the
// caller has nothing left to do but to wait.
type awaited struct {
	context.Context
	once  *sync.Once
	waits chan struct{}
}

func (c awaited) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waits) })
	return c.Context.Done()
}

func newAwaited(ctx context.Context) awaited {
	return awaited{ctx, new(sync.Once), make(chan struct{})}
}

// cancelOnceWaiting calls f, cancels its context as soon as f waits, and returns what f
// returns.
func cancelOnceWaiting(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	waits := newAwaited(ctx)
	go func() {
		<-waits.waits
		cancel()
	}()
	return f(waits)
}

// silences are the ways in which a server can be silent: before it has received the
// request, or after it has carried it out.
var silences = map[string]harness.Action{"before": harness.Hold, "after": harness.HoldReply}

// The server has stopped reading, too, so that requests fill the buffers of the
// connection.
func TestCallersCanGiveUpOnAServerThatHasStopped(t *testing.T) {
	r := newRig(t, nil)
	other := NewMutex(r.c, r.path+"-other")
	require.NoError(t, other.Do(r.ctx, nothing))
	l := lockOn(t, other)
	r.p.Stall()
	var attempts []*harness.Call[*Lease]
	for range 5 {
		attempts = append(attempts, lockLater(t, r.m))
	}
	for range 8 { // more than buffers hold
		err := cancelOnceWaiting(r.ctx, func(ctx context.Context) error {
			_, err := l.Commit(ctx, OpCreate(r.path+"-large", make([]byte, 1<<20-1000), 0, nil))
			return err
		})
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, cancelOnceWaiting(r.ctx, func(ctx context.Context) error {
		_, err := r.m.TryLock(ctx)
		return err
	}), context.Canceled)
	for _, a := range attempts {
		leaves(t, a)
	}
	r.p.Drop() // what is in the buffers is lost, or not
	r.p.Resume()
	require.NoError(t, l.Release())
	require.NoError(t, r.m.Do(r.ctx, nothing), "no place blocks the line")
	require.NoError(t, other.Do(r.ctx, nothing), "no place blocks the line")
	r.queued(0)
}

// The cause of a caller's context may be any error, even one after which requests are
// retried.
func TestACallEndsWithALeaseOfAnotherClient(t *testing.T) {
	r := newRig(t, nil)
	other := newRig(t, nil)
	for what, f := range map[string]func(context.Context) error{
		"reading": func(ctx context.Context) error { _, err := r.m.Contenders(ctx); return err },
		"joining": func(ctx context.Context) error { _, err := r.m.Lock(ctx); return err },
		"opening": func(ctx context.Context) error { _, err := NewMutex(r.c, r.path+"-new").Lock(ctx); return err },
	} {
		t.Run(what, func(t *testing.T) {
			l := other.lock()
			rule := r.p.On("", 1, harness.HoldReply)
			done := make(chan error, 1)
			go func() { done <- f(l.Context(r.ctx)) }()
			r.p.Await(rule)
			other.p.Expire()
			select {
			case err := <-done:
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, ErrLost)
			case <-time.After(20 * time.Second):
				t.Error("the call does not return")
			}
			rule.Release()
			r.p.Off(rule)
		})
	}
	r.queued(0)
}

// altered is a connection that alters the replies to the library's transactions while
// on is set.
type altered struct {
	net.Conn
	on    *atomic.Bool
	alter func(frame []byte) []byte
	rest  []byte
}

func (c *altered) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		frame, err := jute.ReadFrame(c.Conn, 1<<30)
		if err != nil {
			return 0, err
		}
		if xid := jute.NewDecoder(frame[4:]).Int32(); xid <= -1001 && c.on.Load() {
			frame = c.alter(frame)
		}
		c.rest = frame
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// dialAltered returns a Client whose replies to transactions are altered while the
// flag is set.
func dialAltered(t *testing.T, alter func(frame []byte) []byte) (*Client, *atomic.Bool) {
	on := new(atomic.Bool)
	return dial(t, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &altered{Conn: nc, on: on, alter: alter}, err
	}}), on
}

func TestAnAnswerWithoutResultsIsAnError(t *testing.T) {
	c, on := dialAltered(t, func(frame []byte) []byte {
		return jute.Frame(jute.AppendInt32(append(jute.AppendInt32(slices.Clone(frame[4:20]), -1), 1), -1)) // the header that ends the results
	})
	m := NewMutex(c, harness.NewPath(t))
	require.NoError(t, m.Do(harness.Within(t, 20*time.Second), nothing))
	on.Store(true)
	_, err := m.Lock(harness.Within(t, 20*time.Second))
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorContains(t, err, "malformed reply")
	on.Store(false)
	require.NoError(t, m.Do(harness.Within(t, 20*time.Second), nothing), "the place was found and deleted")
}

// lingering is a connection whose Close returns only once free is closed.
type lingering struct {
	net.Conn
	closing chan struct{} // closed when Close is first called
	free    chan struct{}
	once    *sync.Once
}

func (c *lingering) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closing) })
	<-c.free
	return err
}

// stuck is a connection whose first write of more than 4096 bytes blocks until the
// connection is closed.
type stuck struct {
	net.Conn
	once    *sync.Once
	writing chan struct{} // closed when that write begins
	gone    context.Context
	close   context.CancelFunc
}

func (c *stuck) Write(p []byte) (int, error) {
	if len(p) > 4096 {
		c.once.Do(func() {
			close(c.writing)
			<-c.gone.Done()
		})
	}
	return c.Conn.Write(p)
}

func (c *stuck) Close() error {
	err := c.Conn.Close()
	c.close()
	return err
}

// A request that was not written when its connection was lost was certainly not
// carried out. It fails with an error that says so, or is sent again.
func TestATransactionThatWasNotWrittenIsDistinguishedFromOneThatMayHaveBeen(t *testing.T) {
	writing, once := make(chan struct{}), new(sync.Once)
	c := dial(t, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		gone, end := context.WithCancel(context.Background())
		return &stuck{nc, once, writing, gone, end}, err
	}})
	ctx, path := harness.Within(t, 30*time.Second), harness.NewPath(t)
	m := NewMutex(c, path)
	require.NoError(t, m.Do(ctx, nothing))
	l := lockOn(t, m)
	first := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx, OpCreate(path+"-first", make([]byte, 100_000), 0, nil))
		first <- err
	}()
	<-writing
	s, _ := c.client.Session()
	unsent, err := s.Start(&zk.CreateRequest{Path: path + "-unsent", Acl: c.client.ACL})
	require.NoError(t, err, "Start does not block")
	again := make(chan error, 1)
	waits := newAwaited(ctx)
	go func() {
		_, err := l.Commit(waits, OpCreate(path+"-again", nil, 0, nil))
		again <- err
	}()
	<-waits.waits
	s.BreakConnection()
	o := unsent.Wait(ctx)
	require.True(t, o.Unsent())
	require.True(t, o.Transient(), "for callers that do not distinguish the two")
	require.ErrorIs(t, <-first, ErrUncertain)
	require.NoError(t, <-again, "sent on the next connection, once")
	conn := harness.Raw(t)
	for name, want := range map[string]bool{"-first": false, "-unsent": false, "-again": true} {
		ok, _, err := conn.Exists(path + name)
		require.NoError(t, err)
		require.Equal(t, want, ok, name)
	}
	require.NoError(t, l.Release())
}
