package zkrecipes

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The last member to come, which opens its round by the transaction with which it joins.

// What the last member has seen before its join is no longer so when the join arrives. The
// join is refused, and the member joins without an opening.
func TestB45LastMemberJoinsAloneIfOthersCameOrWent(t *testing.T) {
	const last3 = "multi(check,create,setData,create,setData,check,check,check,check)"
	for name, change := range map[string]func(t *testing.T, w *world, as []*harness.Call[int]) (there []*harness.Call[int]){
		"one has left": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			as[1].Cancel(nil)
			_, err := as[1].Wait()
			require.ErrorIs(t, err, context.Canceled)
			return []*harness.Call[int]{as[0], waitLater(t, w.inRound(3))}
		},
		"one was deleted": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			require.NoError(t, w.bare().Delete(roundOf2+"/"+slices.MinFunc(w.present(), placeName.compare).name, -1))
			return []*harness.Call[int]{as[1], waitLater(t, w.inRound(3))}
		},
		"one has left and another has come": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			as[0].Cancel(nil)
			_, err := as[0].Wait()
			require.ErrorIs(t, err, context.Canceled)
			b := waitLater(t, w.inRound(3))
			synctest.Wait()
			return []*harness.Call[int]{as[1], b}
		},
		"n was written again": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			_, err := w.bare().Set("/b", []byte("3"), -1)
			require.NoError(t, err)
			return as
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observer{dir: roundOf2}
			inBubble(t, func(t *testing.T, w *world) {
				var as []*harness.Call[int]
				for range 2 {
					as = append(as, waitLater(t, w.inRound(3)))
					synctest.Wait()
				}
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: last3, For: time.Second})
				last := w.inRound(3)
				require.NoError(t, last.checkSize(t.Context(), live(t, last.line.c)))
				var there []*harness.Call[int]
				requests := w.requests(func() {
					a := waitLater(t, last)
					synctest.Wait()
					there = append(change(t, w, as), a)
					indexes(t, there...)
				})
				require.GreaterOrEqual(t, requests[last3], 1)
				require.GreaterOrEqual(t, requests[opJoinRound], 1, "the join by itself")
				require.Equal(t, []int{3}, o.openings())
			}, o.option())
		})
	}
}

// Another one came first, and has opened the round.
func TestA22OneTooManyThatSawItselfTheLastWaitsForTheNextRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := waitLater(t, w.inRound(2))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastJoin, For: time.Second})
		late := waitLater(t, w.inRound(2))
		synctest.Wait()
		indexes(t, first, waitLater(t, w.inRound(2)))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.True(t, late.Waiting())
		require.Len(t, w.present(), 1)
		indexes(t, late, waitLater(t, w.inRound(2)))
	})
}

// Between the last member's read of the path and its listing an operator deletes all, and
// others use the path for another n, one of them for the old one.
func TestB78LastMemberDoesNotBelieveTheSizeOfAPathThatHasGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		last, other := used(t, w.stranger(nil), 2), used(t, w.stranger(nil), 2)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: roundOf2, For: time.Second})
		a := waitLater(t, last)
		synctest.Wait()
		wipe(t, w.bare(), "/b")
		three := waitLater(t, w.inRound(3))
		synctest.Wait()
		three.Cancel(nil)
		_, err := three.Wait()
		require.ErrorIs(t, err, context.Canceled)
		b := waitLater(t, other)
		synctest.Wait()
		require.Len(t, w.present(), 1)
		_, err = a.Wait()
		requireSize(t, err, "a barrier of 3 members is used as one of 2")
		_, err = b.Wait()
		requireSize(t, err, "a barrier of 3 members is used as one of 2")
	})
}

// The last member reads n before it joins.
func TestB78LastMemberWithAnotherNDoesNotJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		last := used(t, w.stranger(nil), 2)
		a := waitLater(t, w.inRound(2))
		synctest.Wait()
		_, err := w.bare().Set("/b", []byte("3"), -1)
		require.NoError(t, err)
		requests := w.requests(func() {
			_, err := last.Wait(t.Context())
			requireSize(t, err, "a barrier of 3 members is used as one of 2")
		})
		require.Zero(t, requests[opJoinRound]+requests[opLastJoin])
		_, err = a.Wait()
		requireSize(t, err, "a barrier of 3 members is used as one of 2")
	})
}

// As many are there as the last member needs, but one of them waits for another n.
func TestB78LastMemberDoesNotCountThoseOfAnotherN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := used(t, w.stranger(nil), 5)
		_, err := w.bare().Set("/b", []byte("3"), -1)
		require.NoError(t, err)
		as := []*harness.Call[int]{waitLater(t, w.inRound(3))}
		synctest.Wait()
		wrong := waitLater(t, old)
		synctest.Wait()
		as = append(as, waitLater(t, w.inRound(3)))
		synctest.Wait()
		for _, a := range as {
			require.True(t, a.Waiting())
		}
		indexes(t, append(as, waitLater(t, w.inRound(3)))...)
		_, err = wrong.Wait()
		requireSize(t, err, "a barrier of 3 members is used as one of 5")
	})
}
