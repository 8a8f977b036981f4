package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// The requests that an Election sends, by operation.

func TestA35FreeElectionAndResignationTakeThreeRequests(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		require.Equal(t, map[string]int{opJoin: 1, opElect: 1, opResign: 1}, w.requests(func() {
			require.NoError(t, campaigns(t, a, "a").Resign())
		}))
	})
}

// Both znodes of a term that lasts are watched, once.
func TestA35ALongTermTakesTwoMoreRequests(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		require.Equal(t, map[string]int{"getData": 1, "getChildren2": 1, opProclaim: 5}, w.requestsWithoutPings(func() {
			time.Sleep(time.Minute)
			for range 5 { // fires neither watch
				require.NoError(t, term.Proclaim(t.Context(), nil))
			}
			time.Sleep(time.Minute)
		}))
		require.NoError(t, term.Resign())
	})
}

// However many wait, a resignation wakes one candidate, whose only request is the
// transaction by which it leads.
func TestA35AChangeOfLeaderWakesOneCandidate(t *testing.T) {
	for _, n := range []int{1, 2, 16, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
				term := campaigns(t, a, "a")
				var calls []*harness.Call[*Term]
				for range n {
					e := w.election(nil)
					calls = append(calls, campaignLater(t, e, "b"))
					askOnce(t, clientOf(e.line.Client))
				}
				for i, call := range calls {
					before := w.srv.Counts()
					require.Equal(t, map[string]int{opResign: 1, opElect: 1}, w.requests(func() {
						require.NoError(t, term.Resign())
						term = call.Get()
					}))
					events := 0
					for _, n := range w.srv.Counts().Sub(before).Events {
						events += n
					}
					require.LessOrEqual(t, events, 4, "the successor's, and the resigned leader's own")
					if i == 20 {
						break
					}
				}
				require.NoError(t, term.Resign())
			})
		})
	}
}

// Each observer sends one request each time that the leader's znode is created, changed
// or deleted, and none while nothing changes.
func TestA35EachObserverReadsOnceForAChange(t *testing.T) {
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				var followers []*follower
				for range n {
					followers = append(followers, follow(t, w.election(nil)))
				}
				require.NoError(t, campaigns(t, a, "").Resign())
				synctest.Wait()
				var term *Term
				reads := func(f func()) map[string]int {
					counts := w.requestsWithoutPings(f)
					for _, op := range []string{opJoin, opElect, opResign, opProclaim} {
						delete(counts, op)
					}
					return counts
				}
				require.Equal(t, map[string]int{"getData": n}, reads(func() { term = campaigns(t, a, "a") }), "a leader")
				require.Equal(t, map[string]int{"getData": n}, reads(func() {
					require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				}), "another value")
				require.Equal(t, map[string]int{"exists": n}, reads(func() { require.NoError(t, term.Resign()) }), "none")
				require.Equal(t, map[string]int{"exists": 1, "delete": 1}, reads(func() { time.Sleep(time.Hour) }), "the candidate deletes the idle line")
				for _, o := range followers {
					all := o.values()
					require.Equal(t, []string{"a", "a2", "none"}, all[len(all)-3:])
				}
			})
		})
	}
}

// Observers of one Client share their requests.
func TestA35ObserversOfOneClientReadTogether(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		for range 10 {
			follow(t, b)
		}
		require.Equal(t, 1, w.requests(func() { campaigns(t, a, "a") })["getData"]-1, "and one of the first join")
	})
}

func TestA35LeaderTakesTwoRequests(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		campaigns(t, a, "a")
		require.Equal(t, map[string]int{"sync": 1, "getData": 1}, w.requests(func() {
			_, err := b.Leader(t.Context())
			require.NoError(t, err)
		}))
	})
}

// A second call of Lead in a process takes no place.
func TestA35ASecondLeadOfAProcessTakesNoRequest(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		l := lead(t, a, false)
		require.Empty(t, w.requests(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, a.Lead(ctx, nil, l.run), context.DeadlineExceeded)
		}))
		l.ret <- nil
		l.Get()
	})
}
