package barrier_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members of a Barrier that disagree on n, mostly because somebody has changed it.

// sizeIs has somebody write n.
func (w *world) sizeIs(n string) {
	w.T.Helper()
	w.Write("/b", n)
}

// failsForSize requires that a member of a round of n is refused since the path's is another.
func (w *world) failsForSize(a waiting, is, n int) {
	w.T.Helper()
	_, err := a.Wait()
	recipetest.RequireSize(w.T, err, fmt.Sprintf("a barrier of %d members is used as one of %d", is, n))
}

func TestParticipantsThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.waits(2)
		w.failsForSize(w.waits(3), 2, 3)
		require.True(t, a.Waiting())
		recipetest.Indexes(t, a, w.waits(2))
		w.empty()
		// If members arrive at once, the first to arrive sets the number.
		for range 10 {
			recipetest.RemoveTree(t, w.Bare(), "/b")
			b, c := w.InRound(1), w.InRound(2)
			as := []waiting{recipetest.WaitLater(t, b), recipetest.WaitLater(t, c), recipetest.WaitLater(t, c)}
			agreed := 0
			for _, a := range as {
				if _, err := a.Wait(); err == nil {
					agreed++
				} else {
					require.ErrorIs(t, err, zkrecipes.ErrSize)
				}
			}
			require.Contains(t, []int{1, 2}, agreed)
			recipetest.MembersLeft()
		}
	})
}

// The one that remembers another n has come first. The others must not be let through
// with it, and its number must not be one of theirs.
func TestMemberThatRemembersAnotherNIsNotCounted(t *testing.T) {
	each(t, map[string]int{"fewer": 2, "more": 4}, func(t *testing.T, w *world, n int) {
		old := w.used(n)
		w.sizeIs("3")
		wrong := w.waitsAt(old)
		var as []waiting
		for range 3 {
			for _, a := range as {
				require.True(t, a.Waiting())
			}
			as = append(as, w.waits(3))
		}
		recipetest.Indexes(t, as...)
		w.failsForSize(wrong, 3, n)
		w.empty()
	})
}

func TestMemberThatWaitsAloneLearnsThatItsNIsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := w.used(3)
		w.sizeIs("2")
		a := w.waitsAt(old)
		require.True(t, a.Waiting(), "it costs a request, so short waits do not ask")
		time.Sleep(2 * time.Second)
		w.failsForSize(a, 2, 3)
	})
}

// The path is written while the round is being opened, after the opener has read n: with
// another n, which nobody opens it for, or with what is not a change of n.
func TestRoundIsNotOpenedForAnNThatWasChanged(t *testing.T) {
	each(t, map[string]string{"changed": "3", "the same": "2", "emptied": ""}, func(t *testing.T, w *world, data string) {
		a := w.waits(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: 100 * time.Millisecond})
		b := w.waits(2)
		w.sizeIs(data)
		if data == "3" {
			w.failsForSize(b, 3, 2)
			w.failsForSize(a, 3, 2)
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/b"))
			return
		}
		recipetest.Indexes(t, a, b)
		require.Equal(t, "2", w.Text("/b"))
	})
}

// A Barrier that is used all the time reads n again.
func TestBarrierInUseReadsNAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := w.used(1)
		reads := 0
		for range 12 {
			time.Sleep(10 * time.Second)
			reads += w.Requests(func() { recipetest.Indexes(t, w.waitsAt(b)) })["getData"]
		}
		require.Equal(t, 12+4, reads, "to open each round, and every half a minute")
	})
}

// A round that was opened for another n is none of the member's, whoever opened it.
func TestRoundOpenedForAnotherNIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, own := w.waits(2), w.member()
		w.Write(recipetest.ReadyOf2, own[len(own)-10:]+",11,13")
		w.failsForSize(a, 3, 2)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// Double barriers that disagree on n.

// acquaint lets a double barrier be used, so that it knows the path and its members.
func (w *world) acquaint(d *zkrecipes.DoubleBarrier) *zkrecipes.DoubleBarrier {
	w.T.Helper()
	recipetest.Cancels(w.T, recipetest.EnterLater(w.T, d))
	synctest.Wait()
	return d
}

// wrongSize requires that a member of a double barrier of n is refused since others wait for
// another number.
func (w *world) wrongSize(a entering, is, n int) {
	w.T.Helper()
	_, err := a.Wait()
	recipetest.RequireSize(w.T, err, fmt.Sprintf("a double barrier of %d members is used as one of %d", is, n))
}

// Others wait for 3. One that comes newly with another n is refused, also while they are
// inside, and so is one that has used the path with another n, since when it was reaped.
func TestMembersOfADoubleBarrierThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	for _, n := range []int{2, 4} {
		each(t, map[string]bool{"new": false, "used": true}, func(t *testing.T, w *world, used bool) {
			wrong := w.DoubleOf(n)
			if used {
				w.acquaint(wrong)
				recipetest.RemoveTree(t, w.Bare(), "/d")
			}
			a := w.enters(3)
			for range 2 {
				w.wrongSize(recipetest.EnterLater(t, wrong), 3, n)
				require.Len(t, w.Inside(), 1, "it leaves nothing behind")
				require.True(t, a.Waiting())
			}
			vs := recipetest.Visits(t, a, w.enters(3), w.enters(3))
			_, err := wrong.Enter(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrSize, "they are inside")
			w.allLeave(vs...)
		})
	}
}

// The path is the same, and was empty when others began to use it for another n.
func TestMemberOfADoubleBarrierIsNotCountedForAnotherN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := w.acquaint(w.DoubleOf(3))
		a := w.enters(2)
		wrong := recipetest.EnterLater(t, old)
		require.True(t, a.Waiting(), "the other one does not count")
		b := w.enters(2)
		w.wrongSize(wrong, 2, 3)
		w.leave(a, b)
	})
}

// The n of a barrier that nobody uses may be changed.
func TestEmptyDoubleBarrierMayBeUsedForAnotherN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, n := range []int{2, 3, 1} {
			w.allLeave(w.visits(n)...)
		}
	})
}

// A ready that others have created does not say for how many it is.
func TestReadyOfOthersLetsMembersInWhateverItHolds(t *testing.T) {
	for _, data := range []string{"", "10.0.0.7", "7", "host with spaces", "7 of ours", "of ours", "often 7"} {
		inBubble(t, func(t *testing.T, w *world) {
			a := w.enters(2)
			w.Write("/d/ready", data)
			w.leave(a)
		})
	}
	// One that may not be read, and is left from an earlier use. Since 3.9 nobody learns
	// that it exists, and Enter fails.
	inBubble(t, func(t *testing.T, w *world) {
		w.acquaint(w.DoubleOf(2))
		_, err := w.Bare().Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll&^zk.PermRead))
		require.NoError(t, err)
		w.leave(w.enters(1))
	}, zktest.Emulate(zktest.ZooKeeper38))
}
