package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The rule that doc.go states under "The end of a session", over all recipes.

// expire ends c's session, and returns when c has another one and sleeps again.
func (w *world) expire(c *Client) {
	w.t.Helper()
	old := sessionID(c)
	require.True(w.t, w.srv.Expire(old))
	for range 600 {
		if s, _ := c.client.Session(); s != nil && s.ID() != old {
			time.Sleep(time.Second)
			synctest.Wait()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.FailNow(w.t, "no other session")
}

// full is a bound of one item.
var full = &QueueOptions{MaxLen: 1}

func TestWhatWaitsWaitsOnInTheNextSession(t *testing.T) {
	type wait struct {
		call func(context.Context) error // waits in c
		free func()                      // ends the wait
	}
	const beforeMember = "Barrier.Wait before it is a member"
	locked := func(w *world, l interface{ Release() error }, err error) func() {
		w.t.Helper()
		require.NoError(w.t, err)
		return func() { require.NoError(w.t, l.Release()) }
	}
	for name, begin := range map[string]func(t *testing.T, w *world, c, other *Client) wait{
		"Mutex.Lock": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewMutex(other, "/m").Lock(t.Context())
			return wait{func(ctx context.Context) error { _, err := NewMutex(c, "/m").Lock(ctx); return err }, locked(w, l, err)}
		},
		"Mutex.Lock with KeepFor": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewMutex(other, "/m").Lock(t.Context())
			return wait{func(ctx context.Context) error {
				_, err := NewMutex(c, "/m", KeepFor(time.Minute)).Lock(ctx)
				return err
			}, locked(w, l, err)}
		},
		"RWLock.Lock": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewRWLock(other, "/m").RLock(t.Context())
			return wait{func(ctx context.Context) error { _, err := NewRWLock(c, "/m").Lock(ctx); return err }, locked(w, l, err)}
		},
		"RWLock.RLock": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewRWLock(other, "/m").Lock(t.Context())
			return wait{func(ctx context.Context) error { _, err := NewRWLock(c, "/m").RLock(ctx); return err }, locked(w, l, err)}
		},
		"LockAll": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewMutex(other, "/m").Lock(t.Context())
			return wait{func(ctx context.Context) error {
				ls, err := LockAll(ctx, NewMutex(c, "/a"), NewMutex(c, "/m"))
				if err == nil {
					err = ls.Err()
				}
				return err
			}, locked(w, l, err)}
		},
		"Semaphore.Acquire": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewSemaphore(other, "/m", 2).AcquireN(t.Context(), 2)
			return wait{func(ctx context.Context) error { _, err := NewSemaphore(c, "/m", 2).Acquire(ctx); return err }, locked(w, l, err)}
		},
		"Semaphore.AcquireN": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewSemaphore(other, "/m", 2).Acquire(t.Context())
			return wait{func(ctx context.Context) error { _, err := NewSemaphore(c, "/m", 2).AcquireN(ctx, 2); return err }, locked(w, l, err)}
		},
		"Election.Campaign": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewElection(other, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return wait{func(ctx context.Context) error { _, err := NewElection(c, "/m").Campaign(ctx, nil); return err }, locked(w, l.lease, err)}
		},
		"Election.Lead": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewElection(other, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return wait{func(ctx context.Context) error {
				return NewElection(c, "/m").Lead(ctx, nil, func(context.Context, *Term) error { return nil })
			}, locked(w, l.lease, err)}
		},
		"Election.Observe": func(t *testing.T, w *world, c, other *Client) wait {
			l, err := NewElection(other, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return wait{func(ctx context.Context) error {
				for leader, err := range NewElection(c, "/m").Observe(ctx) {
					if err != nil || leader.None() {
						return err
					}
				}
				return errors.New("the iteration has ended")
			}, locked(w, l.lease, err)}
		},
		"Queue.Take": func(t *testing.T, w *world, c, other *Client) wait {
			return wait{func(ctx context.Context) error { _, err := NewQueue(c, "/m", nil).Take(ctx); return err },
				func() { putOn(t, NewQueue(other, "/m", nil), "item") }}
		},
		"Queue.TakeN": func(t *testing.T, w *world, c, other *Client) wait {
			return wait{func(ctx context.Context) error { _, err := NewQueue(c, "/m", nil).TakeN(ctx, 2); return err },
				func() { putOn(t, NewQueue(other, "/m", nil), "item") }}
		},
		"Queue.Serve": func(t *testing.T, w *world, c, other *Client) wait {
			return wait{func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				return NewQueue(c, "/m", nil).Serve(ctx, func(context.Context, *Item) error { cancel(); return nil })
			}, func() { putOn(t, NewQueue(other, "/m", nil), "item") }}
		},
		"Queue.Put": func(t *testing.T, w *world, c, other *Client) wait {
			putOn(t, NewQueue(other, "/m", full), "first")
			return wait{func(ctx context.Context) error { _, err := NewQueue(c, "/m", full).Put(ctx, nil); return err },
				func() { ackOn(t, takeOn(t, NewQueue(other, "/m", full))) }}
		},
		"Queue.PutAll": func(t *testing.T, w *world, c, other *Client) wait {
			two := &QueueOptions{MaxLen: 2}
			putOn(t, NewQueue(other, "/m", two), "first")
			return wait{func(ctx context.Context) error { _, err := NewQueue(c, "/m", two).PutAll(ctx, nil, nil); return err },
				func() { ackOn(t, takeOn(t, NewQueue(other, "/m", two))) }}
		},
		"Gate.Wait": func(t *testing.T, w *world, c, other *Client) wait {
			require.NoError(t, NewGate(other, "/m").Shut(t.Context()))
			return wait{NewGate(c, "/m").Wait, func() { require.NoError(t, NewGate(other, "/m").Open(t.Context())) }}
		},
		beforeMember: func(t *testing.T, w *world, c, other *Client) wait {
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Hour, Times: -1}) // the first round stays
			b := func(c *Client) *Barrier { return NewBarrier(c, "/m", 2) }
			third := w.stranger(nil)
			indexes(t, waitLater(t, b(other)), waitLater(t, b(third)))
			membersLeft()
			return wait{func(ctx context.Context) error { _, err := b(c).Wait(ctx); return err }, func() {
				w.plan.Stop()
				for _, member := range []*Client{other, third} { // who leave with their sessions
					require.True(t, w.srv.Expire(sessionID(member)))
				}
				waitLater(t, b(w.stranger(nil)))
			}}
		},
		"Visit.Leave": func(t *testing.T, w *world, c, other *Client) wait {
			vs := visits(t, enter(t, NewDoubleBarrier(c, "/m", 2)), enter(t, NewDoubleBarrier(other, "/m", 2)))
			return wait{vs[0].Leave, func() { require.NoError(t, vs[1].Leave(t.Context())) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				now := begin(t, w, c, w.stranger(nil))
				a := harness.GoErr(t, now.call)
				for range 2 {
					synctest.Wait()
					require.True(t, a.Waiting())
					w.expire(c)
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
					inBubble(t, func(t *testing.T, w *world) {
						c := w.stranger(nil)
						now := begin(t, w, c, w.stranger(nil))
						time.Sleep(30 * time.Second) // other watches what it holds by now
						w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Skip: skip})
						a := harness.GoErr(t, now.call)
						time.Sleep(30 * time.Second)
						synctest.Wait()
						require.True(t, a.Waiting(), skip)
						fired = w.met()
						w.plan.Stop()
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
	released := func(l *Lease, err error) (holding, error) {
		return holding{l, func(context.Context) error { return l.Release() }}, err
	}
	item := func(t *testing.T, c *Client) (*Item, error) {
		q := NewQueue(c, "/m", nil)
		putOn(t, q, "item")
		return q.Take(t.Context())
	}
	for name, hold := range map[string]func(*testing.T, *Client) (holding, error){
		"Mutex": func(t *testing.T, c *Client) (holding, error) { return released(NewMutex(c, "/m").Lock(t.Context())) },
		"Mutex with KeepFor": func(t *testing.T, c *Client) (holding, error) {
			return released(NewMutex(c, "/m", KeepFor(time.Minute)).Lock(t.Context()))
		},
		"Mutex entered again": func(t *testing.T, c *Client) (holding, error) {
			l := held(t, NewMutex(c, "/m").Lock)
			return released(NewMutex(c, "/m").Lock(l.Reentrant(t.Context())))
		},
		"writer": func(t *testing.T, c *Client) (holding, error) { return released(NewRWLock(c, "/m").Lock(t.Context())) },
		"reader": func(t *testing.T, c *Client) (holding, error) { return released(NewRWLock(c, "/m").RLock(t.Context())) },
		"downgraded writer": func(t *testing.T, c *Client) (holding, error) {
			l := held(t, NewRWLock(c, "/m").Lock)
			require.NoError(t, NewRWLock(c, "/m").Downgrade(t.Context(), l))
			return released(l, nil)
		},
		"LockAll": func(t *testing.T, c *Client) (holding, error) {
			ls, err := LockAll(t.Context(), NewMutex(c, "/a"), NewMutex(c, "/b"))
			return holding{ls, func(context.Context) error { return ls.Release() }}, err
		},
		"slots": func(t *testing.T, c *Client) (holding, error) {
			l, err := NewSemaphore(c, "/m", 3).AcquireN(t.Context(), 2)
			return holding{l, func(context.Context) error { return l.Release() }}, err
		},
		"term": func(t *testing.T, c *Client) (holding, error) {
			term, err := NewElection(c, "/m").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return holding{term, func(context.Context) error { return term.Resign() }}, err
		},
		"item, acked": func(t *testing.T, c *Client) (holding, error) {
			it, err := item(t, c)
			return holding{it, func(ctx context.Context) error { return it.Ack(ctx) }}, err
		},
		"item, given back": func(t *testing.T, c *Client) (holding, error) {
			it, err := item(t, c)
			return holding{it, it.Nack}, err
		},
		"visit": func(t *testing.T, c *Client) (holding, error) {
			v, err := NewDoubleBarrier(c, "/m", 1).Enter(t.Context())
			return holding{v, v.Leave}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				h, err := hold(t, c)
				require.NoError(t, err)
				require.NoError(t, h.held.Err())
				ctx := h.held.Context(t.Context())
				w.expire(c)
				<-ctx.Done()
				for what, err := range map[string]error{"Err": h.held.Err(), "cause": context.Cause(ctx), "end": h.end(t.Context())} {
					require.ErrorIs(t, err, ErrLost, what)
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
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, zk.ErrSessionExpired)
	}
	for name, m := range map[string]struct {
		wait func(context.Context, *Client) error
		join string // its request
	}{
		"Barrier.Wait": {
			func(ctx context.Context, c *Client) error { _, err := NewBarrier(c, "/m", 2).Wait(ctx); return err },
			opJoinRound,
		},
		"DoubleBarrier.Enter": {
			func(ctx context.Context, c *Client) error {
				_, err := NewDoubleBarrier(c, "/m", 2).Enter(ctx)
				return err
			},
			opEnter,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := harness.GoErr(t, func(ctx context.Context) error { return m.wait(ctx, c) })
				synctest.Wait()
				require.True(t, a.Waiting())
				w.expire(c)
				_, err := a.Wait()
				isLost(t, err)
				require.NotErrorIs(t, err, ErrUncertain)
			})
		})
		for _, after := range []bool{false, true} { // others may have counted the member
			t.Run(fmt.Sprintf("%s, the reply to whose join is lost, applied: %v", name, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c := w.stranger(nil)
					if m.join == opJoinRound { // a member is refused while there is no round
						blocker := NewBarrier(w.stranger(nil), "/m", 2)
						waitLater(t, blocker)
						synctest.Wait()
					}
					w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: m.join, After: after})
					isLost(t, m.wait(harness.Within(t, time.Minute), c))
				})
			})
		}
	}
}
