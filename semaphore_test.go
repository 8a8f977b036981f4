package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestA30SemaphoreHasNHoldersAndTheNextWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var ls []*SlotLease
		for i := range 3 {
			ls = append(ls, acquire(t, w.semaphore(3), 1))
			require.Equal(t, i, ls[i].Slot(), "the lowest slot")
			require.NoError(t, ls[i].Err())
		}
		a := waitsFor(t, w.semaphore(3), 1)
		_, err := w.semaphore(3).TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrLocked)
		synctest.Wait()
		require.Len(t, w.srv.Children("/s/line"), 1, "the loser left nothing")
		releaseSlots(t, ls[1])
		require.ErrorIs(t, ls[1].Err(), ErrReleased)
		l := a.Get()
		require.Equal(t, []int{1}, l.Slots())
		require.Greater(t, l.Token(), ls[1].Token(), "the token of a slot grows")
		require.Equal(t, []int{0, 1, 2}, w.taken())
		releaseSlots(t, l, ls[0], ls[2])
		w.semaphoreAtRest()
	})
}

func TestA10SemaphoreGrantsFiveWaitersInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := acquire(t, w.semaphore(1), 1)
		var as []*harness.Call[*SlotLease]
		for range 5 {
			as = append(as, waitsFor(t, w.semaphore(1), 1))
		}
		for i, a := range as {
			releaseSlots(t, l)
			l = a.Get()
			synctest.Wait()
			for _, later := range as[i+1:] {
				require.True(t, later.Waiting())
			}
		}
		releaseSlots(t, l)
		w.semaphoreAtRest()
	})
}

// Slots that come free do not go to small requests behind a large one.
func TestA31SemaphoreLargeRequestIsNotOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ls := []*SlotLease{acquire(t, w.semaphore(3), 1), acquire(t, w.semaphore(3), 1), acquire(t, w.semaphore(3), 1)}
		large := waitsFor(t, w.semaphore(3), 3)
		small := waitsFor(t, w.semaphore(3), 1)
		for _, l := range ls {
			require.True(t, large.Waiting())
			_, err := w.semaphore(3).TryAcquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, ErrLocked)
			releaseSlots(t, l)
			synctest.Wait()
			require.True(t, small.Waiting())
		}
		l := large.Get()
		require.Equal(t, []int{0, 1, 2}, l.Slots())
		releaseSlots(t, l)
		releaseSlots(t, small.Get())
		w.semaphoreAtRest()
	})
}

// A value that knows of free slots, and asks nobody, does not overtake either.
func TestSemaphoreThatRemembersFreeSlotsDoesNotOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(2)
		held := acquire(t, x, 1)
		large := waitsFor(t, w.semaphore(2), 2)
		small := waitsFor(t, x, 1)
		require.Equal(t, []int{0}, w.taken())
		releaseSlots(t, held)
		releaseSlots(t, large.Get())
		releaseSlots(t, small.Get())
		w.semaphoreAtRest()
	})
}

// The value knows free slots, and the version of a line which was deleted since. Another
// line has the same version.
func TestSemaphoreThatRemembersAnotherLineDoesNotOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(1)
		wipe(t, w.bare(), "/s")
		held := acquire(t, w.semaphore(1), 1)
		first := waitsFor(t, w.semaphore(1), 1)
		requests := w.requests(func() {
			_, err := x.TryAcquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, ErrLocked)
		})
		require.Equal(t, 1, requests[opTakeFree], "it was tried")
		synctest.Wait()
		require.Equal(t, []int{0}, w.taken(), "and given back")
		next := waitsFor(t, x, 1)
		releaseSlots(t, held)
		l := first.Get()
		synctest.Wait()
		require.True(t, next.Waiting())
		releaseSlots(t, l)
		releaseSlots(t, next.Get())
		w.semaphoreAtRest()
	})
}

// distantSemaphore returns a semaphore of two slots for a client whose replies take a
// second, and a function by which another client uses a slot, in half a second. While it is
// called all the time, what the distant client has read is old when its transaction comes.
func (w *world) distantSemaphore() (x *Semaphore, use func()) {
	near := w.warmSemaphore(2)
	link := harness.NewLink(w.srv)
	x = NewSemaphore(w.stranger(&Options{Dialer: link.Dial}), "/s", 2)
	link.SetLatency(time.Second)
	return x, func() {
		time.Sleep(time.Second / 4)
		releaseSlots(w.t, acquire(w.t, near, 1))
		time.Sleep(time.Second / 4)
	}
}

// foreignChild makes a child in the line that is no place. Then the line's Stat does not tell
// whether somebody waits, so a caller takes slots over the version that it has seen, even if
// many do.
func (w *world) foreignChild() {
	_, err := w.bare().Create("/s/line/x", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
}

// A slot is free all the time, and each transaction that takes it comes too late.
func TestTryAcquireReturnsErrLockedIfOthersAreQuickerEachTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, use := w.distantSemaphore()
		w.foreignChild()
		before := w.srv.Counts()
		a := harness.Go(t, x.TryAcquire)
		uses := 0
		for ; a.Waiting(); uses++ {
			require.Less(t, uses, 20*zkconn.MaxTries)
			use()
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrLocked)
		require.Equal(t, uses+zkconn.MaxTries, w.srv.Counts().Sub(before).Requests[opTakeFree])
		require.Empty(t, w.srv.Children("/s/slots"))
		releaseSlots(t, acquire(t, x, 2))
	})
}

// A caller that may wait stands in line then, and nobody is quicker any more.
func TestAcquireStandsInLineIfOthersAreQuickerEachTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, use := w.distantSemaphore()
		w.foreignChild()
		before := w.srv.Counts()
		a := acquireLater(t, x, 1)
		uses := 0
		for ; a.Waiting(); uses++ {
			require.Less(t, uses, 20*zkconn.MaxTries)
			use()
		}
		l := a.Get()
		did := w.srv.Counts().Sub(before).Requests
		require.Positive(t, did[opTakeTurn])
		require.LessOrEqual(t, did[opTakeFree], uses+3, "after three attempts")
		releaseSlots(t, l)
		require.Empty(t, w.srv.Children("/s/slots"))
	})
}

// Two clients that take two of two slots again and again both go on: nobody holds half of
// what both need.
func TestA32SemaphoreClientsThatTakeAllSlotsBothGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const rounds = 100
		var wg sync.WaitGroup
		for range 2 {
			x := w.semaphore(2)
			wg.Go(func() {
				for range rounds {
					l, err := x.AcquireN(harness.Within(t, time.Minute), 2)
					if err == nil {
						err = l.Release()
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		w.semaphoreAtRest()
	})
}

func TestA13TwentyGoroutinesOnOneSemaphoreNeverHoldMoreThanN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(3)
		var mu sync.Mutex
		held := map[int]bool{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 20 {
					err := x.Do(harness.Within(t, time.Minute), func(_ context.Context, l *SlotLease) error {
						mu.Lock()
						defer mu.Unlock()
						if held[l.Slot()] || l.Slot() > 2 {
							return fmt.Errorf("slot %d is held", l.Slot())
						}
						held[l.Slot()] = true
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						delete(held, l.Slot())
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		w.semaphoreAtRest()
	})
}

func TestA01SemaphoreDoReleasesEvenAfterAPanic(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(1)
		broken := errors.New("broken")
		require.ErrorIs(t, x.Do(harness.Within(t, time.Minute), func(context.Context, *SlotLease) error { return broken }), broken)
		require.Panics(t, func() {
			_ = x.Do(harness.Within(t, time.Minute), func(context.Context, *SlotLease) error { panic("f") })
		})
		w.semaphoreAtRest()
		require.ErrorContains(t, x.Do(harness.Within(t, time.Minute), nil), "nil function")
	})
}

func TestA15SemaphoreHoldersAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(4)
		_, err := x.Holders(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrUnused, "there is no path")
		one := acquire(t, NewSemaphore(w.stranger(&Options{Identity: "one"}), "/s", 4), 1)
		two := acquire(t, NewSemaphore(w.stranger(&Options{Identity: "two"}), "/s", 4), 2)
		_, err = w.bare().Create("/s/slots/other", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		hs, err := x.Holders(harness.Within(t, time.Minute))
		require.NoError(t, err)
		require.Len(t, hs, 2)
		require.Equal(t, "one", hs[0].Identity)
		require.Equal(t, []int{0}, hs[0].Slots)
		require.Equal(t, one.Token(), hs[0].Token)
		require.Equal(t, "two", hs[1].Identity)
		require.Equal(t, []int{1, 2}, hs[1].Slots)
		require.Equal(t, two.Token(), hs[1].Token)
		require.Equal(t, sessionID(clientOf(two.lease.handle.Grant.Line.Client)), hs[1].Session)
		require.WithinDuration(t, time.Now(), hs[1].Since, time.Minute)
		releaseSlots(t, one, two)
	})
}

func TestA04SemaphoreIsReapedWhenIdle(t *testing.T) {
	for name, take := range map[string]func(*Semaphore, context.Context) (*SlotLease, error){
		"Acquire": (*Semaphore).Acquire, "TryAcquire": (*Semaphore).TryAcquire,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				const while = 6*time.Minute + 7*time.Second // so that no check of the reaper falls on an end of it
				x := w.semaphore(2)
				for range 3 { // each finds the path gone, and makes it anew
					var ls []*SlotLease
					for range 2 {
						l, err := take(x, harness.Within(t, time.Hour))
						require.NoError(t, err)
						ls = append(ls, l)
						time.Sleep(while) // the line is reaped, but the slots are not
						require.NoError(t, l.Err())
					}
					releaseSlots(t, ls...)
					require.NotEmpty(t, w.srv.Children("/s"))
					time.Sleep(while)
					require.NotContains(t, w.srv.Children("/"), "s")
				}
			}, zktest.ContainerCheckInterval(time.Minute))
		})
	}
}

// Several checks prove all the slots: an operator takes one of them away.
func TestChecksOfASlotLeaseGuardAllItsSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, conn := acquire(t, w.semaphore(3), 2), w.bare()
		var ops []any
		for _, check := range l.Checks() {
			ops = append(ops, check)
		}
		require.Len(t, ops, 2)
		_, err := conn.Multi(ops...)
		require.NoError(t, err)
		require.NoError(t, conn.Delete(w.slotNode(1), -1))
		_, err = conn.Multi(ops...)
		require.ErrorIs(t, err, zk.ErrNoNode)
		_, err = l.Commit(t.Context())
		require.ErrorIs(t, err, ErrLost)
		require.Empty(t, new(SlotLease).Checks())
	})
}
