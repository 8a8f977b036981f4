package line_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The rule that doc.go states under "The end of a session", over all recipes.

// full is a bound of one item.
var full = &zkrecipes.QueueOptions{MaxLen: 1}

func TestWhatWaitsWaitsOnInTheNextSession(t *testing.T) {
	type wait struct {
		call func(context.Context) error // waits in c
		free func()                      // ends the wait
	}
	const beforeMember = "Barrier.Wait before it is a member"
	locked := func(w *recipetest.World, l interface{ Release() error }, err error) func() {
		w.T.Helper()
		require.NoError(w.T, err)
		return func() { require.NoError(w.T, l.Release()) }
	}
	for name, begin := range map[string]func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait{
		"Mutex.Lock": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewMutex(other, "/m").Lock(t.Context())
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, "/m").Lock(ctx); return err }, free: locked(w, l, err)}
		},
		"Mutex.Lock with KeepFor": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewMutex(other, "/m").Lock(t.Context())
			return wait{call: func(ctx context.Context) error {
				_, err := zkrecipes.NewMutex(c, "/m", zkrecipes.KeepFor(time.Minute)).Lock(ctx)
				return err
			}, free: locked(w, l, err)}
		},
		"RWLock.Lock": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewRWLock(other, "/m").RLock(t.Context())
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewRWLock(c, "/m").Lock(ctx); return err }, free: locked(w, l, err)}
		},
		"RWLock.RLock": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewRWLock(other, "/m").Lock(t.Context())
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewRWLock(c, "/m").RLock(ctx); return err }, free: locked(w, l, err)}
		},
		"LockAll": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewMutex(other, "/m").Lock(t.Context())
			return wait{call: func(ctx context.Context) error {
				ls, err := zkrecipes.LockAll(ctx, zkrecipes.NewMutex(c, "/a"), zkrecipes.NewMutex(c, "/m"))
				if err == nil {
					err = ls.Err()
				}
				return err
			}, free: locked(w, l, err)}
		},
		"Semaphore.Acquire": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewSemaphore(other, "/m", 2).AcquireN(t.Context(), 2)
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewSemaphore(c, "/m", 2).Acquire(ctx); return err }, free: locked(w, l, err)}
		},
		"Semaphore.AcquireN": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewSemaphore(other, "/m", 2).Acquire(t.Context())
			return wait{call: func(ctx context.Context) error {
				_, err := zkrecipes.NewSemaphore(c, "/m", 2).AcquireN(ctx, 2)
				return err
			}, free: locked(w, l, err)}
		},
		"Election.Campaign": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewElection(other, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return wait{call: func(ctx context.Context) error {
				_, err := zkrecipes.NewElection(c, "/m").Campaign(ctx, nil)
				return err
			}, free: locked(w, recipetest.LeaseOf(l), err)}
		},
		"Election.Lead": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewElection(other, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return wait{call: func(ctx context.Context) error {
				return zkrecipes.NewElection(c, "/m").Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return nil })
			}, free: locked(w, recipetest.LeaseOf(l), err)}
		},
		"Election.Observe": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			l, err := zkrecipes.NewElection(other, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return wait{call: func(ctx context.Context) error {
				for leader, err := range zkrecipes.NewElection(c, "/m").Observe(ctx) {
					if err != nil || leader.None() {
						return err
					}
				}
				return errors.New("the iteration has ended")
			}, free: locked(w, recipetest.LeaseOf(l), err)}
		},
		"Queue.Take": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewQueue(c, "/m", nil).Take(ctx); return err },
				free: func() { recipetest.PutOn(t, zkrecipes.NewQueue(other, "/m", nil), "item") }}
		},
		"Queue.TakeN": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewQueue(c, "/m", nil).TakeN(ctx, 2); return err },
				free: func() { recipetest.PutOn(t, zkrecipes.NewQueue(other, "/m", nil), "item") }}
		},
		"Queue.Serve": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				return zkrecipes.NewQueue(c, "/m", nil).Serve(ctx, func(context.Context, *zkrecipes.Item) error { cancel(); return nil })
			}, free: func() { recipetest.PutOn(t, zkrecipes.NewQueue(other, "/m", nil), "item") }}
		},
		"Queue.Put": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			recipetest.PutOn(t, zkrecipes.NewQueue(other, "/m", full), "first")
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewQueue(c, "/m", full).Put(ctx, nil); return err },
				free: func() { recipetest.AckOn(t, recipetest.TakeOn(t, zkrecipes.NewQueue(other, "/m", full))) }}
		},
		"Queue.PutAll": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			two := &zkrecipes.QueueOptions{MaxLen: 2}
			recipetest.PutOn(t, zkrecipes.NewQueue(other, "/m", two), "first")
			return wait{call: func(ctx context.Context) error {
				_, err := zkrecipes.NewQueue(c, "/m", two).PutAll(ctx, nil, nil)
				return err
			},
				free: func() { recipetest.AckOn(t, recipetest.TakeOn(t, zkrecipes.NewQueue(other, "/m", two))) }}
		},
		"Gate.Wait": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			require.NoError(t, zkrecipes.NewGate(other, "/m").Shut(t.Context()))
			return wait{call: zkrecipes.NewGate(c, "/m").Wait, free: func() { require.NoError(t, zkrecipes.NewGate(other, "/m").Open(t.Context())) }}
		},
		beforeMember: func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Hour, Times: -1}) // the first round stays
			b := func(c *zkrecipes.Client) *zkrecipes.Barrier { return zkrecipes.NewBarrier(c, "/m", 2) }
			third := w.Stranger(nil)
			recipetest.Indexes(t, recipetest.WaitLater(t, b(other)), recipetest.WaitLater(t, b(third)))
			recipetest.MembersLeft()
			return wait{call: func(ctx context.Context) error { _, err := b(c).Wait(ctx); return err }, free: func() {
				w.Plan.Stop()
				for _, member := range []*zkrecipes.Client{other, third} { // who leave with their sessions
					require.True(t, w.Srv.Expire(recipetest.SessionID(member)))
				}
				recipetest.WaitLater(t, b(w.Stranger(nil)))
			}}
		},
		"Visit.Leave": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			vs := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/m", 2)), recipetest.Enter(t, zkrecipes.NewDoubleBarrier(other, "/m", 2)))
			return wait{call: vs[0].Leave, free: func() { require.NoError(t, vs[1].Leave(t.Context())) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				now := begin(t, w, c, w.Stranger(nil))
				a := harness.GoErr(t, now.call)
				for range 2 {
					synctest.Wait()
					require.True(t, a.Waiting())
					w.Expire(c)
				}
				require.True(t, a.Waiting())
				now.free()
				_, err := a.Wait()
				require.NoError(t, err)
			})
		})
		if name == beforeMember { // a join that was refused with the session may have made it one
			continue
		}
		// The session ends at each request with which the call begins to wait.
		t.Run(name+", at each request", func(t *testing.T) {
			for _, after := range []bool{false, true} {
				skip := 0
				for fired := true; fired; skip++ {
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						c := w.Stranger(nil)
						now := begin(t, w, c, w.Stranger(nil))
						time.Sleep(30 * time.Second) // other watches what it holds by now
						w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Skip: skip})
						a := harness.GoErr(t, now.call)
						time.Sleep(30 * time.Second)
						synctest.Wait()
						require.True(t, a.Waiting(), skip)
						fired = w.Met()
						w.Plan.Stop()
						now.free()
						_, err := a.Wait()
						require.NoError(t, err, skip)
					})
					require.Less(t, skip, 50)
				}
				require.Greater(t, skip, 1, "the last one was not met")
			}
		})
	}
}

func TestWhatWasHeldIsLostWithItsSession(t *testing.T) {
	// holding is what the things that can be held have in common. end is Release, Ack,
	// and so on.
	type holding struct {
		held interface {
			Err() error
			Context(context.Context) context.Context
		}
		end func(context.Context) error
	}
	released := func(l *zkrecipes.Lease, err error) (holding, error) {
		return holding{held: l, end: func(context.Context) error { return l.Release() }}, err
	}
	item := func(t *testing.T, c *zkrecipes.Client) (*zkrecipes.Item, error) {
		q := zkrecipes.NewQueue(c, "/m", nil)
		recipetest.PutOn(t, q, "item")
		return q.Take(t.Context())
	}
	for name, hold := range map[string]func(*testing.T, *zkrecipes.Client) (holding, error){
		"Mutex": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			return released(zkrecipes.NewMutex(c, "/m").Lock(t.Context()))
		},
		"Mutex with KeepFor": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			return released(zkrecipes.NewMutex(c, "/m", zkrecipes.KeepFor(time.Minute)).Lock(t.Context()))
		},
		"Mutex entered again": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			l := recipetest.Held(t, zkrecipes.NewMutex(c, "/m").Lock)
			return released(zkrecipes.NewMutex(c, "/m").Lock(l.Reentrant(t.Context())))
		},
		"writer": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			return released(zkrecipes.NewRWLock(c, "/m").Lock(t.Context()))
		},
		"reader": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			return released(zkrecipes.NewRWLock(c, "/m").RLock(t.Context()))
		},
		"downgraded writer": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			l := recipetest.Held(t, zkrecipes.NewRWLock(c, "/m").Lock)
			require.NoError(t, zkrecipes.NewRWLock(c, "/m").Downgrade(t.Context(), l))
			return released(l, nil)
		},
		"LockAll": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			ls, err := zkrecipes.LockAll(t.Context(), zkrecipes.NewMutex(c, "/a"), zkrecipes.NewMutex(c, "/b"))
			return holding{held: ls, end: func(context.Context) error { return ls.Release() }}, err
		},
		"slots": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			l, err := zkrecipes.NewSemaphore(c, "/m", 3).AcquireN(t.Context(), 2)
			return holding{held: l, end: func(context.Context) error { return l.Release() }}, err
		},
		"term": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			term, err := zkrecipes.NewElection(c, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return holding{held: term, end: func(context.Context) error { return term.Resign() }}, err
		},
		"item, acked": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			it, err := item(t, c)
			return holding{held: it, end: func(ctx context.Context) error { return it.Ack(ctx) }}, err
		},
		"item, given back": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			it, err := item(t, c)
			return holding{held: it, end: it.Nack}, err
		},
		"visit": func(t *testing.T, c *zkrecipes.Client) (holding, error) {
			v, err := zkrecipes.NewDoubleBarrier(c, "/m", 1).Enter(t.Context())
			return holding{held: v, end: v.Leave}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				h, err := hold(t, c)
				require.NoError(t, err)
				require.NoError(t, h.held.Err())
				ctx := h.held.Context(t.Context())
				w.Expire(c)
				<-ctx.Done()
				for what, err := range map[string]error{"Err": h.held.Err(), "cause": context.Cause(ctx), "end": h.end(t.Context())} {
					require.ErrorIs(t, err, zkrecipes.ErrLost, what)
					require.ErrorIs(t, err, zk.ErrSessionExpired, what)
				}
				_, err = hold(t, c) // in the next session
				require.NoError(t, err)
			})
		})
	}
}

func TestAMemberThatWaitsIsLostWithItsSession(t *testing.T) {
	isLost := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorIs(t, err, zk.ErrSessionExpired)
	}
	for name, m := range map[string]struct {
		wait func(context.Context, *zkrecipes.Client) error
		join string // its request
	}{
		"Barrier.Wait": {
			func(ctx context.Context, c *zkrecipes.Client) error {
				_, err := zkrecipes.NewBarrier(c, "/m", 2).Wait(ctx)
				return err
			},
			recipetest.OpJoinRound,
		},
		"DoubleBarrier.Enter": {
			func(ctx context.Context, c *zkrecipes.Client) error {
				_, err := zkrecipes.NewDoubleBarrier(c, "/m", 2).Enter(ctx)
				return err
			},
			recipetest.OpEnter,
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				a := harness.GoErr(t, func(ctx context.Context) error { return m.wait(ctx, c) })
				synctest.Wait()
				require.True(t, a.Waiting())
				w.Expire(c)
				_, err := a.Wait()
				isLost(t, err)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			})
		})
		for _, after := range []bool{false, true} { // others may have counted the member
			t.Run(fmt.Sprintf("%s, the reply to whose join is lost, applied: %v", name, after), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					c := w.Stranger(nil)
					if m.join == recipetest.OpJoinRound { // a member is refused while there is no round
						blocker := zkrecipes.NewBarrier(w.Stranger(nil), "/m", 2)
						recipetest.WaitLater(t, blocker)
						synctest.Wait()
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: m.join, After: after})
					isLost(t, m.wait(harness.Within(t, time.Minute), c))
				})
			})
		}
	}
}
