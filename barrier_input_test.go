package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The transaction that opens a round names all its members. If that many members
// make it too large, Wait returns an error before it sends anything.
func TestB52BarrierWithMoreMembersThanATransactionCanNameIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		most := 0
		for NewBarrier(c, "/b", most+1).rounds.OpeningSize() <= jute.MaxFrame {
			most++
		}
		require.Greater(t, most, 9000)
		requests := w.requests(func() {
			for _, n := range []int{most + 1, 1 << 20, 1 << 40, int(^uint(0) >> 1), int(^uint(0)>>1)/111 + 1} {
				_, err := NewBarrier(c, "/b", n).Wait(t.Context())
				require.ErrorContains(t, err, fmt.Sprintf("a barrier of %d members: request of", n))
				require.ErrorContains(t, err, "servers accept 1048575")
			}
		})
		require.Empty(t, requests)
		require.NoError(t, NewBarrier(c, "/b", most).rounds.Check())

		// openingSize is an upper bound, tight to within one member.
		name := "_c_" + line.NewUUID(true) + "-" + string(barrier.MemberKindOf(most))
		var ms []line.PlaceName
		b := NewBarrier(c, "/b", most)
		ops := []any{nil, b.rounds.Raise(b.rounds.Line.Client.Created), &zk.CheckVersionRequest{Path: readyOf2}, &zk.CheckVersionRequest{Path: "/b", Version: -1}}
		for i := range most { // every other number, so that no two make a range; ten digits each
			number := 1_000_000_000 + int32(2*i)
			ms = append(ms, line.PlaceName{Number: number})
			ops = append(ops, &zk.CheckVersionRequest{Path: fmt.Sprintf("%s/%s%d", roundOf2, name, number), Version: -1})
		}
		ops[0] = &zk.SetDataRequest{Path: readyOf2, Data: barrier.Ranges(ms)}
		size := zkconn.MultiSize(ops)
		require.LessOrEqual(t, size, b.rounds.OpeningSize())
		require.Greater(t, size, NewBarrier(c, "/b", most-1).rounds.OpeningSize())
	})
}

// The data is kept also if it is written between the client's read and the first
// join.
func TestB64DataPutOnAnEmptyZnodeBeforeABarrierClaimsItIsKept(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-b"
	harness.MakeParents(t, r.raw, path)
	rule := r.p.On("multi(setData)", 1, harness.Hold)
	a := waitLater(t, NewBarrier(r.c, path, 2))
	r.p.Await(rule)
	_, err := insider(t, r.raw).Set(path, []byte("mine"), -1)
	require.NoError(t, err)
	rule.Release()
	_, err = a.Wait()
	require.ErrorContains(t, err, `number of members: "mine"`)
	data, _, err := r.raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestB57HooksMayUseBarriersAndClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		results := make(chan error, 3)
		c = w.stranger(&Options{Trace: &Trace{Session: func(e TraceSession) {
			if e.State != SessionDisconnected {
				return
			}
			results <- NewGate(c, "/gate").Shut(context.Background())
			_, err := NewBarrier(c, "/b", 1).Wait(context.Background())
			results <- err
			results <- c.Close()
		}}})
		a := waitLater(t, NewBarrier(c, "/waits", 2))
		synctest.Wait()
		require.True(t, w.srv.Disconnect(sessionID(c)))
		for range 3 {
			require.NoError(t, <-results)
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrClosed)
	})
}
