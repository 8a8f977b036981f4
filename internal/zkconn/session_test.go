package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Sessions under faults of the network and of servers. What go-zookeeper does on its
// own is in zkconn_bare_test.go.

func TestB05QueuedRequestDoesNotRunInTheNextSession(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	c, s, taps := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
	old := s.ID()
	password := p.Password(old)
	taps.Cut(t, p)

	path := harness.NewPath(t)
	makeNode := func(conn *zk.Conn) error {
		_, err := conn.Create(fmt.Sprintf("/%d", time.Now().UnixNano()), []byte(path), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}
	const queued = 24 // more than go-zookeeper's channel holds
	errs := make(chan error, queued)
	for range queued {
		go func() {
			errs <- s.Call(makeNode)
		}()
	}
	harness.Eventually(t, "the requests are queued", func() bool { return recipetest.QueuedRequests(s.Inspect().Conn) == 16 })
	harness.EndSession(t, harness.Server(), old, password)
	p.Reset()
	taps.Release()
	for range queued {
		require.ErrorIs(t, <-errs, zkconn.ErrSessionOver)
	}

	recipetest.RequireUsable(t, c)
	next, _ := recipetest.Core(c).Session()
	require.NotEqual(t, old, next.ID())
	require.Zero(t, p.CountOf("create"), "no request has reached a server")
	require.NotZero(t, p.CountOf(recipetest.OpRelease))
}

func TestB17SilentServerIsLeftForAnother(t *testing.T) {
	t.Run("before it has answered at all", func(t *testing.T) {
		hole, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer hole.Close()
		var mu sync.Mutex
		var dialled []string
		c := recipetest.DialTo(t, recipetest.ServerNames(2), &zkrecipes.Options{
			SessionTimeout: 4 * time.Second,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialled = append(dialled, addr)
				target := harness.Server()
				if addr == dialled[0] {
					target = hole.Addr().String()
				}
				return new(net.Dialer).DialContext(ctx, network, target)
			},
		})
		recipetest.RequireUsable(t, c)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, dialled, 2)
		require.NotEqual(t, dialled[0], dialled[1])
	})

	t.Run("in the middle of a session", func(t *testing.T) {
		const timeout = 4 * time.Second
		p := harness.NewProxy(t, harness.Server())
		var mu sync.Mutex
		var dialled []string
		var left time.Time
		c := recipetest.DialTo(t, recipetest.ServerNames(2), &zkrecipes.Options{
			SessionTimeout: timeout,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialled = append(dialled, addr)
				target := p.Addr()
				if addr != dialled[0] {
					target, left = harness.Server(), time.Now()
				}
				return new(net.Dialer).DialContext(ctx, network, target)
			},
		})
		s, _ := recipetest.Core(c).Session()
		l, err := zkrecipes.NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
		require.NoError(t, err)
		lost := recipetest.ConnectionNumber(s)
		began := time.Now()
		p.Stall()
		recipetest.AwaitReconnect(t, s, lost)
		require.NoError(t, l.Err(), "the session has lived on")
		require.NoError(t, l.Release())
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, dialled, 2)
		require.NotEqual(t, dialled[0], dialled[1])
		// Half the timeout after the last answer. go-zookeeper waits two thirds.
		require.Less(t, left.Sub(began), timeout*9/10)
	})
}

func TestB38NegotiatedTimeoutIsUsed(t *testing.T) {
	for requested, negotiated := range map[time.Duration]time.Duration{ // with ticks of 500 ms
		time.Minute:      10 * time.Second,
		time.Millisecond: time.Second,
		3 * time.Second:  3 * time.Second,
	} {
		t.Run(requested.String(), func(t *testing.T) {
			harness.NeedsOwn(t) // its ticks
			c := recipetest.Dial(t, &zkrecipes.Options{SessionTimeout: requested})
			s, _ := recipetest.Core(c).Session()
			require.Equal(t, negotiated, s.Timeout())
			before := time.Now()
			l, err := zkrecipes.NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
			require.NoError(t, err)
			require.False(t, l.ValidUntil().After(time.Now().Add(negotiated-negotiated/100)))
			require.True(t, l.ValidUntil().After(before))
			require.NoError(t, l.Release())
		})
	}
}

// Before the first handshake the requested timeout says nothing about the server.
func TestB38SlowServerMayBeAskedForAShortTimeout(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "connect", For: 400 * time.Millisecond, Times: -1})
		c := w.Stranger(&zkrecipes.Options{SessionTimeout: time.Millisecond})
		s, _ := recipetest.Core(c).Session()
		require.Equal(t, time.Second, s.Timeout())
	}, zktest.SessionTimeouts(time.Second, time.Minute))
}

func TestB54SessionSurvivesDropsDuringReauthentication(t *testing.T) {
	const cuts = 102
	p := harness.NewProxy(t, harness.Server())
	taps := harness.NewTaps(p.Addr())
	// With so many names, dialling never reaches the end of the list, where it would
	// pause.
	c := recipetest.DialTo(t, recipetest.ServerNames(2*cuts), &zkrecipes.Options{
		Dialer: taps.Dial,
		Auth:   []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}},
	})
	s, _ := recipetest.Core(c).Session()
	// A lease of each kind, and a waiter behind each.
	path := harness.NewPath(t)
	var leases []*zkrecipes.Lease
	var waiting []*harness.Call[*zkrecipes.Lease]
	for i, side := range recipetest.Sides {
		path := fmt.Sprint(path, "-", i)
		leases = append(leases, recipetest.Held(t, side.Theirs(c, path).Lock))
		waiting = append(waiting, recipetest.Later(t, side.Ours(c, path).Lock))
		harness.Eventually(t, "asleep", func() bool { return len(recipetest.Watched(c)) >= 2*(i+1) && recipetest.Idle(c) })
	}
	for cut, rule := range map[string]func() *harness.Rule{
		"before the first credential": func() *harness.Rule { return p.On("auth", 0, harness.DropBefore) },
		"before the answer":           func() *harness.Rule { return p.On("auth", 0, harness.DropAfter) },
		"after the handshake's first": func() *harness.Rule { return p.On("connect", 0, harness.DropAfter) },
	} {
		r := rule()
		p.Drop()
		harness.Eventually(t, "cut "+cut, func() bool { return p.Matched(r) >= cuts/3 })
		p.Off(r)
		recipetest.AwaitUp(t, s)
	}
	for i, l := range leases {
		require.NoError(t, l.Err())
		require.True(t, waiting[i].Waiting())
		require.NoError(t, l.Release(), "the session has lived on, with its credentials")
		require.NoError(t, waiting[i].Get().Release())
	}
	recipetest.RequireUsable(t, c)
	now, _ := recipetest.Core(c).Session()
	require.Same(t, s, now)
	require.NoError(t, c.Close())
}

func TestB60WritesThatFailUnderLoadLeaveNoGoroutine(t *testing.T) {
	p := harness.NewProxy(t, harness.Server()) // its goroutines end with its connections
	before := goleak.IgnoreCurrent()
	path := harness.NewPath(t)
	broken := errors.New("broken")
	for range 10 {
		c, s, taps := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
		var failures atomic.Int32
		taps.OnWrite(func(tap *harness.Tap, op string, _ []byte) (bool, error) {
			if op != "connect" && op != "auth" && len(tap.Sent()) > 20 {
				failures.Add(1)
				return false, broken
			}
			return false, nil
		})
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				for {
					if err := recipetest.ReadOnce(s, "/"); err == zkconn.ErrSessionOver {
						return
					} else if errors.Is(err, broken) {
						t.Error("the error of the socket is returned:", err)
					}
				}
			})
		}
		for i, side := range recipetest.Sides {
			m := side.Ours(c, fmt.Sprint(path, "-", i))
			wg.Go(func() {
				for {
					if err := m.Do(context.Background(), recipetest.Nothing); errors.Is(err, zkrecipes.ErrClosed) {
						return
					}
				}
			})
		}
		harness.Eventually(t, "writes fail", func() bool { return failures.Load() >= 3 })
		took, _ := recipetest.TimedClose(t, c)
		require.Less(t, took, 10*time.Second)
		wg.Wait()
	}
	p.Drop()
	require.NoError(t, goleak.Find(before))
}
