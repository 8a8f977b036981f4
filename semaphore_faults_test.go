package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults that hit a Semaphore.

// Whatever happens to any of its requests, the client gets its slots, holds no others,
// and leaves nothing behind.
func TestSemaphoreSurvivesAMishapAtAnyRequest(t *testing.T) {
	for name, made := range map[string]func(*world) *Semaphore{
		"alone":      func(w *world) *Semaphore { return w.semaphore(2) },
		"in a crowd": func(w *world) *Semaphore { return w.crowdedSemaphore(2) },
	} {
		for _, contended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, contended=%v", name, contended), func(t *testing.T) {
				eachRequest(t, mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
					inBubble(t, func(t *testing.T, w *world) { met = w.slotsSurvive(made, contended, fault) })
					return met
				})
			})
		}
	}
}

// slotsSurvive has the semaphore that made returns meet a fault while it acquires 2 slots of 2.
// contended: another client has one of them.
func (w *world) slotsSurvive(made func(*world) *Semaphore, contended bool, fault zktest.Fault) (met bool) {
	t := w.t
	other, x := w.warmSemaphore(2), made(w)
	var held *SlotLease
	if contended {
		held = acquire(t, other, 1)
	}
	w.plan.Add(fault)
	a := harness.Go(t, func(ctx context.Context) (*SlotLease, error) { return x.AcquireN(ctx, 2) })
	time.Sleep(time.Minute)
	if contended {
		require.True(t, a.Waiting() || held.Err() != nil)
		_ = held.Release() // it may have been lost
	}
	l, err := a.Wait()
	require.NoError(t, err)
	_ = l.Release()
	time.Sleep(time.Minute)
	again, err := x.AcquireN(harness.Within(t, time.Minute), 2)
	require.NoError(t, err)
	synctest.Wait()
	require.Equal(t, []int{0, 1}, w.taken())
	_ = again.Release()
	time.Sleep(time.Minute)
	w.semaphoreAtRest()
	return w.met()
}

// The reply to the taking is lost, and others join and take slots before the client is
// back.
func TestB01SemaphoreFindsSlotsThatItTookAlthoughOthersCameSince(t *testing.T) {
	for _, op := range []string{opTakeFree, opTakeTurn} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				x, y := w.warmSemaphore(2), w.semaphore(2)
				var held *SlotLease
				if op == opTakeTurn {
					held = acquire(t, y, 2)
				}
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: op})
				w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 1})
				a := acquireLater(t, x, 1)
				if held != nil {
					synctest.Wait()
					releaseSlots(t, held)
				}
				synctest.Wait()
				require.True(t, a.Waiting())
				require.Equal(t, []int{0}, w.taken())
				rest := acquire(t, y, 1)
				next := waitsFor(t, w.semaphore(2), 1)
				l := a.Get()
				require.Equal(t, 0, l.Slot())
				require.Equal(t, []int{0, 1}, w.taken(), "and no others")
				_, stat, err := l.Get(t.Context(), w.slotNode(0))
				require.NoError(t, err)
				require.Equal(t, newToken(stat.Czxid, 0), l.Token())
				releaseSlots(t, l, rest)
				releaseSlots(t, next.Get())
				w.semaphoreAtRest()
			})
		})
	}
}

// The reply to the release is lost, and somebody else has the slot before it is sent again.
func TestB07SemaphoreReleaseThatIsSentAgainLeavesTheNextHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(1)
		l := acquire(t, x, 1)
		a := waitsFor(t, w.semaphore(1), 1)
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opGiveBack})
		requests := w.requests(func() {
			require.NoError(t, l.Release())
			next := a.Get()
			time.Sleep(time.Minute)
			require.NoError(t, next.Err())
			require.Equal(t, []int{0}, w.taken())
			a.Get()
		})
		require.Equal(t, 2, requests[opGiveBack], "it was sent again")
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
}

func TestB09SemaphoreLeaseIsLostWithItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(2)
		l := acquire(t, x, 2)
		a := waitsFor(t, w.semaphore(2), 2)
		ctx := l.Context(t.Context())
		require.True(t, w.srv.Expire(sessionID(clientOf(x.slotted.Line.Client))))
		next := a.Get()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		require.ErrorIs(t, l.Release(), ErrLost)
		require.Equal(t, []int{0, 1}, w.taken())
		releaseSlots(t, next)
		releaseSlots(t, acquire(t, x, 2))
		w.semaphoreAtRest()
	})
}

func TestB10SemaphoreWaiterJoinsAgainAtTheTailAfterExpiry(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := acquire(t, w.semaphore(1), 1)
		x := w.semaphore(1)
		first, second := waitsFor(t, x, 1), waitsFor(t, w.semaphore(1), 1)
		require.True(t, w.srv.Expire(sessionID(clientOf(x.slotted.Line.Client))))
		synctest.Wait()
		time.Sleep(time.Second)
		releaseSlots(t, l)
		l = second.Get()
		synctest.Wait()
		require.True(t, first.Waiting())
		releaseSlots(t, l)
		releaseSlots(t, first.Get())
		w.semaphoreAtRest()
	})
}

// Two holders' sessions expire while the first in line waits for both.
func TestA03SemaphoreWaiterGetsTheSlotsOfSessionsThatExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.semaphore(2), w.semaphore(2)
		acquire(t, x, 1)
		acquire(t, y, 1)
		a := waitsFor(t, w.semaphore(2), 2)
		w.srv.Expire(sessionID(clientOf(x.slotted.Line.Client)))
		synctest.Wait()
		require.True(t, a.Waiting())
		w.srv.Expire(sessionID(clientOf(y.slotted.Line.Client)))
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
}

// A waiter's context ends in the middle of the line, at its head, and at any request.
func TestB32SemaphoreCanceledLeavesNothing(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			l := acquire(t, w.semaphore(2), 2)
			head, middle, last := waitsFor(t, w.semaphore(2), 2), waitsFor(t, w.semaphore(2), 1), waitsFor(t, w.semaphore(2), 1)
			cause := errors.New("cause")
			for _, a := range []*harness.Call[*SlotLease]{middle, head} {
				a.Cancel(cause)
				_, err := a.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, cause)
				synctest.Wait()
				require.True(t, last.Waiting())
			}
			require.Len(t, w.srv.Children("/s/line"), 1)
			releaseSlots(t, l)
			releaseSlots(t, last.Get())
			w.semaphoreAtRest()
		})
	})
	for _, k := range []int{1, 2} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("while a request for %d is delayed, after=%v", k, after), func(t *testing.T) {
				for n, met := 0, true; met; n++ {
					inBubble(t, func(t *testing.T, w *world) {
						x := w.semaphore(2)
						releaseSlots(t, acquire(t, w.semaphore(2), 2))
						w.plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: after, Skip: n})
						a := acquireLater(t, x, k)
						synctest.Wait()
						met = w.met()
						a.Cancel(nil)
						if l, err := a.Wait(); err == nil {
							require.NoError(t, l.Release())
						} else {
							require.ErrorIs(t, err, context.Canceled)
						}
						time.Sleep(5 * time.Second)
						w.semaphoreAtRest()
					})
				}
			})
		}
	}
}

// 1,000 tries and waits that time out leave no znode and no watch.
func TestA12SemaphoreTimedOutLeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := acquire(t, w.semaphore(1), 1)
		x := w.semaphore(1)
		watches := 0
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := x.Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = x.TryAcquire(t.Context())
			require.ErrorIs(t, err, ErrLocked)
			cancel()
			synctest.Wait()
			if i == 10 {
				watches = watchesOf(clientOf(x.slotted.Line.Client))
			}
		}
		require.LessOrEqual(t, watchesOf(clientOf(x.slotted.Line.Client)), watches)
		require.Empty(t, w.srv.Children("/s/line"))
		releaseSlots(t, l)
	})
}

// The client moves to a server that does not show yet what it took, or that others did.
func TestB03SemaphoreBehindALaggingServerTakesNoMoreThanN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		y := w.semaphore(2)
		x := w.semaphore(2)
		releaseSlots(t, acquire(t, x, 1), acquire(t, y, 1))
		held := acquire(t, y, 1)
		require.True(t, w.srv.Disconnect(sessionID(clientOf(x.slotted.Line.Client))))
		l := acquire(t, x, 1)
		require.True(t, w.met(), "its server lags")
		require.Equal(t, 1-held.Slot(), l.Slot())
		_, err := x.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrLocked)
		releaseSlots(t, l, held)
		synctest.Wait()
		releaseSlots(t, acquire(t, x, 2))
	}, behind(2, 3))
}

// The connection of the next in line breaks as it looks at the slots, and its new server
// does not show yet what was taken before its turn.
func TestB03SemaphoreFirstInLineBehindALaggingServerTakesNoMoreThanN(t *testing.T) {
	for _, fault := range []zktest.Fault{
		{Do: zktest.Drop, Op: "getData", Path: "/s"}, {Do: zktest.Drop, Op: "getChildren2", Path: "/s/slots", Skip: 1},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			held := acquire(t, w.semaphore(1), 1)
			a := waitsFor(t, w.semaphore(1), 1)
			next := waitsFor(t, w.semaphore(1), 1)
			w.plan.Add(fault)
			releaseSlots(t, held)
			synctest.Wait()
			time.Sleep(2 * time.Second)
			require.Len(t, w.plan.Fired(), 2, "the fault, and the server that lags")
			l := a.Get()
			require.NoError(t, l.Err())
			require.Equal(t, []int{0}, w.taken())
			require.True(t, next.Waiting())
			releaseSlots(t, l)
			releaseSlots(t, next.Get())
			w.semaphoreAtRest()
		}, behind(3, 1))
	}
}

func TestB08SemaphoreReleaseWhileDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(1)
		l := acquire(t, x, 1)
		a := waitsFor(t, w.semaphore(1), 1)
		w.away(clientOf(x.slotted.Line.Client))
		began := time.Now()
		require.NoError(t, l.Release())
		require.Zero(t, time.Since(began))
		require.True(t, a.Waiting())
		w.back()
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
}

func TestB35CloseGivesSlotsBackAndEndsWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.semaphore(2), w.semaphore(2)
		l := acquire(t, x, 2)
		waiting := waitsFor(t, x, 1)
		a := waitsFor(t, y, 2)
		require.NoError(t, clientOf(x.slotted.Line.Client).Close())
		_, err := waiting.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, l.Err(), ErrClosed)
		require.ErrorIs(t, l.Release(), ErrClosed)
		_, err = x.Acquire(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
}
