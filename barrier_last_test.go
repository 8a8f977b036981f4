package zkrecipes

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The last member to come, which opens its round by the transaction with which it joins.

// opLastJoinOf3 is opLastJoin of a barrier of three.
const opLastJoinOf3 = "multi(check,create,setData,create,setData,check,check,check,check)"

// What the last member has seen before its join is no longer so when the join arrives. The
// join is refused, and the member joins without an opening.
func TestB45LastMemberJoinsAloneIfOthersCameOrWent(t *testing.T) {
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
			_, err := w.insider().Set("/b", []byte("3"), -1)
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
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastJoinOf3, For: time.Second})
				last := w.inRound(3)
				require.NoError(t, last.checkSize(t.Context(), live(t, last.line.c)))
				var there []*harness.Call[int]
				requests := w.requests(func() {
					a := waitLater(t, last)
					synctest.Wait()
					there = append(change(t, w, as), a)
					indexes(t, there...)
				})
				require.GreaterOrEqual(t, requests[opLastJoinOf3], 1)
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

// All members but one are still there, because they leave a little later than their Waits
// return: whoever comes then is not the last of a round that is not open.
func TestA22OneThatComesWhileARoundIsLeftDoesNotOpenIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Second, Skip: 1, Times: 2})
		var as []*harness.Call[int]
		for range 3 {
			as = append(as, waitLater(t, w.inRound(3)))
		}
		indexes(t, as...)
		time.Sleep(500 * time.Millisecond)
		require.Len(t, w.present(), 2)
		late := w.inRound(3)
		require.NoError(t, late.checkSize(t.Context(), live(t, late.line.c)))
		requests := w.requests(func() {
			waitLater(t, late)
			synctest.Wait()
		})
		require.Zero(t, requests[opLastJoinOf3])
		require.Equal(t, 2, requests[opJoinRound], "which are refused")
	})
}

// The reply to the join that has opened the round is lost. The member is found, so it was a
// member of an open round, whatever becomes of its znode, and whether it may be read.
func TestB01LastMemberThatIsFoundHasPassed(t *testing.T) {
	for name, then := range map[string]zktest.Fault{
		"and cannot be read": {Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getData", Path: roundOf2 + "/_c_*"},
		"and has gone":       {Do: zktest.Answer, Code: jute.ErrNoNode, Op: "getData", Path: roundOf2 + "/_c_*"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a := waitLater(t, barrierOf2(w.stranger(nil)))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opLastJoin}, then)
				indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
			})
		})
	}
}

// Others may have counted a member that is deleted because it cannot be read.
func TestB36MemberThatCannotBeReadIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoinRound, Skip: 1}, // there is no round yet
			zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getData", Path: roundOf2 + "/_c_*"})
		_, err := w.inRound(2).Wait(t.Context())
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		synctest.Wait()
		require.Empty(t, w.present())
	})
}

// Wait looks before it does anything else, but not for a caller that has left.
func TestB32WaitOfAnEndedContextSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := used(t, w.stranger(nil), 2)
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, w.requests(func() {
			_, err := b.Wait(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}))
	})
}

// A request that has room for a join, but not for an opening as well.
func TestB52LastMemberJoinsAloneIfBothAreTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		large := w.stranger(&Options{Identity: strings.Repeat("x", jute.MaxFrame-500)})
		indexes(t, a, waitLater(t, barrierOf2(large)))
	})
}

// While the last member's listing is on its way, an operator deletes all, and others use the
// path for another n, one of them for the old one.
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
		_, err := w.insider().Set("/b", []byte("3"), -1)
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
		_, err := w.insider().Set("/b", []byte("3"), -1)
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
