package barrier_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// When a member leaves a round that was opened with it: a little after its Wait has returned.

// openRound returns a Barrier when the Waits of its n members have returned.
func (w *world) openRound(n int) *zkrecipes.Barrier {
	w.T.Helper()
	b, began := w.InRound(n), time.Now()
	var as []waiting
	for range n {
		as = append(as, recipetest.WaitLater(w.T, b))
	}
	recipetest.Indexes(w.T, as...)
	require.Zero(w.T, time.Since(began), "so no member has left yet")
	return b
}

func TestMembersStayForAMomentAfterWaitHasReturned(t *testing.T) {
	for n, stays := range map[int]time.Duration{
		1: 50 * time.Microsecond, 10: 500 * time.Microsecond, 2100: 100 * time.Millisecond, // at most
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.openRound(n)
				time.Sleep(stays * 9 / 10)
				synctest.Wait()
				require.Len(t, w.Present(), n)
				time.Sleep(stays * 2 / 10)
				synctest.Wait()
				require.Empty(t, w.Srv.Children("/b"), "the last one has deleted the round, too")
			})
		})
	}
}

// The leave that is put off is sent before the join. Otherwise that would be refused, and the
// new member would wait until the old one has left.
func TestMemberThatComesBackDoesNotWaitUntilItHasLeft(t *testing.T) {
	const rounds = 20
	for n, shared := range map[int]bool{1: false, 3: false, 5: true} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				bs := []*zkrecipes.Barrier{w.InRound(n)}
				for len(bs) < n {
					if shared {
						bs = append(bs, bs[0])
					} else {
						bs = append(bs, w.InRound(n))
					}
				}
				began := time.Now()
				requests := w.Requests(func() {
					var all sync.WaitGroup
					for _, b := range bs {
						all.Go(func() {
							for range rounds {
								if _, err := b.Wait(t.Context()); err != nil {
									t.Error(err)
								}
							}
						})
					}
					all.Wait()
				})
				require.Zero(t, time.Since(began), "nobody waits for a leave that is put off")
				require.Equal(t, n*(rounds-1), requests[recipetest.OpLeaveRound], "those of the last round are put off")
				if n == 1 {
					// There is no round, or it has no member and gets deleted.
					require.LessOrEqual(t, requests[recipetest.OpJoinRound], 3*rounds)
				}
				require.Equal(t, n, w.Requests(recipetest.MembersLeft)[recipetest.OpLeaveRound], "and nobody leaves twice")
				require.Empty(t, w.Srv.Children("/b"))
			})
		})
	}
}

// Close sends what is put off, and waits for that only.
func TestCloseDoesNotWaitUntilMembersWouldLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := w.openRound(1000) // who stay for 50 ms
		began := time.Now()
		require.NoError(t, clientOf(b).Close())
		require.Less(t, time.Since(began), 10*time.Millisecond)
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// B35: Members leave before Close returns, whether or not they have begun to.
func TestMembersHaveLeftWhenTheirClientIsClosed(t *testing.T) {
	each(t, map[string]bool{"put off": false, "under way": true}, func(t *testing.T, w *world, begun bool) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Second, Times: 2})
		b := w.openRound(2)
		if begun {
			recipetest.MembersLeft()
		}
		require.Len(t, w.Present(), 2)
		require.NoError(t, clientOf(b).Close())
		require.Empty(t, w.Srv.Children("/b"), "the last one has deleted the round, too")
	})
}

// The session of one of two members ends between its Wait and its leave.
func TestMembersWhoseSessionEndsBeforeTheyLeaveAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		recipetest.Indexes(t, w.waitsIn(c, 2), w.waitsIn(d, 2))
		w.expire(c)
		require.Len(t, w.Present(), 1)
		w.empty() // the other was the last to leave
		recipetest.Indexes(t, w.waitsIn(c, 2), w.waitsIn(d, 2))
		w.expire(c)
		w.expire(d)
		require.Zero(t, w.Requests(recipetest.MembersLeft)[recipetest.OpLeaveRound])
		require.Equal(t, []string{"ready"}, w.Srv.Children(recipetest.RoundOf2), "for the next to come to delete")
		w.openRound(2)
		w.empty()
	})
}
