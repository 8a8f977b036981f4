package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
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

func TestShutdownOfAnIdleClientClosesIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Shutdown(ended), "there is nothing to wait for")
		require.NoError(t, c.Shutdown(t.Context()))
		require.NoError(t, c.Close())
		require.Empty(t, w.Srv.Sessions())
	})
}

func TestShutdownReturnsWhatCloseReturned(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Away(c)
		closed := c.Close()
		require.ErrorIs(t, closed, zkrecipes.ErrSessionNotClosed)
		require.Equal(t, closed, c.Shutdown(t.Context()))
		w.Back()
	})
}

func TestShutdownNamesWhatItCannotWorkWith(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		require.EqualError(t, (*zkrecipes.Client)(nil).Shutdown(t.Context()), `zkrecipes: shut down "": nil client`)
		require.EqualError(t, new(zkrecipes.Client).Shutdown(t.Context()), `zkrecipes: shut down "": client was not made by Dial`)
		c := w.Client(nil)
		var none context.Context
		require.EqualError(t, c.Shutdown(none), "zkrecipes: shut down "+w.Srv.Addr()+": nil context")
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing), "it goes on")
	})
}

func TestShutdownWaitsForALeaseThatGoesOnWorking(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		l := recipetest.LockOn(t, m)
		next := w.LockLater(w.Stranger(nil))
		shutdown := shutsDown(t, c)
		time.Sleep(time.Hour)
		require.True(t, shutdown.Waiting())
		w.Stands(l)
		require.NoError(t, l.Context(t.Context()).Err())
		_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/data", []byte("x"), 0, nil))
		require.NoError(t, err)
		data, _, err := l.Get(t.Context(), "/data")
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		again, err := m.Lock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		_, err = zkrecipes.NewQueue(c, "/jobs", &zkrecipes.QueueOptions{MaxLen: 5}).Put(t.Context(), []byte("job"))
		require.NoError(t, err)
		require.NoError(t, zkrecipes.NewGate(c, "/gate").Shut(t.Context()))
		require.NoError(t, zkrecipes.NewSemaphore(c, "/slots", 1).Resize(t.Context(), 2))
		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, shutdown.Waiting(), "the re-entry holds")
		require.NoError(t, again.Release())
		w.IsShut(c, shutdown)
		require.NoError(t, next.Get().Release())
		require.ErrorIs(t, zkrecipes.NewGate(c, "/gate").Open(t.Context()), zkrecipes.ErrClosed)
		require.ErrorIs(t, zkrecipes.NewSemaphore(c, "/slots", 1).Resize(t.Context(), 3), zkrecipes.ErrClosed)
		_, err = zkrecipes.NewQueue(c, "/jobs", nil).Purge(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// Each call waits for another client, or for what does not come.
func TestShutdownEndsCallsThatWait(t *testing.T) {
	ofLock := func(lock func(context.Context) (*zkrecipes.Lease, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := lock(ctx); return err }
	}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		recipetest.LockOn(t, zkrecipes.NewMutex(other, "/locks/b"))
		recipetest.Held(t, zkrecipes.NewRWLock(other, "/rw").Lock)
		_, err := zkrecipes.NewSemaphore(other, "/slots", 1).Acquire(t.Context())
		require.NoError(t, err)
		recipetest.Campaigns(t, zkrecipes.NewElection(other, "/leads"), "other")
		require.NoError(t, zkrecipes.NewGate(other, "/gate").Shut(t.Context()))
		leads := func(ctx context.Context) error {
			return zkrecipes.NewElection(c, "/leads").Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		}
		calls := map[string]func(context.Context) error{
			"Lock":        ofLock(zkrecipes.NewMutex(c, "/locks/b").Lock),
			"Lock kept":   ofLock(zkrecipes.NewMutex(c, "/locks/b", zkrecipes.KeepFor(time.Minute)).Lock),
			"Lock kept 2": ofLock(zkrecipes.NewMutex(c, "/locks/b", zkrecipes.KeepFor(time.Minute)).Lock),
			"RLock":       ofLock(zkrecipes.NewRWLock(c, "/rw").RLock),
			"write Lock":  ofLock(zkrecipes.NewRWLock(c, "/rw").Lock),
			"LockAll": func(ctx context.Context) error {
				_, err := zkrecipes.LockAll(ctx, zkrecipes.NewMutex(c, "/locks/a"), zkrecipes.NewMutex(c, "/locks/b"))
				return err
			},
			"Take": func(ctx context.Context) error { _, err := zkrecipes.NewQueue(c, "/jobs", nil).Take(ctx); return err },
			"TakeN": func(ctx context.Context) error {
				_, err := zkrecipes.NewQueue(c, "/jobs", nil).TakeN(ctx, 3)
				return err
			},
			"Acquire": func(ctx context.Context) error {
				_, err := zkrecipes.NewSemaphore(c, "/slots", 1).Acquire(ctx)
				return err
			},
			"Campaign": func(ctx context.Context) error {
				_, err := zkrecipes.NewElection(c, "/leads").Campaign(ctx, nil)
				return err
			},
			"Lead":   leads,
			"Lead 2": leads,
			"Wait": func(ctx context.Context) error {
				_, err := zkrecipes.NewBarrier(c, "/barrier", 2).Wait(ctx)
				return err
			},
			"Enter": func(ctx context.Context) error {
				_, err := zkrecipes.NewDoubleBarrier(c, "/double", 2).Enter(ctx)
				return err
			},
			"Gate": zkrecipes.NewGate(c, "/gate").Wait,
			"Serve": func(ctx context.Context) error {
				return zkrecipes.NewQueue(c, "/jobs", &zkrecipes.QueueOptions{Workers: 3}).Serve(ctx, func(context.Context, *zkrecipes.Item) error { return errors.New("called") })
			},
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

func TestShutdownRefusesCallsThatDoNotWait(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		recipetest.PutOn(t, q, "a")
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		shutdown := shutsDown(t, c)
		require.Empty(t, w.Requests(func() {
			_, err := zkrecipes.NewMutex(c, "/free").TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			_, err = zkrecipes.NewRWLock(c, "/free").TryRLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			_, err = zkrecipes.NewSemaphore(c, "/slots", 1).TryAcquire(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			_, err = q.TryTake(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
		}))
		n, err := q.Len(t.Context())
		require.NoError(t, err, "a read")
		require.Equal(t, 1, n)
		require.NoError(t, l.Release())
		w.IsShut(c, shutdown)
	})
}

func TestShutdownLetsTheHandlersOfServeFinish(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q, done := zkrecipes.NewQueue(c, "/jobs", &zkrecipes.QueueOptions{Workers: 2}), zkrecipes.NewQueue(c, "/done", nil)
		recipetest.PutOn(t, q, "fails", "works", "stays")
		serving := harness.GoErr(t, func(ctx context.Context) error {
			return q.Serve(ctx, func(ctx context.Context, it *zkrecipes.Item) error {
				if string(it.Data) == "fails" {
					time.Sleep(time.Second)
					return recipetest.ErrHandler
				}
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return ctx.Err()
				}
				_, err := done.Put(ctx, it.Data)
				return err
			})
		})
		time.Sleep(time.Second / 2)
		shutdown := shutsDown(t, c)
		time.Sleep(30 * time.Second)
		require.True(t, shutdown.Waiting())
		require.True(t, serving.Waiting())
		_, err := serving.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		w.IsShut(c, shutdown)

		other := w.Stranger(nil)
		require.Equal(t, []string{"works"}, recipetest.Drain(t, zkrecipes.NewQueue(other, "/done", nil)))
		require.Equal(t, []string{"fails", "stays"}, recipetest.Drain(t, zkrecipes.NewQueue(other, "/jobs", nil)))
	})
}

func TestShutdownWaitsForAnItem(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q, next := zkrecipes.NewQueue(c, "/jobs", nil), zkrecipes.NewQueue(c, "/next", nil)
		recipetest.PutOn(t, q, "acked", "moved", "given back")
		items, err := q.TakeN(t.Context(), 3)
		require.NoError(t, err)
		shutdown := shutsDown(t, c)
		time.Sleep(time.Hour)
		require.NoError(t, items[0].Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil)))
		_, err = items[1].AckPut(t.Context(), next, [][]byte{[]byte("x")})
		require.NoError(t, err)
		require.True(t, shutdown.Waiting())
		require.NoError(t, items[2].Nack(t.Context()))
		w.IsShut(c, shutdown)
		require.Equal(t, []string{"given back"}, recipetest.Drain(t, zkrecipes.NewQueue(w.Stranger(nil), "/jobs", nil)))
	})
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
		next := recipetest.CampaignLater(t, w.Election(nil), "next")
		require.False(t, next.Waiting(), "on another path")
		next = recipetest.CampaignLater(t, zkrecipes.NewElection(w.Stranger(nil), "/leads"), "next")
		shutdown := shutsDown(t, c)
		time.Sleep(time.Minute - time.Second)
		require.True(t, shutdown.Waiting())
		require.True(t, next.Waiting())
		_, err := leading.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
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
		_, err = leaves.Wait()
		require.NoError(t, err)
		w.IsShut(c, shutdown)
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
		_, err = patient.Wait()
		require.NoError(t, err)
		require.NoError(t, next.Get().Release())
	})
}

func TestShutdownByAHandlerWaitsForItself(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		recipetest.PutOn(t, q, "a")
		var err error
		serving := q.Serve(t.Context(), func(ctx context.Context, it *zkrecipes.Item) error {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err = c.Shutdown(soon)
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, serving, zkrecipes.ErrClosed)
	})
}

func TestCloseEndsAShutdown(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		shutdowns := []*harness.Call[struct{}]{shutsDown(t, c), shutsDown(t, c)}
		require.NoError(t, c.Close())
		for _, shutdown := range shutdowns {
			w.IsShut(c, shutdown)
		}
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
	})
}

func TestShutdownWhileDisconnectedWaitsForLeasesOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		w.Away(c)
		shutdown := shutsDown(t, c)
		time.Sleep(time.Second)
		require.True(t, shutdown.Waiting())
		require.NoError(t, l.Release())
		_, err := shutdown.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
		w.Back()
	})
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		w.Away(c)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Shutdown(soon)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
		w.Back()
	})
}

func TestALossEndsWhatAShutdownWaitsFor(t *testing.T) {
	for name, lose := range map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"expired": func(w *recipetest.World, c *zkrecipes.Client) { w.Srv.Expire(recipetest.SessionID(c)) },
		"silence": func(w *recipetest.World, c *zkrecipes.Client) { w.Away(c) },
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Client(nil)
				q := zkrecipes.NewQueue(c, "/jobs", nil)
				recipetest.PutOn(t, q, "a", "b")
				l, it := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)), recipetest.TakeOn(t, q)
				serving := harness.GoErr(t, func(ctx context.Context) error {
					return q.Serve(ctx, func(ctx context.Context, _ *zkrecipes.Item) error {
						<-ctx.Done()
						time.Sleep(10 * time.Second)
						return context.Cause(ctx)
					})
				})
				synctest.Wait()
				shutdown := shutsDown(t, c)
				lose(w, c)
				_, err := shutdown.Wait()
				if name == "expired" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
				}
				synctest.Wait()
				require.False(t, serving.Waiting(), "Shutdown waits for its handler, which has lost the item")
				_, err = serving.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrClosed)
				require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
				require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
				time.Sleep(time.Minute)
				require.Empty(t, w.Srv.Children(w.Path))
				w.Back()
			})
		})
	}
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
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = keep("/idle").Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
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
		_, err := put.Wait()
		require.NoError(t, err)
		w.IsShut(c, shutdown)
		_, err = waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		other := w.Stranger(nil)
		require.Equal(t, []string{"a", "b"}, recipetest.Drain(t, zkrecipes.NewQueue(other, "/jobs", nil)))
		require.Equal(t, []string{"a"}, recipetest.Drain(t, zkrecipes.NewQueue(other, "/full", nil)))
	})
}

func TestNothingIsGrantedAfterShutdownHasBegun(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		kept := zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Hour))
		require.NoError(t, kept.Do(t.Context(), recipetest.Nothing))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		s, _ := recipetest.Core(c).Session()
		p, err := recipetest.LineOf(zkrecipes.NewMutex(c, "/other")).Join(t.Context(), s, placename.KindLock)
		require.NoError(t, err)
		require.True(t, p.First)

		over := recipetest.Core(c).Held.Stop() // the calls do not know of it yet
		_, err = p.Grant(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		waits := recipetest.LockLater(t, kept)
		synctest.Wait()
		require.True(t, waits.Waiting())
		require.NoError(t, l.Release())
		<-over
		require.NoError(t, c.Shutdown(t.Context()))
		_, err = waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// Each grant that a caller gets is its own until it gives it back, and each that comes too
// late is given back.
func TestShutdownLosesNoGrantThatComesAtTheSameMoment(t *testing.T) {
	for seed := range uint64(40) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			random := rand.New(rand.NewPCG(seed, 1))
			c := w.Client(nil)
			q := zkrecipes.NewQueue(c, "/jobs", nil)
			items := make([][]byte, 200)
			_, err := zkrecipes.NewQueue(w.Stranger(nil), "/jobs", nil).PutAll(t.Context(), items...)
			require.NoError(t, err)
			var granted atomic.Int64
			work := func(l *zkrecipes.Lease, pause time.Duration, release func() error) error {
				granted.Add(1)
				time.Sleep(pause)
				return errors.Join(l.Err(), release())
			}
			locks := func(m *zkrecipes.Mutex) func(time.Duration) error {
				return func(pause time.Duration) error {
					l, err := m.Lock(t.Context())
					if err != nil {
						return err
					}
					return work(l, pause, l.Release)
				}
			}
			slots, election := zkrecipes.NewSemaphore(c, "/slots", 2), zkrecipes.NewElection(c, "/leads")
			var all sync.WaitGroup
			for i, f := range []func(time.Duration) error{
				locks(zkrecipes.NewMutex(c, "/a")), locks(zkrecipes.NewMutex(c, "/a")), locks(zkrecipes.NewMutex(c, "/b")),
				locks(zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Second))), locks(zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Second))),
				func(pause time.Duration) error {
					it, err := q.Take(t.Context())
					if err != nil {
						return err
					}
					return work(recipetest.LeaseOf(it), pause, func() error { return it.Ack(t.Context()) })
				},
				func(pause time.Duration) error {
					l, err := slots.Acquire(t.Context())
					if err != nil {
						return err
					}
					return work(recipetest.LeaseOf(l), pause, l.Release)
				},
				func(pause time.Duration) error {
					term, err := election.Campaign(t.Context(), nil)
					if err != nil {
						return err
					}
					return work(recipetest.LeaseOf(term), pause, term.Resign)
				},
			} {
				own := rand.New(rand.NewPCG(seed, uint64(i)+2))
				all.Go(func() {
					for {
						err := f(time.Duration(own.IntN(2)) * time.Duration(own.IntN(1000)) * time.Microsecond)
						if errors.Is(err, zkrecipes.ErrClosed) {
							require.NotErrorIs(t, err, zkrecipes.ErrLost)
							if e := (*zkrecipes.Error)(nil); errors.As(err, &e) && (e.Op == "hold" || e.Op == "release" || e.Op == "ack an item of") {
								t.Errorf("seed %d: a grant was cut short: %v", seed, err)
							}
							return
						}
						if err != nil {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
					}
				})
			}
			time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond)
			require.NoError(t, c.Shutdown(t.Context()))
			all.Wait()
			require.Positive(t, granted.Load())
			require.EqualValues(t, 0, recipetest.Core(c).Held.Count(), fmt.Sprint("seed ", seed))
			for _, path := range []string{"/a", "/b", "/kept", "/leads", "/slots/slots"} {
				require.Empty(t, w.Srv.Children(path), path)
			}
			w.Path = "/jobs"
			require.Empty(t, w.Flags())
		})
	}
}
