package line_test

import (
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

// Servers that lag behind what a client has learned.

func TestB03SearchForAJoinFollowsASync(t *testing.T) {
	for name, held := range map[string]bool{"alone": false, "behind another": true} {
		clients := 1
		if held {
			clients = 2
		}
		for _, side := range recipetest.Sides {
			t.Run(name+" "+side.Name, func(t *testing.T) {
				side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
					c := w.Client(nil)
					var holder *zkrecipes.Lease
					if held {
						holder = w.Excludes(w.Client(nil))
					}
					// The replica does not have the join, which is the last transaction.
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin})
					var a *harness.Call[*zkrecipes.Lease]
					requests := w.Requests(func() {
						a = w.Waits(c)
						time.Sleep(time.Second)
					})
					require.Equal(t, 1, requests["connect"])
					require.Equal(t, 1, requests[recipetest.OpJoin], "the join is found, not repeated")
					require.Equal(t, 1, requests["sync"])
					if held {
						require.True(t, a.Waiting())
						require.Len(t, w.Line(), 2)
						require.NoError(t, holder.Release())
					}
					l := a.Get()
					require.Len(t, w.Line(), 1)
					w.Stands(l)
					_, stat, err := l.Get(t.Context(), l.Check().Path)
					require.NoError(t, err)
					require.Equal(t, recipetest.NewToken(stat.Czxid, 0), l.Token())
					require.NoError(t, l.Release())
					require.Empty(t, w.Line())
				}, recipetest.Behind(clients, 1))
			})
		}
	}
}

// A server that lags behind what the client has seen refuses the connection. The join
// is found once a server accepts it.
func TestB03SearchWaitsForAServerThatHasSeenWhatTheClientHas(t *testing.T) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin})
				requests := w.Requests(func() {
					l := w.Waits(c).Get()
					w.Stands(l)
					require.Len(t, w.Line(), 1)
					require.NoError(t, l.Release())
				})
				require.Equal(t, 1, requests[recipetest.OpJoin])
				require.Greater(t, requests["connect"], 1)
				require.Empty(t, w.Line())
			}, zktest.WithPlan(zktest.NewPlan(
				zktest.Fault{Do: zktest.Lag, Skip: 1, Times: -1, Behind: 100, For: 3 * time.Second})))
		})
	}
}

func TestB63LeaseSeesEarlierCommitsAfterAReconnectToALaggingServer(t *testing.T) {
	for _, side := range recipetest.Sides {
		if !side.Signalled() {
			continue // the waiter lists, and then a lagging server refuses its connection
		}
		t.Run(side.Name, func(t *testing.T) {
			side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c, other := w.Client(nil), w.Client(nil)
				before := w.Excludes(other)
				_, err := before.Commit(t.Context(), zkrecipes.OpCreate("/data", []byte("old"), 0, nil))
				require.NoError(t, err)
				a := w.Waits(c)
				require.True(t, a.Waiting())

				// Two transactions of which c sees nothing but a watch event.
				_, err = before.Commit(t.Context(),
					zkrecipes.OpSet("/data", []byte("new"), -1), zkrecipes.OpCreate("/data/new", nil, 0, nil))
				require.NoError(t, err)
				require.NoError(t, before.Release())
				l := a.Get()
				requests := w.Requests(func() {
					require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
					synctest.Wait()
					time.Sleep(time.Second)
				})
				require.Equal(t, 1, requests["connect"])
				require.Equal(t, 1, requests["sync"], "the library's own, before any other request")

				data, _, err := l.Get(t.Context(), "/data")
				require.NoError(t, err)
				require.Equal(t, "new", string(data))
				names, _, err := l.Children(t.Context(), "/data")
				require.NoError(t, err)
				require.Equal(t, []string{"new"}, names)
				w.Stands(l)
				require.NoError(t, l.Release())
			}, recipetest.Behind(2, 2))
		})
	}
}

func TestAGrantSignalledOnAnEarlierConnectionIsHandedOutAfterASync(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	holder := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), r.Path))
	s, _ := recipetest.Core(r.C).Session()
	p, err := recipetest.LineOf(r.M).Join(r.Ctx, s, placename.KindLock)
	require.NoError(t, err)
	until := make(chan error)
	go func() { until <- p.AwaitTurn(r.Ctx) }()
	r.Asleep(1)
	require.NoError(t, holder.Release())
	require.NoError(t, <-until)
	require.True(t, p.First)
	r.P.Reset()
	r.P.Drop()
	harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
	require.NoError(t, s.Ready(r.Ctx))
	g, err := p.Grant(r.Ctx)
	require.NoError(t, err)
	require.Equal(t, 1, r.P.CountOf("sync"))
	l, err := g.Enter(placename.KindLock)
	require.NoError(t, err)
	require.NoError(t, recipetest.NewLease(l).Release())
}
