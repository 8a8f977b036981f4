package barrier_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What barriers cost, by the server's own counts: requests, commits, bytes, and
// events, each of which wakes a client.

func TestWhatOpeningARoundCosts(t *testing.T) {
	perMember := map[int]int64{}
	for _, n := range []int{10, 100, 500} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			var bs []*zkrecipes.Barrier
			for range n {
				b := zkrecipes.NewBarrier(w.Stranger(&zkrecipes.Options{SessionTimeout: recipetest.LongSession}), "/barrier", n)
				require.NoError(t, recipetest.RoundsOf(b).CheckSize(t.Context(), recipetest.Live(t, recipetest.ClientOf(recipetest.RoundsOf(b).Line.Client))))
				bs = append(bs, b)
			}

			before := w.Srv.Counts()
			var as []*harness.Call[int]
			for _, b := range bs[:n-1] {
				as = append(as, recipetest.WaitLater(t, b))
				synctest.Wait() // else several would create the round
			}
			synctest.Wait()
			joined := w.Srv.Counts()
			require.Equal(t, map[string]int{recipetest.OpJoinRound: n, recipetest.OpMakeRound: 1, "getChildren2": n - 1}, joined.Sub(before).Requests, "members do not read when others arrive")
			require.Empty(t, joined.Sub(before).Events)

			as = append(as, recipetest.WaitLater(t, bs[n-1]))
			synctest.Wait()
			recipetest.Indexes(t, as...)
			recipetest.MembersLeft()
			all := w.Srv.Counts().Sub(before)
			require.Equal(t, map[string]int{"NodeChildrenChanged": n - 1}, all.Events, "each waiting member wakes once")
			opening := "multi(check,create,setData" + strings.Repeat(",check", 1+n) + ")"
			require.Equal(t, map[string]int{
				recipetest.OpMakeRound: 1, recipetest.OpJoinRound: n + 1, // the first join finds no round
				"getChildren2": n, "getData": 1, opening: 1, // to open the round: 2n + 2, and those of the first
				recipetest.OpLeaveRound: n, recipetest.OpDeleteRound: 1, // to leave the round
			}, all.Requests)
			require.Equal(t, 1+n+1+n+1, all.Transactions)
			perMember[n] = all.BytesOut / int64(n)
			t.Logf("%d members: %v, %d bytes received by each", n, all.Requests, perMember[n])
			require.Empty(t, w.Srv.Children("/barrier"))
		}, zktest.SessionTimeouts(recipetest.LongSession, recipetest.LongSession))
	}
	require.LessOrEqual(t, perMember[500], perMember[10]*11/10, "the bytes that each member receives do not grow")
}

// A member that comes while the round before is left watches the last of those who are still
// there, and looks again when that leaves. The worst order is the reverse of their arrival.
func TestWhatAnEarlyMemberOfABarrierCosts(t *testing.T) {
	const n = 10
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Hour, Times: -1})
		var as []*harness.Call[int]
		for range n {
			as = append(as, recipetest.WaitLater(t, w.InRound(n)))
		}
		recipetest.Indexes(t, as...)
		recipetest.MembersLeft()
		early := w.InRound(n)
		require.NoError(t, recipetest.RoundsOf(early).CheckSize(t.Context(), recipetest.Live(t, recipetest.ClientOf(recipetest.RoundsOf(early).Line.Client))))
		var late *harness.Call[int]
		arrival := w.Requests(func() {
			late = recipetest.WaitLater(t, early)
			synctest.Wait()
		})
		refused := map[string]int{recipetest.OpJoinRound: 2, "getChildren2": 1, "getData": 1} // it joins once more behind its watch
		require.Equal(t, refused, arrival)
		require.Len(t, w.Present(), n)
		members := slices.SortedFunc(slices.Values(w.Present()), placename.Parts.Compare)
		conn := w.Bare()
		for i, m := range slices.Backward(members) {
			did := w.Requests(func() {
				require.NoError(t, conn.Delete(recipetest.RoundOf2+"/"+m.Name, -1))
				synctest.Wait()
			})
			delete(did, "delete")
			if i > 0 {
				require.Equal(t, refused, did, "%d are still there", i)
			}
		}
		require.True(t, late.Waiting())
	}, zktest.SessionTimeouts(recipetest.LongSession, recipetest.LongSession))
}

func TestWhatADoubleBarrierCosts(t *testing.T) {
	for _, n := range []int{2, 10, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var ds []*zkrecipes.DoubleBarrier
				for range n {
					d := zkrecipes.NewDoubleBarrier(w.Stranger(&zkrecipes.Options{SessionTimeout: recipetest.LongSession}), "/double", n)
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						synctest.Wait()
						cancel()
					}()
					_, err := d.Enter(ctx) // the client knows the path from now on
					require.ErrorIs(t, err, context.Canceled)
					ds = append(ds, d)
				}
				synctest.Wait()
				require.Empty(t, w.Srv.Children("/double"))

				visits := make(chan *zkrecipes.Visit, n)
				enter := func(d *zkrecipes.DoubleBarrier) {
					go func() {
						v, err := d.Enter(t.Context())
						if err != nil {
							t.Error(err)
						}
						visits <- v
					}()
					synctest.Wait()
				}
				before := w.Srv.Counts()
				for _, d := range ds[:n-1] {
					enter(d)
				}
				joined := w.Srv.Counts().Sub(before)
				require.Equal(t, map[string]int{recipetest.OpJoin: n - 1}, joined.Requests, "the watch is armed already")
				require.Empty(t, joined.Events)
				enter(ds[n-1])
				opened := w.Srv.Counts().Sub(before)
				// All were woken by the watch of their session. All but the last check
				// once whether ready is younger than themselves, and for n.
				require.Equal(t, map[string]int{recipetest.OpJoin: n + 1, "getChildren2": 1, "getData": n - 1}, opened.Requests)
				require.Equal(t, n+1, opened.Transactions)
				require.Equal(t, n, opened.Events["NodeCreated"])

				before = w.Srv.Counts()
				var all sync.WaitGroup
				for range n {
					v := <-visits
					all.Go(func() {
						if err := v.Leave(t.Context()); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				synctest.Wait()
				left := w.Srv.Counts().Sub(before)
				t.Logf("%d members leave: %v", n, left.Requests)
				require.Equal(t, n, left.Transactions)
				// The member that sorts first lists each time the one that sorts last has
				// left. The other members leave, read the first one, and read it once more
				// when it is deleted together with ready.
				reads := left.Requests["getData"]
				require.LessOrEqual(t, reads, 2*(n-1))
				require.Equal(t, map[string]int{
					"multi(delete)": n - 1, "multi(check,delete,delete)": 1, "getData": reads, "getChildren2": reads + n,
				}, left.Requests)
				require.Empty(t, w.Srv.Children("/double"))
			}, zktest.SessionTimeouts(recipetest.LongSession, recipetest.LongSession))
		})
	}
}

func TestWhatAGateCosts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 20
		g := zkrecipes.NewGate(w.Stranger(nil), "/gate")
		var others []*zkrecipes.Gate
		for range n {
			others = append(others, zkrecipes.NewGate(w.Stranger(nil), "/gate"))
		}
		require.Equal(t, map[string]int{"multi(create)": 1}, w.Requests(func() { require.NoError(t, g.Shut(t.Context())) }))
		var all sync.WaitGroup
		require.Equal(t, map[string]int{"getData": n}, w.Requests(func() {
			for _, g := range others {
				all.Go(func() {
					if err := g.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}))
		require.Equal(t, map[string]int{"multi(delete)": 1, "sync": n, "exists": n}, w.Requests(func() {
			require.NoError(t, g.Open(t.Context()))
			all.Wait()
		}))
		require.Equal(t, map[string]int{"sync": 1, "exists": 1}, w.Requests(func() {
			open, err := g.IsOpen(t.Context())
			require.NoError(t, err)
			require.True(t, open)
		}))
	})
}
