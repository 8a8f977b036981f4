package zkrecipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Close in each state of the connection, and at awkward moments.

func TestCloseDoesNotWaitForASessionThatEndsMeanwhile(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	c := recipetest.DialTo(t, []string{p.Addr()}, nil)
	s, _ := recipetest.Core(c).Session()
	end := p.TakeOver() // before Close, which waits a quarter of the timeout: the rest must happen meanwhile
	called, answer := make(chan struct{}), make(chan struct{})
	go s.Call(func(*zk.Conn) error { // a slow call
		close(called)
		<-answer
		return nil
	})
	<-called
	answered := sync.OnceFunc(func() { close(answer) })
	defer answered()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	harness.Eventually(t, "draining", func() bool { return s.Inspect().Draining })
	end()
	p.Drop() // on the next connection the server answers that the session is over
	<-s.Over()
	harness.Eventually(t, "parked", func() bool { return s.Inspect().Parked })
	answered()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "Close hangs")
	}
}

func TestCloseInTheMiddleOfAHandshakeIsQuick(t *testing.T) {
	slow := 0
	for range 10 {
		p := harness.NewProxy(t, harness.Server())
		c := recipetest.DialTo(t, []string{p.Addr()}, nil)
		rule := p.On("connect", 1, harness.Hold)
		p.Drop()
		p.Await(rule)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		if time.Since(began) > 500*time.Millisecond {
			slow++
		}
		rule.Release()
	}
	require.LessOrEqual(t, slow, 1, "a goroutine that did not run for 3 ms costs a second")
}

func TestNothingIsGrantedAfterCloseHasBegun(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	s, _ := recipetest.Core(r.C).Session()
	p, err := recipetest.LineOf(r.M).Join(r.Ctx, s, placename.KindLock)
	require.NoError(t, err)
	require.True(t, p.First)
	busy := make(chan struct{})
	recipetest.Core(r.C).Tasks.Start(func() { <-busy }) // keeps Close waiting
	closed := make(chan error)
	go func() { closed <- r.C.Close() }()
	<-recipetest.Core(r.C).Closing.Done()
	_, err = p.Grant(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrClosed)
	close(busy)
	require.NoError(t, <-closed)
}

func TestCloseIsPromptWhileGoroutinesLock(t *testing.T) {
	path := harness.NewPath(t)
	for range 15 {
		c := recipetest.Dial(t, nil)
		m := zkrecipes.NewMutex(c, path)
		var live []context.Context
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					l, err := m.Lock(context.Background())
					if err != nil {
						if !errors.Is(err, zkrecipes.ErrClosed) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					live = append(live, l.Context(context.Background()))
					if len(live) == 20 {
						go c.Close()
					}
					mu.Unlock()
					l.Release()
				}
			})
		}
		wg.Wait()
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 2*time.Second)
		for _, ctx := range live {
			require.Error(t, ctx.Err())
		}
	}
}

func TestReadsOfALeaseOfAClosedClientReturnErrClosed(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	rule := r.P.On("getData", 1, harness.Hold)
	got := make(chan error)
	go func() { _, _, err := l.Get(r.Ctx, r.Path); got <- err }()
	r.P.Await(rule)
	go r.C.Close()
	<-recipetest.Core(r.C).Closing.Done()
	harness.Eventually(t, "ended", func() bool { return l.Err() != nil })
	rule.Release()
	if err := <-got; err != nil {
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	}
	r.C.Close()
}

func TestB35CloseEndsLeasesAndWaiters(t *testing.T) {
	t.Run("connected", func(t *testing.T) {
		r := recipetest.NewRig(t, nil)
		l := r.Lock()
		ctx := l.Context(r.Ctx)
		waiter := recipetest.LockLater(t, r.M)
		r.Queued(2)
		next := recipetest.LockLater(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), r.Path))
		r.Queued(3)
		closed := make(chan error, 2)
		for range 2 { // two calls at the same time
			go func() { closed <- r.C.Close() }()
		}
		require.NoError(t, <-closed)
		require.NoError(t, <-closed)
		require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrClosed)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
		_, err := waiter.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.NotErrorIs(t, err, context.Canceled)
		require.NoError(t, next.Get().Release())
		require.ErrorIs(t, l.Release(), zkrecipes.ErrClosed)
		_, err = r.M.Lock(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = r.M.TryLock(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = r.M.Contenders(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = l.Commit(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		r.Queued(0)
	})
	t.Run("disconnected", func(t *testing.T) {
		server := harness.OwnServer(t, zkserver.Config{})
		p := harness.NewProxy(t, server)
		c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{SessionTimeout: time.Second})
		m := zkrecipes.NewMutex(c, "/lock")
		l := recipetest.LockOn(t, m)
		waiter := recipetest.LockLater(t, m)
		p.Refuse(true)
		s, _ := recipetest.Core(c).Session()
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
		began := time.Now()
		err := c.Close()
		require.Less(t, time.Since(began), 3*time.Second) // usually milliseconds
		require.ErrorContains(t, err, "left to time out")
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
		_, err = waiter.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		// The session expires on the server.
		require.NoError(t, zkrecipes.NewMutex(recipetest.DialTo(t, []string{server}, nil), "/lock").Do(harness.Within(t, 10*time.Second), recipetest.Nothing))
	})
	t.Run("a server that does not answer", func(t *testing.T) {
		r := recipetest.NewRig(t, &zkrecipes.Options{SessionTimeout: 4 * time.Second})
		l := r.Lock()
		r.P.Stall()
		began := time.Now()
		require.Error(t, r.C.Close())
		require.Less(t, time.Since(began), 8*time.Second)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
	})
}

func TestB35CloseEndsLeasesAndWaitersOfBothKinds(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	path := r.Path
	var leases []*zkrecipes.Lease
	for range 3 {
		leases = append(leases, recipetest.Held(t, r.W.RLock))
	}
	writer := recipetest.Held(t, zkrecipes.NewRWLock(r.C, path+"-writer").Lock)
	leases = append(leases, writer)
	waiter := r.Joins(4, r.W.Lock)
	behind := r.Joins(5, r.W.RLock)
	next := r.Joins(6, r.Another().Lock)
	var works []context.Context
	for _, l := range leases {
		works = append(works, l.Context(r.Ctx))
	}
	rule := r.P.On("", 1, harness.Hold)
	closed := make(chan error, 1)
	go func() { closed <- r.C.Close() }()
	r.P.Await(rule)
	for i, work := range works { // before the deletions are sent
		require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrClosed)
		require.ErrorIs(t, leases[i].Err(), zkrecipes.ErrClosed)
	}
	for _, a := range []*harness.Call[*zkrecipes.Lease]{waiter, behind} {
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	}
	rule.Release()
	require.NoError(t, harness.Receive(t, closed))
	for _, l := range leases {
		require.ErrorIs(t, l.Release(), zkrecipes.ErrClosed)
	}
	require.NoError(t, next.Get().Release())
	r.Queued(0)
	require.Empty(t, harness.Children(t, r.Raw, path+"-writer"))
}

func TestCloseTakesNoTimeWhateverTheStateOfTheConnection(t *testing.T) {
	auth := zkrecipes.Options{SessionTimeout: 6 * time.Second, Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}}
	for name, lose := range map[string]func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps){
		"disconnected": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			p.Refuse(true)
			recipetest.AwaitDown(t, s)
		},
		"dialling a black hole": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			taps.Cut(t, p)
		},
		"handshake not answered": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			r := p.On("connect", 0, harness.Withhold)
			p.Drop()
			p.Await(r)
		},
		"credentials not answered": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			r := p.On("auth", 0, harness.Withhold)
			p.Drop()
			p.Await(r)
		},
		"re-arming watches": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			r := p.On("setWatches", 0, harness.Withhold)
			p.Drop()
			p.Await(r)
		},
		"requests queued": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			taps.Cut(t, p)
			recipetest.StartReaders(t, s, 40)
			harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(s.Inspect().Conn) == 16 })
		},
		"requests held back while re-arming": func(t *testing.T, p *harness.Proxy, s *session.Session, taps *harness.Taps) {
			r := p.On("setWatches", 0, harness.Withhold)
			p.Drop()
			p.Await(r)
			recipetest.StartReaders(t, s, 40)
			harness.Eventually(t, "written", func() bool {
				in := s.Inspect()
				return in.Calls == 40 && recipetest.QueuedRequests(in.Conn) == 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewProxy(t, harness.Server())
			c, s, taps := recipetest.DialTapped(t, p.Addr(), auth)
			recipetest.WatchOn(t, s, "/zookeeper")
			lose(t, p, s, taps)
			took, err := recipetest.TimedClose(t, c)
			require.Less(t, took, recipetest.PromptClose)
			require.ErrorContains(t, err, "left to time out")
			require.Equal(t, err, c.Close(), "a second Close does nothing")
		})
	}
}

// If the client has not noticed yet that the connection is lost, go-zookeeper may
// queue its closeSession request and never answer it. Its Close waits a second for
// that answer.
func TestCloseRightAfterTheConnectionWasLostIsBounded(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	c, _, _ := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
	p.Refuse(true)
	took, err := recipetest.TimedClose(t, c)
	require.Less(t, took, 3*time.Second)
	require.ErrorContains(t, err, "left to time out")
}

func TestCloseEndsTheSessionWhileConnected(t *testing.T) {
	c := recipetest.Dial(t, nil)
	m := zkrecipes.NewMutex(c, harness.NewPath(t))
	l, err := m.Lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	s, _ := recipetest.Core(c).Session()
	node := "/" + harness.NewPath(t)[6:25] // an ephemeral znode, which goes only with the session
	err = s.Call(func(conn *zk.Conn) error {
		_, err := conn.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	})
	require.NoError(t, err)
	took, err := recipetest.TimedClose(t, c)
	require.NoError(t, err)
	require.Less(t, took, recipetest.PromptClose)
	require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
	there, _, err := harness.Raw(t).Exists(node)
	require.NoError(t, err)
	require.False(t, there)
}

func TestCloseOnASilentServerTakesAtMostHalfTheTimeoutAndThreeSeconds(t *testing.T) {
	const timeout = 2 * time.Second
	p := harness.NewProxy(t, harness.Server())
	c, s, _ := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{SessionTimeout: timeout})
	l, err := zkrecipes.NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	p.Stall()
	for range 5 {
		recipetest.Core(c).Tasks.Start(func() { recipetest.ReadOnce(s, "/") })
	}
	took, err := recipetest.TimedClose(t, c)
	require.Error(t, err)
	require.Less(t, took, timeout/2+3*time.Second)
	require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
}

func TestCloseMayBeCalledTwiceAndConcurrently(t *testing.T) {
	c := recipetest.Dial(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took, err := recipetest.TimedClose(t, c)
	require.NoError(t, err)
	require.Less(t, took, recipetest.PromptClose)
	_, err = zkrecipes.NewMutex(c, "/a").Lock(harness.Within(t, time.Second))
	require.ErrorIs(t, err, zkrecipes.ErrClosed)
}
