package zkrecipes

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The end of a line's sequence counter. There ZooKeeper assigns the same number again
// and again, and negative ones to creates in flight together.

func TestB28NumbersUpToTheLimitAreGranted(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber-1))
		for _, number := range []int32{line.MaxNumber - 1, line.MaxNumber, 0, 1} {
			l := w.holds(c)
			require.Equal(t, number, w.line()[0].Number)
			require.NoError(t, l.Release())
		}
	})
}

func TestB28TheLastNumberIsGivenAgainAndAgainAndNeverGranted(t *testing.T) {
	var names []string
	record := zktest.OnChange(func(ch zktest.Change) {
		if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
			names = append(names, ch.Path[len("/line/"):])
		}
	})
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		l := w.excludes(c) // joined before the counter ends
		require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32-1))
		names = nil
		var aside []*harness.Call[*Lease]
		for range 4 {
			aside = append(aside, w.aside(c), w.aside(other))
			_, err := w.ours(c, w.path).TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
		}
		numbers := map[int32]int{}
		for _, m := range line.PlaceNames(names, line.LockKinds) {
			numbers[m.Number]++
		}
		require.Equal(t, map[int32]int{math.MaxInt32 - 1: 1, math.MaxInt32: 7}, numbers, "TryLock does not join")
		w.stands(l)
		require.NoError(t, l.Release())
		w.served(aside...)
		require.Empty(t, w.line())
	}, record)
}

func TestB28NegativeNumbersAreNeverGranted(t *testing.T) {
	const joins = 20
	negative := 0
	record := zktest.OnChange(func(ch zktest.Change) {
		if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
			if m, ok := line.ParsePlaceName(ch.Path[len("/line/"):], line.LockKinds); ok && m.Number < 0 {
				negative++
			}
		}
	})
	for name, held := range map[string]bool{"free": false, "held": true} {
		t.Run(name, func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				negative = 0
				c := w.client(nil)
				var holder *Lease
				if held {
					holder = w.excludes(w.client(nil))
				}
				require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32))
				// The joins queue up behind the first one, and the server prepares them
				// together.
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opJoin, For: time.Second})
				var calls []*harness.Call[*Lease]
				for range joins {
					calls = append(calls, later(t, w.ours(c, w.path).Lock))
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.NotZero(t, negative)
				if held {
					require.Len(t, w.line(), 1)
					w.stands(holder)
					_, err := holder.Commit(t.Context())
					require.NoError(t, err)
					require.NoError(t, holder.Release())
				}
				w.served(calls...)
				require.Empty(t, w.line())
			}, record)
		})
	}
}

func TestB28AJoinBeyondTheLimitWhoseReplyIsLostIsNotGranted(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32))
		w.plan.Add(
			zktest.Fault{Do: zktest.Drop, After: true, Op: opJoin},
			zktest.Fault{Do: zktest.Drop, Op: opDelete},
		)
		l := w.holds(c)
		require.Len(t, w.line(), 1)
		require.Zero(t, w.line()[0].Number)
		require.NoError(t, l.Release())
		require.Equal(t, map[string]int{"drop after": 1, "drop before": 1}, w.plan.Fired())
	})
}

// The caller has left before the reply comes: the background gives the place up.
func TestB28AJoinBeyondTheLimitWhoseCallerHasLeftLeavesNoPlace(t *testing.T) {
	for name, lost := range map[string]bool{"reply is late": false, "reply is lost": true} {
		t.Run(name, func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				c := w.client(nil)
				require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32))
				w.plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: opJoin, For: time.Second})
				a := w.waits(c)
				a.Cancel(nil)
				_, err := a.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.Len(t, w.line(), 1)
				if lost {
					require.True(t, w.srv.Disconnect(sessionID(c)))
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Empty(t, w.line())
				require.NoError(t, w.holds(c).Release())
			})
		})
	}
}

func TestB28AnExhaustedPlaceThatCannotBeDeletedIsAnError(t *testing.T) {
	r := newRig(t, nil)
	r.c.client.LastNumber = 0
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	require.NoError(t, err)
	_, err = r.m.Lock(r.ctx)
	require.ErrorIs(t, err, ErrExhausted)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}
