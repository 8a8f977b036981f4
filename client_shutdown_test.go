package zkrecipes_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Shutdown in each state, and at awkward moments. A goroutine that it left behind would
// keep the bubble from ending.

// shutsDown calls Shutdown in the background, and returns once all goroutines sleep.
func shutsDown(t testing.TB, c *zkrecipes.Client) *harness.Call[struct{}] {
	a := harness.GoErr(t, c.Shutdown)
	synctest.Wait()
	return a
}

// errOf is a call of which only the error counts.
func errOf[T any](call func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error { _, err := call(ctx); return err }
}

func TestShutdownOfAClientThatHoldsNothingClosesIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		require.EqualError(t, (*zkrecipes.Client)(nil).Shutdown(t.Context()), `zkrecipes: shut down "": nil client`)
		require.EqualError(t, new(zkrecipes.Client).Shutdown(t.Context()), `zkrecipes: shut down "": client was not made by Dial`)
		c, away := w.Client(nil), w.Client(nil)
		var none context.Context
		require.EqualError(t, c.Shutdown(none), "zkrecipes: shut down "+w.Srv.Addr()+": nil context")
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing), "it goes on")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Shutdown(ended), "there is nothing to wait for")
		require.NoError(t, c.Shutdown(t.Context()))
		require.NoError(t, c.Close())
		require.Len(t, w.Srv.Sessions(), 1)

		w.Away(away)
		closed := away.Close()
		require.ErrorIs(t, closed, zkrecipes.ErrSessionNotClosed)
		require.Equal(t, closed, away.Shutdown(t.Context()), "what Close returned")
		w.Back()
	})
}

// The holder goes on working, and nobody else of its client begins.
func TestShutdownWaitsForALeaseThatGoesOnWorking(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx := w.Client(nil), t.Context()
		m, q, gate, slots := zkrecipes.NewMutex(c, w.Path), zkrecipes.NewQueue(c, "/jobs", &zkrecipes.QueueOptions{MaxLen: 5}), zkrecipes.NewGate(c, "/gate"), zkrecipes.NewSemaphore(c, "/slots", 1)
		l := recipetest.LockOn(t, m)
		next := w.LockLater(w.Stranger(nil))
		shutdown := shutsDown(t, c)
		time.Sleep(time.Hour)
		require.True(t, shutdown.Waiting())
		w.Stands(l)
		require.NoError(t, l.Context(ctx).Err())
		require.NoError(t, first(l.Commit(ctx, zkrecipes.OpCreate("/data", []byte("x"), 0, nil))))
		data, _, err := l.Get(ctx, "/data")
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		again, err := m.Lock(l.Reentrant(ctx))
		require.NoError(t, err)
		recipetest.PutOn(t, q, "job")
		n, err := q.Len(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, gate.Shut(ctx))
		require.NoError(t, slots.Resize(ctx, 2))

		require.Empty(t, w.Requests(func() {
			for _, try := range []func(context.Context) error{
				errOf(zkrecipes.NewMutex(c, "/free").TryLock), errOf(zkrecipes.NewRWLock(c, "/free").TryRLock), errOf(slots.TryAcquire), errOf(q.TryTake),
			} {
				require.ErrorIs(t, try(ctx), zkrecipes.ErrClosed)
			}
		}))

		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, shutdown.Waiting(), "the re-entry holds")
		require.NoError(t, again.Release())
		w.IsShut(c, shutdown)
		require.NoError(t, next.Get().Release())
		require.ErrorIs(t, gate.Open(ctx), zkrecipes.ErrClosed)
		require.ErrorIs(t, slots.Resize(ctx, 3), zkrecipes.ErrClosed)
		require.ErrorIs(t, errOf(q.Purge)(ctx), zkrecipes.ErrClosed)
	})
}

// Each call waits for another client, or for what does not come.
func TestShutdownEndsCallsThatWait(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		recipetest.LockOn(t, zkrecipes.NewMutex(other, "/locks/b"))
		recipetest.Held(t, zkrecipes.NewRWLock(other, "/rw").Lock)
		recipetest.Acquire(t, zkrecipes.NewSemaphore(other, "/slots", 1), 1)
		recipetest.Campaigns(t, zkrecipes.NewElection(other, "/leads"), "other")
		require.NoError(t, zkrecipes.NewGate(other, "/gate").Shut(t.Context()))
		kept := zkrecipes.NewMutex(c, "/locks/b", zkrecipes.KeepFor(time.Minute))
		election, jobs := zkrecipes.NewElection(c, "/leads"), zkrecipes.NewQueue(c, "/jobs", &zkrecipes.QueueOptions{Workers: 3})
		leads := func(ctx context.Context) error {
			return election.Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		}
		calls := map[string]func(context.Context) error{
			"Lock":        errOf(zkrecipes.NewMutex(c, "/locks/b").Lock),
			"Lock kept":   errOf(kept.Lock),
			"Lock kept 2": errOf(kept.Lock),
			"RLock":       errOf(zkrecipes.NewRWLock(c, "/rw").RLock),
			"write Lock":  errOf(zkrecipes.NewRWLock(c, "/rw").Lock),
			"LockAll": errOf(func(ctx context.Context) (*zkrecipes.Leases, error) {
				return zkrecipes.LockAll(ctx, recipetest.Mutexes(c, "/locks/a", "/locks/b")...)
			}),
			"Take":     errOf(jobs.Take),
			"TakeN":    get(jobs.TakeN, 3),
			"Acquire":  errOf(zkrecipes.NewSemaphore(c, "/slots", 1).Acquire),
			"Campaign": get(election.Campaign, nil),
			"Lead":     leads,
			"Lead 2":   leads,
			"Wait":     errOf(zkrecipes.NewBarrier(c, "/barrier", 2).Wait),
			"Enter":    errOf(zkrecipes.NewDoubleBarrier(c, "/double", 2).Enter),
			"Gate":     zkrecipes.NewGate(c, "/gate").Wait,
			"Serve":    with(jobs.Serve, func(context.Context, *zkrecipes.Item) error { return errors.New("called") }),
		}
		under := map[string]*harness.Call[struct{}]{}
		for name, call := range calls {
			under[name] = harness.GoErr(t, call)
		}
		time.Sleep(time.Minute)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)) // so that the session lives on
		shutdown := shutsDown(t, c)
		time.Sleep(time.Second)
		require.True(t, shutdown.Waiting())
		for name, call := range under {
			require.False(t, call.Waiting(), name)
			_, err := call.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrClosed, name)
			require.NotErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, calls[name](t.Context()), zkrecipes.ErrClosed, "%s once more", name)
		}
		for path, others := range map[string]int{
			"/locks/a": 0, "/locks/b": 1, "/rw": 1, "/jobs/line": 0, "/slots/line": 0, "/leads": 2, "/double": 0, "/barrier": 0,
		} {
			require.Len(t, w.Srv.Children(path), others, path)
		}
		require.NoError(t, l.Release())
		w.IsShut(c, shutdown)
	})
}

func TestShutdownWaitsForItemsAndForTheHandlersOfServe(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		taken, served, done := zkrecipes.NewQueue(c, "/taken", nil), zkrecipes.NewQueue(c, "/served", &zkrecipes.QueueOptions{Workers: 2}), zkrecipes.NewQueue(c, "/done", nil)
		recipetest.PutOn(t, taken, "acked", "moved", "given back")
		items, err := taken.TakeN(t.Context(), 3)
		require.NoError(t, err)
		recipetest.PutOn(t, served, "fails", "works", "stays")
		serving := recipetest.ServeLater(t, served, func(ctx context.Context, it *zkrecipes.Item) error {
			if string(it.Data) == "fails" {
				time.Sleep(time.Second)
				return recipetest.ErrHandler
			}
			time.Sleep(time.Minute)
			_, err := done.Put(ctx, it.Data)
			return errors.Join(err, ctx.Err())
		})
		time.Sleep(time.Second / 2)
		shutdown := shutsDown(t, c)
		time.Sleep(30 * time.Second)
		require.True(t, serving.Waiting(), "the handler works")
		recipetest.Fails(t, serving, zkrecipes.ErrClosed)
		time.Sleep(time.Hour)
		require.NoError(t, items[0].Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil)))
		_, err = items[1].AckPut(t.Context(), done, [][]byte{[]byte("x")})
		require.NoError(t, err)
		require.True(t, shutdown.Waiting())
		require.NoError(t, items[2].Nack(t.Context()))
		w.IsShut(c, shutdown)
		for path, left := range map[string][]string{"/done": {"works", "x"}, "/served": {"fails", "stays"}, "/taken": {"given back"}} {
			require.Equal(t, left, recipetest.Drain(t, zkrecipes.NewQueue(w.Stranger(nil), path, nil)))
		}
	})
}

func TestShutdownIsAsAbruptAsCloseOnceItsContextEnds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		next := w.LockLater(w.Stranger(nil))
		patient := shutsDown(t, c)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := c.Shutdown(soon)
		require.Equal(t, time.Minute, time.Since(began).Round(time.Second))
		require.EqualError(t, err, "zkrecipes: shut down "+w.Srv.Addr()+
			": context deadline exceeded (not over: 1 leases, items and calls of Serve, Lead or Leave)")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
		require.ErrorIs(t, l.Release(), zkrecipes.ErrClosed)
		w.IsShut(c, patient)
		require.NoError(t, next.Get().Release())

		c = w.Client(nil)
		l = recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		patient = shutsDown(t, c)
		require.NoError(t, c.Close(), "which ends it, too")
		w.IsShut(c, patient)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
	})
}

func TestShutdownByAHandlerWaitsForItself(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		recipetest.PutOn(t, q, "a")
		serving := q.Serve(t.Context(), func(ctx context.Context, it *zkrecipes.Item) error {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			require.ErrorIs(t, c.Shutdown(soon), context.DeadlineExceeded)
			return nil
		})
		require.ErrorIs(t, serving, zkrecipes.ErrClosed)
	})
}

func TestShutdownWhileDisconnectedWaitsForLeasesOnly(t *testing.T) {
	for _, released := range []bool{true, false} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c := w.Client(nil)
			l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
			w.Away(c)
			soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			shutdown := harness.GoErr(t, func(context.Context) error { return c.Shutdown(soon) })
			time.Sleep(time.Second)
			require.True(t, shutdown.Waiting())
			if released {
				require.NoError(t, l.Release())
			}
			_, err := shutdown.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
			require.Equal(t, !released, errors.Is(err, context.DeadlineExceeded))
			w.Back()
		})
	}
}

// The connection is lost, so Close ends the session at once.
func TestAReleaseThatBeganBeforeCloseIsNoError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		above, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ending atomic.Bool
		closing := make(chan struct{})
		l.Context(recipetest.Hooked{Context: above, F: func() {
			if ending.Load() {
				<-closing
			}
		}})
		w.Away(c)
		ending.Store(true)
		release := harness.GoErr(t, func(context.Context) error { return l.Release() })
		synctest.Wait()
		closed := harness.GoErr(t, func(context.Context) error { return c.Close() })
		synctest.Wait()
		close(closing)
		_, err := release.Wait()
		require.NoError(t, err)
		_, err = closed.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
		w.Back()
	})
}

// The place has its turn while Close or Shutdown begins.
func TestNothingIsGrantedAfterShutdownHasBegun(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(c *zkrecipes.Client, done chan struct{}){
		"Close": func(c *zkrecipes.Client, done chan struct{}) {
			busy := make(chan struct{})
			c.Core().Tasks.Start(func() { <-busy }) // keeps Close waiting
			go func() { defer close(done); _ = c.Close() }()
			<-c.Core().Closing.Done()
			time.AfterFunc(time.Minute, func() { close(busy) })
		},
		"Shutdown": func(c *zkrecipes.Client, done chan struct{}) {
			over := c.Core().Held.Stop() // the calls do not know of it yet
			go func() { defer close(done); <-over }()
		},
	}, func(t *testing.T, w *recipetest.World, begin func(c *zkrecipes.Client, done chan struct{})) {
		c := w.Client(nil)
		kept := zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Hour))
		require.NoError(t, kept.Do(t.Context(), recipetest.Nothing))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		s, _ := c.Core().Session()
		p, _, err := zkrecipes.NewMutex(c, "/other").Line().Join(t.Context(), s, layout.KindLock)
		require.NoError(t, err)
		require.True(t, p.HasTurn)
		done := make(chan struct{})
		begin(c, done)
		require.ErrorIs(t, errOf(p.Grant)(t.Context()), zkrecipes.ErrClosed)
		waits := recipetest.LockLater(t, kept)
		synctest.Wait()
		if strings.HasSuffix(t.Name(), "/Shutdown") {
			require.True(t, waits.Waiting())
			require.NoError(t, l.Release())
		}
		<-done
		require.NoError(t, c.Shutdown(t.Context()))
		recipetest.Fails(t, waits, zkrecipes.ErrClosed)
	})
}

// take returns how to ask what is held for its error, and how to give it back.
type take func(context.Context) (held, giveBack func() error, err error)

func takes[H interface{ Err() error }](call func(context.Context) (H, error), giveBack func(H) error) take {
	return func(ctx context.Context) (func() error, func() error, error) {
		h, err := call(ctx)
		return func() error { return h.Err() }, func() error { return giveBack(h) }, err
	}
}

// Each grant that a caller gets is its own until it gives it back, and each that comes too
// late is given back.
func TestShutdownLosesNoGrantThatComesAtTheSameMoment(t *testing.T) {
	for seed := range uint64(40) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c := w.Client(nil)
			q, slots, election := zkrecipes.NewQueue(c, "/jobs", nil), zkrecipes.NewSemaphore(c, "/slots", 2), zkrecipes.NewElection(c, "/leads")
			kept := zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Second))
			_, err := zkrecipes.NewQueue(w.Stranger(nil), "/jobs", nil).PutAll(t.Context(), make([][]byte, 200)...)
			require.NoError(t, err)
			var granted atomic.Int64
			var all sync.WaitGroup
			for i, take := range []take{
				takes(zkrecipes.NewMutex(c, "/a").Lock, (*zkrecipes.Lease).Release), takes(zkrecipes.NewMutex(c, "/a").Lock, (*zkrecipes.Lease).Release),
				takes(zkrecipes.NewMutex(c, "/b").Lock, (*zkrecipes.Lease).Release),
				takes(kept.Lock, (*zkrecipes.Lease).Release), takes(kept.Lock, (*zkrecipes.Lease).Release),
				takes(q.Take, func(it *zkrecipes.Item) error { return it.Ack(t.Context()) }),
				takes(slots.Acquire, (*zkrecipes.SlotLease).Release),
				takes(func(ctx context.Context) (*zkrecipes.Term, error) { return election.Campaign(ctx, nil) }, (*zkrecipes.Term).Resign),
			} {
				random := rand.New(rand.NewPCG(seed, uint64(i)+2))
				all.Go(func() {
					for {
						held, giveBack, err := take(t.Context())
						if err != nil {
							require.ErrorIs(t, err, zkrecipes.ErrClosed)
							return
						}
						granted.Add(1)
						time.Sleep(time.Duration(random.IntN(2)*random.IntN(1000)) * time.Microsecond)
						require.NoError(t, errors.Join(held(), giveBack()), "seed %d: a grant was cut short", seed)
					}
				})
			}
			time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, 1)).IntN(5000)) * time.Microsecond)
			require.NoError(t, c.Shutdown(t.Context()))
			all.Wait()
			require.Positive(t, granted.Load())
			require.Zero(t, c.Core().Held.Count(), "seed %d", seed)
			for _, path := range []string{"/a", "/b", "/kept", "/leads", "/slots/slots"} {
				require.Empty(t, w.Srv.Children(path), path)
			}
			w.Path = "/jobs"
			require.Empty(t, w.Flags())
		})
	}
}

func TestShutdownEndsTheFunctionOfLeadAndWaitsForIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		var held error
		leading := harness.GoErr(t, func(ctx context.Context) error {
			return zkrecipes.NewElection(c, "/leads").Lead(ctx, nil, func(ctx context.Context, term *zkrecipes.Term) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				held = term.Err()
				return context.Cause(ctx)
			})
		})
		synctest.Wait()
		next := recipetest.CampaignLater(t, zkrecipes.NewElection(w.Stranger(nil), "/leads"), "next")
		shutdown := shutsDown(t, c)
		time.Sleep(time.Minute - time.Second)
		require.True(t, shutdown.Waiting())
		require.True(t, next.Waiting())
		recipetest.Fails(t, leading, zkrecipes.ErrClosed)
		require.NoError(t, held)
		w.IsShut(c, shutdown)
		require.NoError(t, next.Get().Resign())
	})
}

// The members leave together, which takes as long as the last one stays.
func TestShutdownWaitsForALeaveUnderWay(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		enters := harness.Go(t, zkrecipes.NewDoubleBarrier(c, "/double", 2).Enter)
		last, err := zkrecipes.NewDoubleBarrier(other, "/double", 2).Enter(t.Context())
		require.NoError(t, err)
		visit := enters.Get()
		shutdown := shutsDown(t, c)
		time.Sleep(time.Hour)
		require.NoError(t, visit.Err())
		leaves := harness.GoErr(t, visit.Leave)
		time.Sleep(time.Hour)
		require.True(t, leaves.Waiting())
		require.True(t, shutdown.Waiting())
		require.NoError(t, last.Leave(t.Context()))
		leaves.Get()
		w.IsShut(c, shutdown)
	})
}

func TestALossEndsWhatAShutdownWaitsFor(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"expired": func(w *recipetest.World, c *zkrecipes.Client) { w.Srv.Expire(recipetest.SessionID(c)) },
		"silence": func(w *recipetest.World, c *zkrecipes.Client) { w.Away(c) },
	}, func(t *testing.T, w *recipetest.World, lose func(*recipetest.World, *zkrecipes.Client)) {
		c := w.Client(nil)
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		recipetest.PutOn(t, q, "a", "b")
		l, it := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)), recipetest.TakeOn(t, q)
		serving := recipetest.ServeLater(t, q, func(ctx context.Context, _ *zkrecipes.Item) error {
			<-ctx.Done()
			time.Sleep(10 * time.Second)
			return context.Cause(ctx)
		})
		synctest.Wait()
		shutdown := shutsDown(t, c)
		lose(w, c)
		_, err := shutdown.Wait()
		if strings.HasSuffix(t.Name(), "/expired") {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
		}
		synctest.Wait()
		require.False(t, serving.Waiting(), "Shutdown waits for its handler, which has lost the item")
		recipetest.Fails(t, serving, zkrecipes.ErrClosed)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
		time.Sleep(time.Minute)
		require.Empty(t, w.Srv.Children(w.Path))
		w.Back()
	})
}

func TestShutdownLeavesLocksThatAreKeptAndKeepsNone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		keep := func(path string) *zkrecipes.Mutex { return zkrecipes.NewMutex(c, path, zkrecipes.KeepFor(time.Hour)) }
		require.NoError(t, keep("/idle").Do(t.Context(), recipetest.Nothing))
		require.NoError(t, keep("/held").Do(t.Context(), recipetest.Nothing))
		l := recipetest.LockOn(t, keep("/held"))
		waits := recipetest.LockLater(t, keep("/held"))
		synctest.Wait()
		require.Len(t, w.Srv.Children("/idle"), 1)
		shutdown := shutsDown(t, c)
		require.Empty(t, w.Srv.Children("/idle"))
		require.True(t, shutdown.Waiting())
		recipetest.Fails(t, waits, zkrecipes.ErrClosed)
		require.ErrorIs(t, errOf(keep("/idle").Lock)(t.Context()), zkrecipes.ErrClosed)
		require.NoError(t, l.Err())
		deleted := w.Requests(func() { require.NoError(t, l.Release()) })
		require.Equal(t, 1, deleted[recipetest.OpRelease])
		w.IsShut(c, shutdown)
	})
}

func TestATraceFunctionMayCallShutdown(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var c *zkrecipes.Client
		result := make(chan error, 1)
		c = w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{AcquireEnd: func(context.Context, zkrecipes.TraceAcquireEnd) { result <- c.Shutdown(t.Context()) }}})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())
		require.NoError(t, <-result)
	})
}

func TestShutdownWaitsForAPutUnderWayButNotForRoom(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q, full := zkrecipes.NewQueue(c, "/jobs", nil), zkrecipes.NewQueue(c, "/full", &zkrecipes.QueueOptions{MaxLen: 1})
		recipetest.PutOn(t, q, "a")
		recipetest.PutOn(t, full, "a")
		waits := recipetest.PutLater(t, full, "b")
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: 2 * time.Second, Op: "multi(setData,check,create)", Times: 1})
		put := recipetest.PutLater(t, q, "b")
		synctest.Wait()
		require.True(t, put.Waiting())
		shutdown := shutsDown(t, c)
		require.True(t, shutdown.Waiting())
		put.Get()
		w.IsShut(c, shutdown)
		recipetest.Fails(t, waits, zkrecipes.ErrClosed)
		other := w.Stranger(nil)
		require.Equal(t, []string{"a", "b"}, recipetest.Drain(t, zkrecipes.NewQueue(other, "/jobs", nil)))
		require.Equal(t, []string{"a"}, recipetest.Drain(t, zkrecipes.NewQueue(other, "/full", nil)))
	})
}

func TestShutdownOfAClosedClientDoesNotWaitForWhatHangs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		c, hangs := w.Stranger(nil), make(chan struct{})
		leads := harness.GoErr(t, func(ctx context.Context) error {
			return zkrecipes.NewElection(c, "/e").Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { <-hangs; return nil })
		})
		time.Sleep(time.Second)
		closes := harness.GoErr(t, func(context.Context) error { return c.Close() })
		time.Sleep(time.Minute)
		for range 50 {
			require.NoError(t, c.Shutdown(ended))
		}
		close(hangs)
		leads.Wait()
		closes.Get()
	})
}
