package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The rule that doc.go states under "The end of a session", over all recipes.
// Members of barriers are an exception: TestAMemberIsLostWithItsSession in barrier_test.go.

func TestWhatWaitsWaitsOnInTheNextSession(t *testing.T) {
	type wait struct {
		call func(context.Context) error // waits in c
		free func()                      // ends the wait
	}
	const beforeMember = "Barrier.Wait before it is a member"
	led := func(t *testing.T, other *zkrecipes.Client) (free func()) {
		term := recipetest.Campaigns(t, zkrecipes.NewElection(other, "/m"), "v")
		return func() { require.NoError(t, term.Resign()) }
	}
	item := func(t *testing.T, other *zkrecipes.Client) (free func()) {
		return func() { recipetest.PutOn(t, zkrecipes.NewQueue(other, "/m", nil), "item") }
	}
	for name, begin := range map[string]func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait{
		"Election.Lead": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error {
				return zkrecipes.NewElection(c, "/m").Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return nil })
			}, free: led(t, other)}
		},
		"Election.Observe": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error {
				for leader, err := range zkrecipes.NewElection(c, "/m").Observe(ctx) {
					if err != nil || leader.None() {
						return err
					}
				}
				return errors.New("the iteration has ended")
			}, free: led(t, other)}
		},
		"Queue.TakeN": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error { _, err := zkrecipes.NewQueue(c, "/m", nil).TakeN(ctx, 2); return err },
				free: item(t, other)}
		},
		"Queue.Serve": func(t *testing.T, w *recipetest.World, c, other *zkrecipes.Client) wait {
			return wait{call: func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				return zkrecipes.NewQueue(c, "/m", nil).Serve(ctx, func(context.Context, *zkrecipes.Item) error { cancel(); return nil })
			}, free: item(t, other)}
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
