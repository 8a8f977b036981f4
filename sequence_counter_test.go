package zkrecipes

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The end of a line's sequence counter. There ZooKeeper assigns the same number again
// and again, and negative ones to creates in flight together.

// exhausted requires that Lock and TryLock fail and leave no place.
func exhausted(t *testing.T, w *sideWorld, c *Client) {
	t.Helper()
	before := w.line()
	m := w.ours(c, w.path)
	_, err := m.Lock(harness.Within(t, time.Minute))
	require.ErrorIs(t, err, ErrExhausted)
	require.ErrorContains(t, err, "lock /line: ")
	_, err = m.TryLock(harness.Within(t, time.Minute))
	if len(before) > 0 {
		require.ErrorIs(t, err, ErrLocked, "it sees the holder before it joins")
	} else {
		require.ErrorIs(t, err, ErrExhausted)
	}
	require.Equal(t, before, w.line(), "no place is left")
}

func TestB28NumbersUpToTheLimitAreGranted(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, maxNumber-1))
		for _, number := range []int32{maxNumber - 1, maxNumber} {
			l := w.holds(c)
			require.Equal(t, number, w.line()[0].number)
			require.NoError(t, l.Release())
		}
		for range 3 {
			exhausted(t, w, c)
		}
	})
}

func TestB28ThoseInLineBeforeTheLimitAreServed(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, maxNumber-2))
		l := w.excludes(c)
		waiting := []*harness.Call[*Lease]{w.waits(c), w.waits(other)}
		exhausted(t, w, c)
		exhausted(t, w, other)
		require.Len(t, w.line(), 3)
		require.NoError(t, l.Release())
		for _, a := range waiting {
			l := a.Get()
			w.stands(l)
			require.NoError(t, l.Release())
		}
		exhausted(t, w, c)
		require.Empty(t, w.line())
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
		for range 4 {
			exhausted(t, w, c)
			exhausted(t, w, other)
		}
		numbers := map[int32]int{}
		for _, m := range placeNames(names, lockKinds) {
			numbers[m.number]++
		}
		require.Equal(t, map[int32]int{math.MaxInt32 - 1: 1, math.MaxInt32: 7}, numbers, "TryLock does not join")
		w.stands(l)
		require.NoError(t, l.Release())
		exhausted(t, w, c)
		require.Empty(t, w.line())
	}, record)
}

func TestB28NegativeNumbersAreNeverGranted(t *testing.T) {
	const joins = 20
	negative := 0
	record := zktest.OnChange(func(ch zktest.Change) {
		if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
			if m, ok := parsePlaceName(ch.Path[len("/line/"):], lockKinds); ok && m.number < 0 {
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
				// The joins queue up behind the first one, and the server prepares them together.
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opJoin, For: time.Second})
				var wg sync.WaitGroup
				for range joins {
					wg.Go(func() {
						_, err := w.ours(c, w.path).Lock(harness.Within(t, time.Minute))
						if !errors.Is(err, ErrExhausted) {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				require.NotZero(t, negative)
				if held {
					require.Len(t, w.line(), 1)
					w.stands(holder)
					_, err := holder.Commit(t.Context())
					require.NoError(t, err)
					require.NoError(t, holder.Release())
				}
				require.Empty(t, w.line())
			}, record)
		})
	}
}

func TestB28AJoinBeyondTheLimitWhoseReplyIsLostLeavesNoPlace(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32))
		w.plan.Add(
			zktest.Fault{Do: zktest.Drop, After: true, Op: opJoin},
			zktest.Fault{Do: zktest.Drop, Op: "multi(delete)"},
		)
		_, err := w.ours(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrExhausted)
		time.Sleep(time.Second)
		require.Empty(t, w.line())
		require.Equal(t, map[string]int{"drop after": 1, "drop before": 1}, w.plan.Fired())
	})
}

// ErrExhausted says to delete the line.
func TestB28ALineThatIsDeletedCountsFromItsBeginning(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32))
		exhausted(t, w, c)
		s, _ := c.session()
		require.NoError(t, s.Inspect().Conn.Delete(w.path, -1))
		l := w.holds(c)
		require.Zero(t, w.line()[0].number)
		require.NoError(t, l.Release())
	})
}

func TestB28AnExhaustedPlaceThatCannotBeDeletedIsAnErrorToo(t *testing.T) {
	r := newRig(t, nil)
	r.c.lastNumber = -1
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	require.NoError(t, err)
	_, err = r.m.Lock(r.ctx)
	require.ErrorIs(t, err, ErrExhausted)
}
