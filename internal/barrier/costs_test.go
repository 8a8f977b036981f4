package barrier_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
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
			require.Empty(t, joined.Sub(before).Events)

			as = append(as, recipetest.WaitLater(t, bs[n-1]))
			synctest.Wait()
			recipetest.Indexes(t, as...)
			recipetest.MembersLeft()
			all := w.Srv.Counts().Sub(before)
			require.Equal(t, map[string]int{"NodeChildrenChanged": n - 1}, all.Events, "each waiting member wakes once")
			require.Equal(t, 1+n+1+n+1, all.Transactions)
			require.Equal(t, 1, all.Requests["getData"], "members do not read when others arrive")
			perMember[n] = all.BytesOut / int64(n)
			t.Logf("%d members: %v, %d bytes received by each", n, all.Requests, perMember[n])
			require.Empty(t, w.Srv.Children("/barrier"))
		}, zktest.SessionTimeouts(recipetest.LongSession, recipetest.LongSession))
	}
	require.LessOrEqual(t, perMember[500], perMember[10]*11/10, "the bytes that each member receives do not grow")
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
				require.Equal(t, n-1, recipetest.Sum(joined.Requests), "a join each: the watch is armed already")
				require.Empty(t, joined.Events)
				enter(ds[n-1])
				opened := w.Srv.Counts().Sub(before)
				// All were woken by the watch of their session. All but the last check
				// once whether ready is younger than themselves, and for n.
				require.Equal(t, n-1, opened.Requests["getData"])
				require.Equal(t, 1, opened.Requests["getChildren2"])
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
				require.LessOrEqual(t, left.Requests["getChildren2"], reads+n)
				require.Empty(t, w.Srv.Children("/double"))
			}, zktest.SessionTimeouts(recipetest.LongSession, recipetest.LongSession))
		})
	}
}
