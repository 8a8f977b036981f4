package barrier_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The transaction that opens a round names all its members. If that many members
// make it too large, Wait returns an error before it sends anything.
func TestB52BarrierWithMoreMembersThanATransactionCanNameIsRefused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		most := 0
		for recipetest.RoundsOf(zkrecipes.NewBarrier(c, "/b", most+1)).OpeningSize() <= jute.MaxFrame {
			most++
		}
		require.Greater(t, most, 9000)
		requests := w.Requests(func() {
			for _, n := range []int{most + 1, 1 << 20, 1 << 40, int(^uint(0) >> 1), int(^uint(0)>>1)/111 + 1} {
				_, err := zkrecipes.NewBarrier(c, "/b", n).Wait(t.Context())
				require.ErrorContains(t, err, fmt.Sprintf("a barrier of %d members: request of", n))
				require.ErrorContains(t, err, "servers accept 1048575")
			}
		})
		require.Empty(t, requests)
		require.NoError(t, recipetest.RoundsOf(zkrecipes.NewBarrier(c, "/b", most)).Check())

		// openingSize is an upper bound, tight to within one member.
		name := "_c_" + placename.NewUUID(true) + "-" + string(barrier.MemberKindOf(most))
		var ms []placename.Parts
		b := zkrecipes.NewBarrier(c, "/b", most)
		ops := []any{nil, recipetest.RoundsOf(b).Raise(recipetest.RoundsOf(b).Line.Client.Created), &zk.CheckVersionRequest{Path: recipetest.ReadyOf2}, &zk.CheckVersionRequest{Path: "/b", Version: -1}}
		for i := range most { // every other number, so that no two make a range; ten digits each
			number := 1_000_000_000 + int32(2*i)
			ms = append(ms, placename.Parts{Number: number})
			ops = append(ops, &zk.CheckVersionRequest{Path: fmt.Sprintf("%s/%s%d", recipetest.RoundOf2, name, number), Version: -1})
		}
		ops[0] = &zk.SetDataRequest{Path: recipetest.ReadyOf2, Data: barrier.Ranges(ms)}
		size := zkconn.MultiSize(ops)
		require.LessOrEqual(t, size, recipetest.RoundsOf(b).OpeningSize())
		require.Greater(t, size, recipetest.RoundsOf(zkrecipes.NewBarrier(c, "/b", most-1)).OpeningSize())
	})
}

// The data is kept also if it is written between the client's read and the first
// join.
func TestB64DataPutOnAnEmptyZnodeBeforeABarrierClaimsItIsKept(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	path := r.Path + "-b"
	harness.MakeParents(t, r.Raw, path)
	rule := r.P.On("multi(setData)", 1, harness.Hold)
	a := recipetest.WaitLater(t, zkrecipes.NewBarrier(r.C, path, 2))
	r.P.Await(rule)
	_, err := recipetest.Insider(t, r.Raw).Set(path, []byte("mine"), -1)
	require.NoError(t, err)
	rule.Release()
	_, err = a.Wait()
	require.ErrorContains(t, err, `number of members: "mine"`)
	data, _, err := r.Raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestB57HooksMayUseBarriersAndClose(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var c *zkrecipes.Client
		results := make(chan error, 3)
		c = w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) {
			if e.State != zkrecipes.SessionDisconnected {
				return
			}
			results <- zkrecipes.NewGate(c, "/gate").Shut(context.Background())
			_, err := zkrecipes.NewBarrier(c, "/b", 1).Wait(context.Background())
			results <- err
			results <- c.Close()
		}}})
		a := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/waits", 2))
		synctest.Wait()
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		for range 3 {
			require.NoError(t, <-results)
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}
