package zkrecipes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestA01LeadResignsOnceItsFunctionHasReturned(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		broken := errors.New("broken")
		for _, want := range []error{nil, broken} {
			err := a.Lead(t.Context(), []byte("a"), func(ctx context.Context, term *Term) error {
				require.NoError(t, term.Err())
				w.leaderIs("a")
				return want
			})
			require.Equal(t, want, err)
			w.noLeader()
		}
		require.PanicsWithValue(t, "oh", func() {
			_ = a.Lead(t.Context(), nil, func(context.Context, *Term) error { panic("oh") })
		})
		w.noLeader()
		require.EqualError(t, a.Lead(t.Context(), nil, func(context.Context, *Term) error { return broken }), "broken")
	})
}

// leading is a call of Lead whose function runs until it is told to return.
type leading struct {
	*harness.Call[struct{}]
	terms   atomic.Int32 // that have begun
	running atomic.Int32
	most    atomic.Int32 // of the functions that ran at a time
	last    atomic.Pointer[Term]
	ret     chan error // what the function returns next
	patient bool       // the function goes on when its context ends
}

func lead(t testing.TB, e *Election, patient bool) *leading {
	l := &leading{ret: make(chan error), patient: patient}
	l.Call = harness.GoErr(t, func(ctx context.Context) error {
		return e.Lead(ctx, []byte("lead"), l.run)
	})
	synctest.Wait()
	return l
}

func (l *leading) run(ctx context.Context, term *Term) error {
	l.terms.Add(1)
	l.last.Store(term)
	l.most.Store(max(l.most.Load(), l.running.Add(1)))
	defer l.running.Add(-1)
	ended := ctx.Done()
	if l.patient {
		ended = nil
	}
	select {
	case err := <-l.ret:
		return err
	case <-ended:
		return context.Cause(ctx)
	}
}

func TestA35LeadCampaignsAgainAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(w *electionWorld, e *Election, term *Term){
		"session expired":      func(w *electionWorld, e *Election, _ *Term) { w.srv.Expire(sessionID(clientOf(e.line.Client))) },
		"place deleted":        func(w *electionWorld, _ *Election, term *Term) { w.evict(term.lease) },
		"leader znode deleted": func(w *electionWorld, _ *Election, _ *Term) { w.deleteLeader() },
		"all deleted":          func(w *electionWorld, _ *Election, term *Term) { w.deleteBoth(term) },
		"cut off for a session": func(w *electionWorld, e *Election, _ *Term) {
			w.away(clientOf(e.line.Client))
			time.Sleep(15 * time.Second)
			w.back()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
				l := lead(t, a, false)
				time.Sleep(2 * time.Second) // the znodes are watched by now
				first := l.last.Load()
				lose(w, a, first)
				time.Sleep(5 * time.Second)
				require.EqualValues(t, 2, l.terms.Load())
				require.ErrorIs(t, first.Err(), ErrLost)
				require.Greater(t, l.last.Load().Token(), first.Token())
				w.leaderIs("lead")
				l.ret <- nil
				_, err := l.Wait()
				require.NoError(t, err)
				w.noLeader()
			})
		})
	}
}

func TestA35LeadDoesNotLeadAgainBeforeItsFunctionHasReturned(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		l := lead(t, a, true)
		// Another call, and one of another Election of the same Client and path.
		second := lead(t, a, true)
		third := lead(t, NewElection(clientOf(a.line.Client), w.path), true)
		w.srv.Expire(sessionID(clientOf(a.line.Client)))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, l.terms.Load())
		require.EqualValues(t, 0, second.terms.Load()+third.terms.Load(), "the function still runs")
		term := campaigns(t, b, "b") // another process leads
		l.ret <- errors.New("too late")
		synctest.Wait()
		require.True(t, l.Waiting(), "it campaigns again")
		require.Len(t, w.line(), 2, "one candidate of the process, beside the leader")
		require.NoError(t, term.Resign())
		synctest.Wait()
		all := []*leading{l, second, third}
		for range all {
			synctest.Wait()
			var now *leading
			for _, l := range all {
				if l.running.Load() > 0 {
					require.Nil(t, now, "two lead at once")
					now = l
				}
			}
			require.NotNil(t, now)
			now.ret <- nil
			_, err := now.Wait()
			require.NoError(t, err)
		}
		w.noLeader()
	})
}

func TestA35LeadKeepsItsPlaceUntilItsFunctionHasReturnedAlthoughItsContextHasEnded(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		l := lead(t, a, true)
		next := campaignLater(t, b, "b")
		l.Cancel(nil)
		time.Sleep(time.Minute)
		require.True(t, next.Waiting())
		w.leaderIs("lead")
		require.NoError(t, l.last.Load().Err())
		l.ret <- context.Canceled
		_, err := l.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, next.Get().Resign())
		w.noLeader()
	})
}

func TestA35LeadEndsWithItsContextWhileItCampaigns(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		why := errors.New("why")
		first, second := lead(t, b, false), lead(t, b, false)
		second.Cancel(why) // it waits in the process
		_, err := second.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		first.Cancel(why)
		_, err = first.Wait()
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "zkrecipes: lead "+w.path)
		synctest.Wait()
		require.Len(t, w.line(), 1)
		require.NoError(t, term.Resign())
	})
}

func TestA35LeadCampaignsAgainAfterAnEvictionFromTheLine(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		l := lead(t, b, false)
		require.NoError(t, w.operator.Delete(w.path+"/"+w.line()[1].Name, -1))
		synctest.Wait()
		require.True(t, l.Waiting())
		require.Len(t, w.line(), 2)
		require.NoError(t, term.Resign())
		synctest.Wait()
		l.ret <- nil
		_, err := l.Wait()
		require.NoError(t, err)
	})
}

func TestA35LeadReturnsErrClosedWhenItsClientIsClosed(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		l, waits := lead(t, a, false), lead(t, b, false)
		require.NoError(t, clientOf(b.line.Client).Close())
		_, err := waits.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, clientOf(a.line.Client).Close())
		_, err = l.Wait()
		require.ErrorIs(t, err, ErrClosed)
		w.noLeader()
	})
}

// The function resigns, and returns.
func TestA35LeadEndsWithAFunctionThatResigns(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		require.NoError(t, a.Lead(t.Context(), nil, func(_ context.Context, term *Term) error { return term.Resign() }))
		w.noLeader()
	})
}

// The place was deleted, and nobody noticed before the resignation.
func TestA35LeadThatEndsSaysThatTheTermWasLost(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		err := a.Lead(t.Context(), nil, func(_ context.Context, term *Term) error {
			w.evict(term.lease)
			require.NoError(t, term.Err(), "it is not watched yet")
			return nil
		})
		require.ErrorIs(t, err, ErrLost)
		synctest.Wait()
		w.noLeader()
	})
}

// Lead's first commit loses its reply with the session.
func TestB11LeadGoesOnInTheNextSession(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		w.plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: opElect})
		l := lead(t, a, false)
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 1, l.terms.Load())
		w.leaderIs("lead")
		l.ret <- nil
		_, err := l.Wait()
		require.NoError(t, err)
		w.noLeader()
	})
}

// The function learns of the eviction by a write of its own, before anybody else.
func TestA35LeadCampaignsAgainIfItsFunctionFailsAfterALossThatOnlyTheServersKnow(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		terms := 0
		err := a.Lead(t.Context(), nil, func(_ context.Context, term *Term) error {
			if terms++; terms > 1 {
				return nil
			}
			w.evict(term.lease)
			_, err := w.operator.Multi(term.Check(), &zk.SetDataRequest{Path: "/x", Version: -1})
			require.Error(t, err)
			require.NoError(t, term.Err(), "it is not watched yet")
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 2, terms)
		synctest.Wait()
		w.noLeader()
	})
}

// The outer Lead waits for its function, so the inner one must not wait for the outer one.
func TestA36LeadWithinLeadReturnsErrDeadlockAfterTheLoss(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		leads := func(context.Context, *Term) error { return nil }
		var first *Term
		require.NoError(t, a.Lead(t.Context(), nil, func(ctx context.Context, term *Term) error {
			if first != nil {
				return nil
			}
			first = term
			w.srv.Expire(sessionID(clientOf(a.line.Client)))
			time.Sleep(time.Second)
			require.ErrorIs(t, term.Err(), ErrLost)
			for _, ctx := range []context.Context{ctx, term.Reentrant(t.Context())} {
				require.ErrorIs(t, a.Lead(ctx, nil, leads), ErrDeadlock)
				require.ErrorIs(t, NewElection(clientOf(a.line.Client), w.path).Lead(ctx, nil, leads), ErrDeadlock)
			}
			return term.Err()
		}))
		err := a.Lead(first.Reentrant(t.Context()), nil, leads)
		require.NotErrorIs(t, err, ErrDeadlock, "the outer Lead has returned")
		w.noLeader()
	})
}

// The function given to Lead may use other Clients with its context, which are not closed.
func TestShutdownOfALeadersClientDoesNotLookLikeThatOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.stranger(nil), w.stranger(nil)
		var served, cause error
		lead := harness.GoErr(t, func(ctx context.Context) error {
			return NewElection(a, "/e").Lead(ctx, nil, func(ctx context.Context, _ *Term) error {
				served = NewQueue(b, w.path, nil).Serve(ctx, func(context.Context, *Item) error { return nil })
				cause = context.Cause(ctx)
				return nil
			})
		})
		synctest.Wait()
		require.NoError(t, a.Shutdown(t.Context()))
		_, _ = lead.Wait()
		require.NoError(t, served, "its context has ended")
		require.ErrorIs(t, cause, ErrClosed)
	})
}
