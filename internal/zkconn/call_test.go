package zkconn_test

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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Calls whose caller gives up, whose connection is lost, or whose reply is unexpected.

// cancelOnceWaiting calls f, cancels its context as soon as f waits, and returns what f
// returns.
func cancelOnceWaiting(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	waits := recipetest.NewAwaited(ctx)
	go func() {
		<-waits.Waits
		cancel()
	}()
	return f(waits)
}

// The server has stopped reading, too, so that requests fill the buffers of the
// connection.
func TestCallersCanGiveUpOnAServerThatHasStopped(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	other := zkrecipes.NewMutex(r.C, r.Path+"-other")
	require.NoError(t, other.Do(r.Ctx, recipetest.Nothing))
	l := recipetest.LockOn(t, other)
	r.P.Stall()
	var attempts []*harness.Call[*zkrecipes.Lease]
	for range 5 {
		attempts = append(attempts, recipetest.LockLater(t, r.M))
	}
	for range 8 { // more than buffers hold
		err := cancelOnceWaiting(r.Ctx, func(ctx context.Context) error {
			_, err := l.Commit(ctx, zkrecipes.OpCreate(r.Path+"-large", make([]byte, 1<<20-1000), 0, nil))
			return err
		})
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, cancelOnceWaiting(r.Ctx, func(ctx context.Context) error {
		_, err := r.M.TryLock(ctx)
		return err
	}), context.Canceled)
	for _, a := range attempts {
		recipetest.Leaves(t, a)
	}
	r.P.Drop() // what is in the buffers is lost, or not
	r.P.Resume()
	require.NoError(t, l.Release())
	require.NoError(t, r.M.Do(r.Ctx, recipetest.Nothing), "no place blocks the line")
	require.NoError(t, other.Do(r.Ctx, recipetest.Nothing), "no place blocks the line")
	r.Queued(0)
}

// The cause of a caller's context may be any error, even one after which requests are
// retried.
func TestACallEndsWithALeaseOfAnotherClient(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	other := recipetest.NewRig(t, nil)
	for what, f := range map[string]func(context.Context) error{
		"reading": func(ctx context.Context) error { _, err := r.M.Contenders(ctx); return err },
		"joining": func(ctx context.Context) error { _, err := r.M.Lock(ctx); return err },
		"opening": func(ctx context.Context) error {
			_, err := zkrecipes.NewMutex(r.C, r.Path+"-new").Lock(ctx)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := other.Lock()
			rule := r.P.On("", 1, harness.HoldReply)
			done := make(chan error, 1)
			go func() { done <- f(l.Context(r.Ctx)) }()
			r.P.Await(rule)
			other.P.Expire()
			select {
			case err := <-done:
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, zkrecipes.ErrLost)
			case <-time.After(20 * time.Second):
				t.Error("the call does not return")
			}
			rule.Release()
			r.P.Off(rule)
		})
	}
	r.Queued(0)
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
func dialAltered(t *testing.T, alter func(frame []byte) []byte) (*zkrecipes.Client, *atomic.Bool) {
	on := new(atomic.Bool)
	return recipetest.Dial(t, &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &altered{Conn: nc, on: on, alter: alter}, err
	}}), on
}

func TestAnAnswerWithoutResultsIsAnError(t *testing.T) {
	c, on := dialAltered(t, func(frame []byte) []byte {
		return jute.Frame(jute.AppendInt32(append(jute.AppendInt32(slices.Clone(frame[4:20]), -1), 1), -1)) // the header that ends the results
	})
	m := zkrecipes.NewMutex(c, harness.NewPath(t))
	require.NoError(t, m.Do(harness.Within(t, 20*time.Second), recipetest.Nothing))
	on.Store(true)
	_, err := m.Lock(harness.Within(t, 20*time.Second))
	require.ErrorIs(t, err, zkrecipes.ErrUncertain)
	require.ErrorContains(t, err, "malformed reply")
	on.Store(false)
	require.NoError(t, m.Do(harness.Within(t, 20*time.Second), recipetest.Nothing), "the place was found and deleted")
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
	c := recipetest.Dial(t, &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		gone, end := context.WithCancel(context.Background())
		return &stuck{nc, once, writing, gone, end}, err
	}})
	ctx, path := harness.Within(t, 30*time.Second), harness.NewPath(t)
	m := zkrecipes.NewMutex(c, path)
	require.NoError(t, m.Do(ctx, recipetest.Nothing))
	l := recipetest.LockOn(t, m)
	first := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx, zkrecipes.OpCreate(path+"-first", make([]byte, 100_000), 0, nil))
		first <- err
	}()
	<-writing
	s, _ := recipetest.Core(c).Session()
	unsent, err := s.Start(&zk.CreateRequest{Path: path + "-unsent", Acl: recipetest.Core(c).ACL})
	require.NoError(t, err, "Start does not block")
	again := make(chan error, 1)
	waits := recipetest.NewAwaited(ctx)
	go func() {
		_, err := l.Commit(waits, zkrecipes.OpCreate(path+"-again", nil, 0, nil))
		again <- err
	}()
	<-waits.Waits
	s.BreakConnection()
	o := unsent.Wait(ctx)
	require.True(t, o.Unsent())
	require.True(t, o.Transient(), "for callers that do not distinguish the two")
	require.ErrorIs(t, <-first, zkrecipes.ErrUncertain)
	require.NoError(t, <-again, "sent on the next connection, once")
	conn := harness.Raw(t)
	for name, want := range map[string]bool{"-first": false, "-unsent": false, "-again": true} {
		ok, _, err := conn.Exists(path + name)
		require.NoError(t, err)
		require.Equal(t, want, ok, name)
	}
	require.NoError(t, l.Release())
}
