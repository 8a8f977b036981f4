package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that lag behind what a client has learned.

// behind makes a lagging replica serve all but the first connections. It receives
// the last n transactions only after a few seconds.
func behind(first, n int) zktest.Option {
	return zktest.WithPlan(zktest.NewPlan(
		zktest.Fault{Do: zktest.Lag, Skip: first, Times: -1, Behind: n, For: 5 * time.Second}))
}

func TestB03SearchForAJoinFollowsASync(t *testing.T) {
	for name, held := range map[string]bool{"alone": false, "behind another": true} {
		clients := 1
		if held {
			clients = 2
		}
		for _, side := range sides {
			t.Run(name+" "+side.name, func(t *testing.T) {
				side.inBubble(t, func(t *testing.T, w *sideWorld) {
					c := w.client(nil)
					var holder *Lease
					if held {
						holder = w.excludes(w.client(nil))
					}
					// The replica does not have the join, which is the last transaction.
					w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoin})
					var a *harness.Call[*Lease]
					requests := w.requests(func() {
						a = w.waits(c)
						time.Sleep(time.Second)
					})
					require.Equal(t, 1, requests["connect"])
					require.Equal(t, 1, requests[opJoin], "the join is found, not repeated")
					require.Equal(t, 1, requests["sync"])
					if held {
						require.True(t, a.Waiting())
						require.Len(t, w.line(), 2)
						require.NoError(t, holder.Release())
					}
					l := a.Get()
					require.Len(t, w.line(), 1)
					w.stands(l)
					_, stat, err := l.Get(t.Context(), l.Check().Path)
					require.NoError(t, err)
					require.Equal(t, newToken(stat.Czxid, 0), l.Token())
					require.NoError(t, l.Release())
					require.Empty(t, w.line())
				}, behind(clients, 1))
			})
		}
	}
}

// A server that lags behind what the client has seen refuses the connection. The join
// is found once a server accepts it.
func TestB03SearchWaitsForAServerThatHasSeenWhatTheClientHas(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			side.inBubble(t, func(t *testing.T, w *sideWorld) {
				c := w.client(nil)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoin})
				requests := w.requests(func() {
					l := w.waits(c).Get()
					w.stands(l)
					require.Len(t, w.line(), 1)
					require.NoError(t, l.Release())
				})
				require.Equal(t, 1, requests[opJoin])
				require.Greater(t, requests["connect"], 1)
				require.Empty(t, w.line())
			}, zktest.WithPlan(zktest.NewPlan(
				zktest.Fault{Do: zktest.Lag, Skip: 1, Times: -1, Behind: 100, For: 3 * time.Second})))
		})
	}
}

func TestB63LeaseSeesEarlierCommitsAfterAReconnectToALaggingServer(t *testing.T) {
	for _, side := range sides {
		if !side.signalled() {
			continue // the waiter lists, and then a lagging server refuses its connection
		}
		t.Run(side.name, func(t *testing.T) {
			side.inBubble(t, func(t *testing.T, w *sideWorld) {
				c, other := w.client(nil), w.client(nil)
				before := w.excludes(other)
				_, err := before.Commit(t.Context(), OpCreate("/data", []byte("old"), 0, nil))
				require.NoError(t, err)
				a := w.waits(c)
				require.True(t, a.Waiting())

				// Two transactions of which c sees nothing but a watch event.
				_, err = before.Commit(t.Context(),
					OpSet("/data", []byte("new"), -1), OpCreate("/data/new", nil, 0, nil))
				require.NoError(t, err)
				require.NoError(t, before.Release())
				l := a.Get()
				requests := w.requests(func() {
					require.True(t, w.srv.Disconnect(sessionID(c)))
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
				w.stands(l)
				require.NoError(t, l.Release())
			}, behind(2, 2))
		})
	}
}

func TestAGrantSignalledOnAnEarlierConnectionIsHandedOutAfterASync(t *testing.T) {
	r := newRig(t, nil)
	holder := lockOn(t, NewMutex(dial(t, nil), r.path))
	s, _ := r.c.client.Session()
	p, err := r.m.line.Join(r.ctx, s, line.KindLock)
	require.NoError(t, err)
	until := make(chan error)
	go func() { until <- p.AwaitTurn(r.ctx) }()
	r.asleep(1)
	require.NoError(t, holder.Release())
	require.NoError(t, <-until)
	require.True(t, p.First)
	r.p.Reset()
	r.p.Drop()
	harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
	require.NoError(t, s.Ready(r.ctx))
	g, err := p.Grant(r.ctx)
	require.NoError(t, err)
	require.Equal(t, 1, r.p.CountOf("sync"))
	l, err := g.Enter(line.KindLock)
	require.NoError(t, err)
	require.NoError(t, newLease(l).Release())
}
