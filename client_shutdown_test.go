package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Shutdown in each state, and at awkward moments. A goroutine that it left behind would
// keep the bubble from ending.

// shutsDown calls Shutdown in the background, and returns once all goroutines sleep.
func shutsDown(t testing.TB, c *Client) *harness.Call[struct{}] {
	a := harness.GoErr(t, c.Shutdown)
	synctest.Wait()
	return a
}

// isShut requires that Shutdown has returned nil, and that the session has ended.
func (w *world) isShut(c *Client, shutdown *harness.Call[struct{}]) {
	w.t.Helper()
	_, err := shutdown.Wait()
	require.NoError(w.t, err)
	require.NoError(w.t, c.Close())
	_, err = NewMutex(c, "/any").TryLock(w.t.Context())
	require.ErrorIs(w.t, err, ErrClosed)
	_, err = NewQueue(c, "/any", nil).Put(w.t.Context(), nil)
	require.ErrorIs(w.t, err, ErrClosed)
}

func TestShutdownOfAnIdleClientClosesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Shutdown(ended), "there is nothing to wait for")
		require.NoError(t, c.Shutdown(t.Context()))
		require.NoError(t, c.Close())
		require.Empty(t, w.srv.Sessions())
	})
}

func TestShutdownReturnsWhatCloseReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.away(c)
		closed := c.Close()
		require.ErrorIs(t, closed, ErrSessionNotClosed)
		require.Equal(t, closed, c.Shutdown(t.Context()))
		w.back()
	})
}

func TestShutdownNamesWhatItCannotWorkWith(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		require.EqualError(t, (*Client)(nil).Shutdown(t.Context()), `zkrecipes: shut down "": nil client`)
		require.EqualError(t, new(Client).Shutdown(t.Context()), `zkrecipes: shut down "": client was not made by Dial`)
		c := w.client(nil)
		var none context.Context
		require.EqualError(t, c.Shutdown(none), "zkrecipes: shut down "+w.srv.Addr()+": nil context")
		require.NoError(t, NewMutex(c, w.path).Do(t.Context(), nothing), "it goes on")
	})
}

func TestShutdownWaitsForALeaseThatGoesOnWorking(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		m := NewMutex(c, w.path)
		l := lockOn(t, m)
		next := w.lockLater(w.stranger(nil))
		shutdown := shutsDown(t, c)
		time.Sleep(time.Hour)
		require.True(t, shutdown.Waiting())
		w.stands(l)
		require.NoError(t, l.Context(t.Context()).Err())
		_, err := l.Commit(t.Context(), OpCreate("/data", []byte("x"), 0, nil))
		require.NoError(t, err)
		data, _, err := l.Get(t.Context(), "/data")
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		again, err := m.Lock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		_, err = NewQueue(c, "/jobs", &QueueOptions{MaxLen: 5}).Put(t.Context(), []byte("job"))
		require.NoError(t, err)
		require.NoError(t, NewGate(c, "/gate").Shut(t.Context()))
		require.NoError(t, NewSemaphore(c, "/slots", 1).Resize(t.Context(), 2))
		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, shutdown.Waiting(), "the re-entry holds")
		require.NoError(t, again.Release())
		w.isShut(c, shutdown)
		require.NoError(t, next.Get().Release())
		require.ErrorIs(t, NewGate(c, "/gate").Open(t.Context()), ErrClosed)
		require.ErrorIs(t, NewSemaphore(c, "/slots", 1).Resize(t.Context(), 3), ErrClosed)
		_, err = NewQueue(c, "/jobs", nil).Purge(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	})
}

// Each call waits for another client, or for what does not come.
func TestShutdownEndsCallsThatWait(t *testing.T) {
	ofLock := func(lock func(context.Context) (*Lease, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := lock(ctx); return err }
	}
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.client(nil), w.client(nil)
		lockOn(t, NewMutex(other, "/locks/b"))
		held(t, NewRWLock(other, "/rw").Lock)
		_, err := NewSemaphore(other, "/slots", 1).Acquire(t.Context())
		require.NoError(t, err)
		campaigns(t, NewElection(other, "/leads"), "other")
		require.NoError(t, NewGate(other, "/gate").Shut(t.Context()))
		leads := func(ctx context.Context) error {
			return NewElection(c, "/leads").Lead(ctx, nil, func(context.Context, *Term) error { return errors.New("called") })
		}
		calls := map[string]func(context.Context) error{
			"Lock":        ofLock(NewMutex(c, "/locks/b").Lock),
			"Lock kept":   ofLock(NewMutex(c, "/locks/b", KeepFor(time.Minute)).Lock),
			"Lock kept 2": ofLock(NewMutex(c, "/locks/b", KeepFor(time.Minute)).Lock),
			"RLock":       ofLock(NewRWLock(c, "/rw").RLock),
			"write Lock":  ofLock(NewRWLock(c, "/rw").Lock),
			"LockAll": func(ctx context.Context) error {
				_, err := LockAll(ctx, NewMutex(c, "/locks/a"), NewMutex(c, "/locks/b"))
				return err
			},
			"Take":     func(ctx context.Context) error { _, err := NewQueue(c, "/jobs", nil).Take(ctx); return err },
			"TakeN":    func(ctx context.Context) error { _, err := NewQueue(c, "/jobs", nil).TakeN(ctx, 3); return err },
			"Acquire":  func(ctx context.Context) error { _, err := NewSemaphore(c, "/slots", 1).Acquire(ctx); return err },
			"Campaign": func(ctx context.Context) error { _, err := NewElection(c, "/leads").Campaign(ctx, nil); return err },
			"Lead":     leads,
			"Lead 2":   leads,
			"Wait":     func(ctx context.Context) error { _, err := NewBarrier(c, "/barrier", 2).Wait(ctx); return err },
			"Enter":    func(ctx context.Context) error { _, err := NewDoubleBarrier(c, "/double", 2).Enter(ctx); return err },
			"Gate":     NewGate(c, "/gate").Wait,
			"Serve": func(ctx context.Context) error {
				return NewQueue(c, "/jobs", &QueueOptions{Workers: 3}).Serve(ctx, func(context.Context, *Item) error { return errors.New("called") })
			},
		}
		under := map[string]*harness.Call[struct{}]{}
		for name, call := range calls {
			under[name] = harness.GoErr(t, call)
		}
		time.Sleep(time.Minute)
		l := lockOn(t, NewMutex(c, w.path)) // so that the session lives on
		shutdown := shutsDown(t, c)
		time.Sleep(time.Second)
		require.True(t, shutdown.Waiting())
		for name, call := range under {
			require.False(t, call.Waiting(), name)
			_, err := call.Wait()
			require.ErrorIs(t, err, ErrClosed, name)
			require.NotErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, calls[name](t.Context()), ErrClosed, "%s once more", name)
		}
		for path, others := range map[string]int{
			"/locks/a": 0, "/locks/b": 1, "/rw": 1, "/jobs/line": 0, "/slots/line": 0, "/leads": 2, "/double": 0, "/barrier": 0,
		} {
			require.Len(t, w.srv.Children(path), others, path)
		}
		require.NoError(t, l.Release())
		w.isShut(c, shutdown)
	})
}

func TestShutdownRefusesCallsThatDoNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		q := NewQueue(c, "/jobs", nil)
		putOn(t, q, "a")
		l := lockOn(t, NewMutex(c, w.path))
		shutdown := shutsDown(t, c)
		require.Empty(t, w.requests(func() {
			_, err := NewMutex(c, "/free").TryLock(t.Context())
			require.ErrorIs(t, err, ErrClosed)
			_, err = NewRWLock(c, "/free").TryRLock(t.Context())
			require.ErrorIs(t, err, ErrClosed)
			_, err = NewSemaphore(c, "/slots", 1).TryAcquire(t.Context())
			require.ErrorIs(t, err, ErrClosed)
			_, err = q.TryTake(t.Context())
			require.ErrorIs(t, err, ErrClosed)
		}))
		n, err := q.Len(t.Context())
		require.NoError(t, err, "a read")
		require.Equal(t, 1, n)
		require.NoError(t, l.Release())
		w.isShut(c, shutdown)
	})
}

func TestShutdownLetsTheHandlersOfServeFinish(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		q, done := NewQueue(c, "/jobs", &QueueOptions{Workers: 2}), NewQueue(c, "/done", nil)
		putOn(t, q, "fails", "works", "stays")
		serving := harness.GoErr(t, func(ctx context.Context) error {
			return q.Serve(ctx, func(ctx context.Context, it *Item) error {
				if string(it.Data) == "fails" {
					time.Sleep(time.Second)
					return errHandler
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
		require.ErrorIs(t, err, ErrClosed)
		w.isShut(c, shutdown)

		other := w.stranger(nil)
		require.Equal(t, []string{"works"}, drain(t, NewQueue(other, "/done", nil)))
		require.Equal(t, []string{"fails", "stays"}, drain(t, NewQueue(other, "/jobs", nil)))
	})
}

func TestShutdownWaitsForAnItem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		q, next := NewQueue(c, "/jobs", nil), NewQueue(c, "/next", nil)
		putOn(t, q, "acked", "moved", "given back")
		items, err := q.TakeN(t.Context(), 3)
		require.NoError(t, err)
		shutdown := shutsDown(t, c)
		time.Sleep(time.Hour)
		require.NoError(t, items[0].Ack(t.Context(), OpCreate("/effect", nil, 0, nil)))
		_, err = items[1].AckPut(t.Context(), next, [][]byte{[]byte("x")})
		require.NoError(t, err)
		require.True(t, shutdown.Waiting())
		require.NoError(t, items[2].Nack(t.Context()))
		w.isShut(c, shutdown)
		require.Equal(t, []string{"given back"}, drain(t, NewQueue(w.stranger(nil), "/jobs", nil)))
	})
}

func TestShutdownEndsTheFunctionOfLeadAndWaitsForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		var held error
		leading := harness.GoErr(t, func(ctx context.Context) error {
			return NewElection(c, "/leads").Lead(ctx, nil, func(ctx context.Context, term *Term) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				held = term.Err()
				return context.Cause(ctx)
			})
		})
		synctest.Wait()
		next := campaignLater(t, w.election(nil), "next")
		require.False(t, next.Waiting(), "on another path")
		next = campaignLater(t, NewElection(w.stranger(nil), "/leads"), "next")
		shutdown := shutsDown(t, c)
		time.Sleep(time.Minute - time.Second)
		require.True(t, shutdown.Waiting())
		require.True(t, next.Waiting())
		_, err := leading.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, held)
		w.isShut(c, shutdown)
		require.NoError(t, next.Get().Resign())
	})
}

// The members leave together, which takes as long as the last one stays.
func TestShutdownWaitsForALeaveUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.client(nil), w.client(nil)
		enters := harness.Go(t, NewDoubleBarrier(c, "/double", 2).Enter)
		last, err := NewDoubleBarrier(other, "/double", 2).Enter(t.Context())
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
		w.isShut(c, shutdown)
	})
}

func TestShutdownIsAsAbruptAsCloseOnceItsContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := lockOn(t, NewMutex(c, w.path))
		next := w.lockLater(w.stranger(nil))
		patient := shutsDown(t, c)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := c.Shutdown(soon)
		require.Equal(t, time.Minute, time.Since(began).Round(time.Second))
		require.EqualError(t, err, "zkrecipes: shut down "+w.srv.Addr()+
			": context deadline exceeded (not over: 1 leases, items and calls of Serve, Lead or Leave)")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, l.Err(), ErrClosed)
		require.ErrorIs(t, l.Release(), ErrClosed)
		_, err = patient.Wait()
		require.NoError(t, err)
		require.NoError(t, next.Get().Release())
	})
}

func TestShutdownByAHandlerWaitsForItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		q := NewQueue(c, "/jobs", nil)
		putOn(t, q, "a")
		var err error
		serving := q.Serve(t.Context(), func(ctx context.Context, it *Item) error {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err = c.Shutdown(soon)
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, serving, ErrClosed)
	})
}

func TestCloseEndsAShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := lockOn(t, NewMutex(c, w.path))
		shutdowns := []*harness.Call[struct{}]{shutsDown(t, c), shutsDown(t, c)}
		require.NoError(t, c.Close())
		for _, shutdown := range shutdowns {
			w.isShut(c, shutdown)
		}
		require.ErrorIs(t, l.Err(), ErrClosed)
	})
}

func TestShutdownWhileDisconnectedWaitsForLeasesOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := lockOn(t, NewMutex(c, w.path))
		w.away(c)
		shutdown := shutsDown(t, c)
		time.Sleep(time.Second)
		require.True(t, shutdown.Waiting())
		require.NoError(t, l.Release())
		_, err := shutdown.Wait()
		require.ErrorIs(t, err, ErrSessionNotClosed)
		w.back()
	})
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		lockOn(t, NewMutex(c, w.path))
		w.away(c)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Shutdown(soon)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrSessionNotClosed)
		w.back()
	})
}

func TestALossEndsWhatAShutdownWaitsFor(t *testing.T) {
	for name, lose := range map[string]func(w *world, c *Client){
		"expired": func(w *world, c *Client) { w.srv.Expire(sessionID(c)) },
		"silence": func(w *world, c *Client) { w.away(c) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client(nil)
				q := NewQueue(c, "/jobs", nil)
				putOn(t, q, "a", "b")
				l, it := lockOn(t, NewMutex(c, w.path)), takeOn(t, q)
				serving := harness.GoErr(t, func(ctx context.Context) error {
					return q.Serve(ctx, func(ctx context.Context, _ *Item) error {
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
					require.ErrorIs(t, err, ErrSessionNotClosed)
				}
				synctest.Wait()
				require.False(t, serving.Waiting(), "Shutdown waits for its handler, which has lost the item")
				_, err = serving.Wait()
				require.ErrorIs(t, err, ErrClosed)
				require.ErrorIs(t, l.Err(), ErrLost)
				require.ErrorIs(t, it.Err(), ErrLost)
				time.Sleep(time.Minute)
				require.Empty(t, w.srv.Children(w.path))
				w.back()
			})
		})
	}
}

func TestShutdownLeavesLocksThatAreKeptAndKeepsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		keep := func(path string) *Mutex { return NewMutex(c, path, KeepFor(time.Hour)) }
		require.NoError(t, keep("/idle").Do(t.Context(), nothing))
		require.NoError(t, keep("/held").Do(t.Context(), nothing))
		l := lockOn(t, keep("/held"))
		waits := lockLater(t, keep("/held"))
		synctest.Wait()
		require.Len(t, w.srv.Children("/idle"), 1)
		shutdown := shutsDown(t, c)
		require.Empty(t, w.srv.Children("/idle"))
		require.True(t, shutdown.Waiting())
		_, err := waits.Wait()
		require.ErrorIs(t, err, ErrClosed)
		_, err = keep("/idle").Lock(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, l.Err())
		deleted := w.requests(func() { require.NoError(t, l.Release()) })
		require.Equal(t, 1, deleted[opRelease])
		w.isShut(c, shutdown)
	})
}

func TestATraceFunctionMayCallShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		result := make(chan error, 1)
		c = w.stranger(&Options{Trace: &Trace{AcquireEnd: func(context.Context, TraceAcquireEnd) { result <- c.Shutdown(t.Context()) }}})
		l := lockOn(t, NewMutex(c, w.path))
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())
		require.NoError(t, <-result)
	})
}

func TestShutdownWaitsForAPutUnderWayButNotForRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		q, full := NewQueue(c, "/jobs", nil), NewQueue(c, "/full", &QueueOptions{MaxLen: 1})
		putOn(t, q, "a")
		putOn(t, full, "a")
		waits := putLater(t, full, "b")
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, For: 2 * time.Second, Op: "multi(setData,check,create)", Times: 1})
		put := putLater(t, q, "b")
		synctest.Wait()
		require.True(t, put.Waiting())
		shutdown := shutsDown(t, c)
		require.True(t, shutdown.Waiting())
		_, err := put.Wait()
		require.NoError(t, err)
		w.isShut(c, shutdown)
		_, err = waits.Wait()
		require.ErrorIs(t, err, ErrClosed)
		other := w.stranger(nil)
		require.Equal(t, []string{"a", "b"}, drain(t, NewQueue(other, "/jobs", nil)))
		require.Equal(t, []string{"a"}, drain(t, NewQueue(other, "/full", nil)))
	})
}

func TestNothingIsGrantedAfterShutdownHasBegun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		kept := NewMutex(c, "/kept", KeepFor(time.Hour))
		require.NoError(t, kept.Do(t.Context(), nothing))
		l := lockOn(t, NewMutex(c, w.path))
		s, _ := c.client.Session()
		p, err := NewMutex(c, "/other").line.Join(t.Context(), s, line.KindLock)
		require.NoError(t, err)
		require.True(t, p.First)

		over := c.client.Held.Stop() // the calls do not know of it yet
		_, err = p.Grant(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		waits := lockLater(t, kept)
		synctest.Wait()
		require.True(t, waits.Waiting())
		require.NoError(t, l.Release())
		<-over
		require.NoError(t, c.Shutdown(t.Context()))
		_, err = waits.Wait()
		require.ErrorIs(t, err, ErrClosed)
	})
}

// Each grant that a caller gets is its own until it gives it back, and each that comes too
// late is given back.
func TestShutdownLosesNoGrantThatComesAtTheSameMoment(t *testing.T) {
	for seed := range uint64(40) {
		inBubble(t, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(seed, 1))
			c := w.client(nil)
			q := NewQueue(c, "/jobs", nil)
			items := make([][]byte, 200)
			_, err := NewQueue(w.stranger(nil), "/jobs", nil).PutAll(t.Context(), items...)
			require.NoError(t, err)
			var granted atomic.Int64
			work := func(l *Lease, pause time.Duration, release func() error) error {
				granted.Add(1)
				time.Sleep(pause)
				return errors.Join(l.Err(), release())
			}
			locks := func(m *Mutex) func(time.Duration) error {
				return func(pause time.Duration) error {
					l, err := m.Lock(t.Context())
					if err != nil {
						return err
					}
					return work(l, pause, l.Release)
				}
			}
			slots, election := NewSemaphore(c, "/slots", 2), NewElection(c, "/leads")
			var all sync.WaitGroup
			for i, f := range []func(time.Duration) error{
				locks(NewMutex(c, "/a")), locks(NewMutex(c, "/a")), locks(NewMutex(c, "/b")),
				locks(NewMutex(c, "/kept", KeepFor(time.Second))), locks(NewMutex(c, "/kept", KeepFor(time.Second))),
				func(pause time.Duration) error {
					it, err := q.Take(t.Context())
					if err != nil {
						return err
					}
					return work(it.lease, pause, func() error { return it.Ack(t.Context()) })
				},
				func(pause time.Duration) error {
					l, err := slots.Acquire(t.Context())
					if err != nil {
						return err
					}
					return work(l.lease, pause, l.Release)
				},
				func(pause time.Duration) error {
					term, err := election.Campaign(t.Context(), nil)
					if err != nil {
						return err
					}
					return work(term.lease, pause, term.Resign)
				},
			} {
				own := rand.New(rand.NewPCG(seed, uint64(i)+2))
				all.Go(func() {
					for {
						err := f(time.Duration(own.IntN(2)) * time.Duration(own.IntN(1000)) * time.Microsecond)
						if errors.Is(err, ErrClosed) {
							require.NotErrorIs(t, err, ErrLost)
							if e := (*Error)(nil); errors.As(err, &e) && (e.Op == "hold" || e.Op == "release" || e.Op == "ack an item of") {
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
			require.EqualValues(t, 0, c.client.Held.Count(), fmt.Sprint("seed ", seed))
			for _, path := range []string{"/a", "/b", "/kept", "/leads", "/slots/slots"} {
				require.Empty(t, w.srv.Children(path), path)
			}
			w.path = "/jobs"
			require.Empty(t, w.flags())
		})
	}
}
