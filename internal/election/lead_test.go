package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestLeadCampaignsAgainAfterALoss(t *testing.T) {
	type loses = func(w *recipetest.ElectionWorld, e *zkrecipes.Election, term *zkrecipes.Term)
	each(t, map[string]loses{
		"session expired": func(w *recipetest.ElectionWorld, e *zkrecipes.Election, _ *zkrecipes.Term) {
			w.Srv.Expire(recipetest.SessionID(w.ClientOf(e)))
		},
		"place deleted": func(w *recipetest.ElectionWorld, _ *zkrecipes.Election, term *zkrecipes.Term) {
			w.Evict(term.Checks()[0])
		},
		"leader znode deleted": func(w *recipetest.ElectionWorld, _ *zkrecipes.Election, _ *zkrecipes.Term) { w.DeleteLeader() },
		"all deleted":          func(w *recipetest.ElectionWorld, _ *zkrecipes.Election, term *zkrecipes.Term) { w.DeleteBoth(term) },
		"cut off for a session": func(w *recipetest.ElectionWorld, e *zkrecipes.Election, _ *zkrecipes.Term) {
			w.Away(w.ClientOf(e))
			time.Sleep(15 * time.Second)
			w.Back()
		},
	}, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election, lose loses) {
		l := recipetest.Lead(t, a, false)
		time.Sleep(2 * time.Second) // the znodes are watched by now
		first := l.Last.Load()
		lose(w, a, first)
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 2, l.Terms.Load())
		require.ErrorIs(t, first.Err(), zkrecipes.ErrLost)
		require.Greater(t, l.Last.Load().Token(), first.Token())
		w.LeaderIs("lead")
		l.Ret <- nil
		l.Get()
		w.NoLeader()
	})
}

func TestLeadDoesNotLeadAgainBeforeItsFunctionHasReturned(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		l := recipetest.Lead(t, a, true)
		// Another call, and one of another Election of the same Client and path.
		second := recipetest.Lead(t, a, true)
		third := recipetest.Lead(t, zkrecipes.NewElection(w.ClientOf(a), w.Path), true)
		w.Srv.Expire(recipetest.SessionID(w.ClientOf(a)))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, l.Terms.Load())
		require.EqualValues(t, 0, second.Terms.Load()+third.Terms.Load(), "the function still runs")
		term := recipetest.Campaigns(t, b, "b") // another process leads
		l.Ret <- errors.New("too late")
		synctest.Wait()
		require.True(t, l.Waiting(), "it campaigns again")
		require.Len(t, w.Line(), 2, "one candidate of the process, beside the leader")
		require.NoError(t, term.Resign())
		synctest.Wait()
		all := []*recipetest.Leading{l, second, third}
		for range all {
			synctest.Wait()
			var now *recipetest.Leading
			for _, l := range all {
				if l.Running.Load() > 0 {
					require.Nil(t, now, "two lead at once")
					now = l
				}
			}
			require.NotNil(t, now)
			now.Ret <- nil
			now.Get()
		}
		w.NoLeader()
	})
}

func TestLeadKeepsItsPlaceUntilItsFunctionHasReturnedAlthoughItsContextHasEnded(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		l := recipetest.Lead(t, a, true)
		next := recipetest.CampaignLater(t, b, "b")
		l.Cancel(nil)
		time.Sleep(time.Minute)
		require.True(t, next.Waiting())
		w.LeaderIs("lead")
		require.NoError(t, l.Last.Load().Err())
		l.Ret <- context.Canceled
		recipetest.Fails(t, l.Call, context.Canceled)
		require.NoError(t, next.Get().Resign())
		w.NoLeader()
	})
}

func TestLeadCampaignsAgainAfterAnEvictionFromTheLine(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		l := recipetest.Lead(t, b, false)
		require.NoError(t, w.Operator.Delete(w.Path+"/"+w.Line()[1].Name, -1))
		synctest.Wait()
		require.True(t, l.Waiting())
		require.Len(t, w.Line(), 2)
		require.NoError(t, term.Resign())
		synctest.Wait()
		l.Ret <- nil
		l.Get()
	})
}

// The outer Lead waits for its function, so the inner one must not wait for the outer one.
func TestLeadWithinLeadReturnsErrDeadlockAfterTheLoss(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		leads := func(context.Context, *zkrecipes.Term) error { return nil }
		var first *zkrecipes.Term
		require.NoError(t, a.Lead(t.Context(), nil, func(ctx context.Context, term *zkrecipes.Term) error {
			if first != nil {
				return nil
			}
			first = term
			w.Srv.Expire(recipetest.SessionID(w.ClientOf(a)))
			time.Sleep(time.Second)
			require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
			for _, ctx := range []context.Context{ctx, term.Reentrant(t.Context())} {
				require.ErrorIs(t, a.Lead(ctx, nil, leads), zkrecipes.ErrDeadlock)
				require.ErrorIs(t, zkrecipes.NewElection(w.ClientOf(a), w.Path).Lead(ctx, nil, leads), zkrecipes.ErrDeadlock)
			}
			return term.Err()
		}))
		err := a.Lead(first.Reentrant(t.Context()), nil, leads)
		require.NotErrorIs(t, err, zkrecipes.ErrDeadlock, "the outer Lead has returned")
		w.NoLeader()
	})
}

// The function given to Lead may use other Clients with its context, which are not closed.
func TestShutdownOfALeadersClientDoesNotLookLikeThatOfAnother(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := w.Stranger(nil), w.Stranger(nil)
		var served, cause error
		lead := harness.GoErr(t, func(ctx context.Context) error {
			return zkrecipes.NewElection(a, "/e").Lead(ctx, nil, func(ctx context.Context, _ *zkrecipes.Term) error {
				served = zkrecipes.NewQueue(b, w.Path, nil).Serve(ctx, func(context.Context, *zkrecipes.Item) error { return nil })
				cause = context.Cause(ctx)
				return nil
			})
		})
		synctest.Wait()
		require.NoError(t, a.Shutdown(t.Context()))
		_, _ = lead.Wait()
		require.NoError(t, served, "its context has ended")
		require.ErrorIs(t, cause, zkrecipes.ErrClosed)
	})
}

// A znode of the leader's is deleted, and nobody notices before the function returns. It may
// have learned of it by a write of its own.
func TestLeadGoesOnAfterALossThatOnlyTheServersKnowIfItsFunctionFails(t *testing.T) {
	for _, fails := range []bool{true, false} {
		each(t, map[string]func(*recipetest.ElectionWorld, *zkrecipes.Term){
			"place":  func(w *recipetest.ElectionWorld, term *zkrecipes.Term) { w.Evict(term.Checks()[0]) },
			"leader": func(w *recipetest.ElectionWorld, _ *zkrecipes.Term) { w.DeleteLeader() },
		}, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election, depose func(*recipetest.ElectionWorld, *zkrecipes.Term)) {
			terms := 0
			err := a.Lead(t.Context(), nil, func(_ context.Context, term *zkrecipes.Term) error {
				if terms++; terms > 1 {
					return nil
				}
				depose(w, term)
				require.NoError(t, term.Err(), "it is not watched yet")
				if fails {
					return recipetest.ErrHandler
				}
				return nil
			})
			if fails {
				require.NoError(t, err)
				require.Equal(t, 2, terms)
			} else {
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.Equal(t, 1, terms)
			}
			synctest.Wait()
			w.NoLeader()
		})
	}
}

func TestCloseEndsLeadAndObservers(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		leads, waits, o := recipetest.Lead(t, a, false), recipetest.Lead(t, b, false), recipetest.Follow(t, a)
		for _, e := range []*zkrecipes.Election{b, a} {
			require.NoError(t, w.ClientOf(e).Close())
		}
		for _, l := range []*recipetest.Leading{leads, waits} {
			recipetest.Fails(t, l.Call, zkrecipes.ErrClosed)
		}
		require.ErrorIs(t, o.Ended(), zkrecipes.ErrClosed)
		_, err := a.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		w.NoLeader()
	})
}

const lockDelay = 15 * time.Second

func delayedElection(w *recipetest.ElectionWorld) *zkrecipes.Election {
	return w.Election(nil, zkrecipes.LockDelay(lockDelay))
}

func TestLockDelayDelaysTheNextLeaderAfterALeaderThatDied(t *testing.T) {
	for _, waits := range []bool{true, false} {
		recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
			a, b := delayedElection(w), delayedElection(w)
			began := time.Now()
			for range 3 {
				require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
			}
			require.Zero(t, time.Since(began), "nothing is delayed after a resignation")
			recipetest.Campaigns(t, a, "a")
			var next *harness.Call[*zkrecipes.Term]
			if waits {
				next = recipetest.CampaignLater(t, b, "b")
			}
			w.Srv.Expire(recipetest.SessionID(w.ClientOf(a)))
			go w.ClientOf(a).Close()
			synctest.Wait()
			if !waits {
				next = recipetest.CampaignLater(t, b, "b")
			}
			time.Sleep(lockDelay - time.Millisecond)
			synctest.Wait()
			require.True(t, next.Waiting())
			require.NotContains(t, w.Srv.Children(w.Path), "leader", "no leader is published before the delay is over")
			time.Sleep(2 * time.Millisecond)
			term := next.Get()
			w.LeaderIs("b")
			require.NoError(t, term.Resign())
		})
	}
}

func TestLeadWaitsForTheLockDelayAfterItsOwnLoss(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		a := delayedElection(w)
		l := recipetest.Lead(t, a, false)
		require.EqualValues(t, 1, l.Terms.Load())
		w.Srv.Expire(recipetest.SessionID(w.ClientOf(a)))
		time.Sleep(lockDelay - time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, l.Terms.Load())
		time.Sleep(lockDelay)
		synctest.Wait()
		require.EqualValues(t, 2, l.Terms.Load())
		l.Ret <- nil
		l.Get()
	})
}

// An evicted candidate deletes its leader's znode at a turn in the line, and nobody is granted
// anything by that.
func TestEvictedLeaderWithdrawsWithoutALockDelay(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		a := delayedElection(w)
		term := recipetest.Campaigns(t, a, "a")
		time.Sleep(2 * time.Second) // the znodes are watched by now
		w.Evict(term.Checks()[0])
		time.Sleep(lockDelay / 2)
		synctest.Wait()
		require.Equal(t, []string{line.HeldName}, w.Srv.Children(w.Path))
	})
}
