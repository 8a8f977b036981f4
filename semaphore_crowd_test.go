package zkrecipes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Clients that take slots at the same time, while enough are free for all.

// crowdOf returns n warm semaphores of that many slots, each of a client of its own, whose
// replies take about a millisecond. No two of them take equally long, so the clients do not
// go on in step.
func (w *world) crowdOf(n, slots int) (xs []*Semaphore) {
	releaseSlots(w.t, acquire(w.t, w.semaphore(slots), 1)) // the first use stands in line
	for i := range n {
		link := harness.NewLink(w.srv)
		x := NewSemaphore(w.stranger(&Options{Dialer: link.Dial}), "/s", slots)
		releaseSlots(w.t, acquire(w.t, x, 1))
		link.SetLatency(time.Millisecond + time.Duration(i)*37*time.Microsecond)
		xs = append(xs, x)
	}
	synctest.Wait()
	return xs
}

func TestCrowdOnAWideSemaphoreIsNeverTurnedAway(t *testing.T) {
	const clients, slots, rounds = 16, 10_000, 47
	for name, take := range map[string]func(*Semaphore, context.Context) (*SlotLease, error){
		"TryAcquire": (*Semaphore).TryAcquire, "Acquire": (*Semaphore).Acquire,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				xs := w.crowdOf(clients, slots)
				before := w.srv.Counts()
				var mu sync.Mutex
				held, granted, locked := map[int]bool{}, 0, 0
				var wg sync.WaitGroup
				for _, x := range xs {
					wg.Go(func() {
						for range rounds {
							l, err := take(x, t.Context())
							mu.Lock()
							switch {
							case err == nil && !held[l.Slot()]:
								granted++
								held[l.Slot()] = true
							case errors.Is(err, ErrLocked):
								locked++
							default:
								t.Errorf("slot %d: %v", l.Slot(), err)
							}
							mu.Unlock()
							if err != nil {
								continue
							}
							time.Sleep(time.Millisecond)
							mu.Lock()
							delete(held, l.Slot())
							mu.Unlock()
							if err := l.Release(); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				did := w.srv.Counts().Sub(before)
				requests := 0
				for op, n := range did.Requests {
					if op != "ping" {
						requests += n
					}
				}
				t.Logf("%d grants, %d ErrLocked, %.2f requests a grant: %v", granted, locked, float64(requests)/float64(granted), did.Requests)
				require.Zero(t, locked)
				require.Equal(t, clients*rounds, granted)
				require.LessOrEqual(t, requests, 6*granted)
				w.semaphoreAtRest()
			})
		})
	}
}

// crowdedSemaphore is like warmSemaphore, and expects a crowd. It knows of no slot that
// others take from now on.
func (w *world) crowdedSemaphore(n int) *Semaphore {
	w.t.Helper()
	x := w.warmSemaphore(n)
	x.slotted.NoteCrowd()
	return x
}

// requireLocked requires that a try returns ErrLocked.
func requireLocked(t *testing.T, x *Semaphore, k int) {
	t.Helper()
	_, err := x.TryAcquireN(harness.Within(t, time.Minute), k)
	require.ErrorIs(t, err, ErrLocked)
}

// Others take slots between each look and the taking.
func TestTryAcquireGetsASlotAlthoughOthersAreQuickerEachTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, use := w.distantSemaphore()
		a := harness.Go(t, x.TryAcquire)
		for uses := 0; a.Waiting(); uses++ {
			require.Less(t, uses, 100)
			use()
		}
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
}

func TestCrowdedSemaphoreTakesThreeRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := w.crowdedSemaphore(1000), w.warmSemaphore(1000)
		releaseSlots(t, acquire(t, other, 1))
		require.Equal(t, map[string]int{opTakeFree: 1, "getChildren2": 1, opGiveBack: 1},
			w.requests(func() { releaseSlots(t, acquire(t, x, 1)) }), "another client has taken a slot since")
		require.Equal(t, map[string]int{opTakeFree: 1, opGiveBack: 1},
			w.requests(func() { releaseSlots(t, acquire(t, x, 1)) }), "nobody has")
	})
}

func TestSemaphoreTakesTheLowestSlotAgainAfterACrowd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.crowdedSemaphore(1_000_000)
		l := acquire(t, x, 1)
		require.NotZero(t, l.Slot(), "a random one")
		releaseSlots(t, l)
		time.Sleep(semaphore.CrowdLasts)
		l = acquire(t, x, 1)
		require.Zero(t, l.Slot())
		releaseSlots(t, l)
	})
}

func TestSlotsOfACrowdAreInOrder(t *testing.T) {
	for range 10 {
		inBubble(t, func(t *testing.T, w *world) {
			l := acquire(t, w.crowdedSemaphore(3), 3)
			require.Equal(t, []int{0, 1, 2}, l.Slots())
			releaseSlots(t, l)
		})
	}
}

// What the client saw when it confirmed its slot is what it relies on next.
func TestCrowdedSemaphoreKnowsTheSlotsOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := w.crowdedSemaphore(1000), w.warmSemaphore(1000)
		held := acquire(t, other, 1)
		l := acquire(t, x, 1)
		requireLocked(t, x, 999)
		rest := acquire(t, x, 998)
		require.Len(t, w.taken(), 1000)
		require.NotContains(t, rest.Slots(), held.Slot())
		require.NotContains(t, rest.Slots(), l.Slot())
		releaseSlots(t, held, l, rest)
		w.semaphoreAtRest()
	})
}

// Two callers take the same slot. The second gives it back.
func TestFirstOfACrowdKeepsTheSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := w.crowdedSemaphore(1), w.crowdedSemaphore(1)
		held := acquire(t, other, 1)
		requests := w.requests(func() { requireLocked(t, x, 1) })
		require.Equal(t, map[string]int{opTakeFree: 1, "exists": 1, opGiveBack: 1, "getChildren2": 2, "getData": 2}, requests)
		require.Equal(t, []int{0}, w.taken())
		_, err := held.Commit(t.Context())
		require.NoError(t, err)
		releaseSlots(t, held)
		releaseSlots(t, acquire(t, x, 1))
		w.semaphoreAtRest()
	})
}

// The reply to the one who took the slot first is late, so both find each other's znodes.
func TestOneOfACrowdKeepsTheSlotThatBothFindTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := w.crowdedSemaphore(1), w.crowdedSemaphore(1)
		releaseSlots(t, acquire(t, w.warmSemaphore(1), 1)) // neither knows
		w.plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: opTakeFree})
		w.plan.Add(zktest.Fault{Do: zktest.Delay, For: 2 * time.Second, Op: opGiveBack})
		first := harness.Go(t, x.TryAcquire)
		time.Sleep(time.Millisecond)
		second := harness.Go(t, other.TryAcquire)
		synctest.Wait()
		require.Equal(t, []int{0, 0}, w.taken())
		l := first.Get()
		require.Equal(t, []int{0, 0}, w.taken())
		_, err := second.Wait()
		require.ErrorIs(t, err, ErrLocked)
		time.Sleep(time.Minute)
		require.Equal(t, []int{0}, w.taken())
		releaseSlots(t, l)
		w.semaphoreAtRest()
	})
}

func TestCrowdDoesNotOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 500 // so that it hardly ever chooses the slot that is held
		x := w.crowdedSemaphore(n)
		held := acquire(t, w.semaphore(n), 1)
		large := waitsFor(t, w.semaphore(n), n)
		requests := w.requests(func() { requireLocked(t, x, 1) })
		require.Equal(t, 1, requests[opTakeFree], "it was tried")
		require.Equal(t, 1, requests[opGiveBack], "and given back")
		require.Zero(t, w.requests(func() { requireLocked(t, x, 1) })[opTakeFree], "and is not tried again")
		small := waitsFor(t, x, 1)
		releaseSlots(t, held)
		l := large.Get()
		require.True(t, small.Waiting())
		releaseSlots(t, l)
		releaseSlots(t, small.Get())
		w.semaphoreAtRest()
	})
}

// The path was deleted and made anew with a smaller n. The line has the version that the
// caller knows, or another one.
func TestCrowdKeepsNoSlotOfAPathThatWasMadeAnew(t *testing.T) {
	for uses := range 5 {
		inBubble(t, func(t *testing.T, w *world) {
			x := w.crowdedSemaphore(1000)
			wipe(t, w.bare(), "/s")
			y := w.semaphore(1)
			for range 1 + uses {
				releaseSlots(t, acquire(t, y, 1))
			}
			for range 3 {
				l := acquire(t, x, 1)
				require.Equal(t, []int{0}, l.Slots())
				releaseSlots(t, l)
			}
			w.semaphoreAtRest()
		})
	}
}

// A slot beyond n is still held, and counts. The caller does not know that another client
// has taken the last one.
func TestCrowdTakesNoMoreThanNWhileSlotsBeyondItAreHeld(t *testing.T) {
	for range 10 { // with other random slots
		inBubble(t, func(t *testing.T, w *world) {
			y := w.semaphore(3)
			held := []*SlotLease{acquire(t, y, 1), acquire(t, y, 1), acquire(t, y, 1)}
			require.NoError(t, y.Resize(harness.Within(t, time.Minute), 2))
			releaseSlots(t, held[:2]...)
			x := w.warmSemaphore(2)
			x.slotted.NoteCrowd()
			last := acquire(t, y, 1)
			requireLocked(t, x, 1)
			synctest.Wait()
			require.Len(t, w.taken(), 2)
			releaseSlots(t, held[2], last)
			releaseSlots(t, acquire(t, x, 2))
			w.semaphoreAtRest()
		})
	}
}

// The reply to the taking is lost, so in a crowd the caller cannot know whether somebody stood
// in line then. Without a crowd the transaction fails if somebody did.
func TestB01SemaphoreDoesNotOvertakeByALostRequest(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			x := w.warmSemaphore(3)
			if crowded {
				x.slotted.NoteCrowd()
			}
			held := acquire(t, w.semaphore(3), 1)
			large := waitsFor(t, w.semaphore(3), 3)
			w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opTakeFree})
			requireLocked(t, x, 1)
			require.True(t, w.met())
			synctest.Wait()
			require.Equal(t, []int{0}, w.taken())
			releaseSlots(t, held)
			releaseSlots(t, large.Get())
			releaseSlots(t, acquire(t, x, 1))
			w.semaphoreAtRest()
		})
	}
}

func TestB32CrowdCanceledLeavesNothing(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, met := 0, true; met; n++ {
			inBubble(t, func(t *testing.T, w *world) {
				x := w.crowdedSemaphore(1)
				held := acquire(t, w.warmSemaphore(1), 1)
				w.plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: after, Skip: n})
				a := harness.Go(t, x.TryAcquire)
				synctest.Wait()
				met = w.met()
				a.Cancel(nil)
				_, err := a.Wait()
				require.Error(t, err)
				time.Sleep(5 * time.Second)
				require.Equal(t, []int{0}, w.taken())
				releaseSlots(t, held)
				w.semaphoreAtRest()
			})
		}
	}
}

// An operator deletes the caller's slot, or all slots, before it has looked whether it may
// keep the slot.
func TestB23CrowdGoesOnWhenItsSlotsAreDeleted(t *testing.T) {
	for _, all := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			x, other, conn := w.crowdedSemaphore(1), w.warmSemaphore(1), w.bare()
			releaseSlots(t, acquire(t, other, 1))
			w.plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: opTakeFree})
			a := acquireLater(t, x, 1)
			synctest.Wait()
			if all {
				wipe(t, conn, "/s/slots")
			} else {
				require.NoError(t, conn.Delete(w.slotNode(0), -1))
			}
			l := a.Get()
			_, err := l.Commit(harness.Within(t, time.Minute))
			if all {
				require.NoError(t, err, "it has taken another one")
				requireLocked(t, other, 1)
				releaseSlots(t, l)
			} else {
				require.ErrorIs(t, err, ErrLost)
			}
			releaseSlots(t, acquire(t, other, 1))
			w.semaphoreAtRest()
		})
	}
}

// The session expires between the taking and the look.
func TestB09CrowdTakesASlotInTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := w.crowdedSemaphore(1), w.warmSemaphore(1)
		releaseSlots(t, acquire(t, other, 1))
		w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: "getChildren2", Path: "/s/slots"})
		l := acquire(t, x, 1)
		require.True(t, w.met())
		require.Equal(t, []int{0}, w.taken())
		_, err := l.Commit(harness.Within(t, time.Minute), OpCreate("/x", nil, zk.FlagEphemeral, nil))
		require.NoError(t, err)
		releaseSlots(t, l)
		w.semaphoreAtRest()
	})
}

// The client moves to a server that lags, between the taking and the look.
func TestB03CrowdBehindALaggingServerKeepsNoSlotOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := w.crowdedSemaphore(1), w.warmSemaphore(1)
		held := acquire(t, other, 1)
		w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "getChildren2", Path: "/s/slots"})
		requireLocked(t, x, 1)
		require.Len(t, w.plan.Fired(), 2, "the fault, and the server that lags")
		releaseSlots(t, held)
		w.semaphoreAtRest()
	}, behind(2, 3))
}
