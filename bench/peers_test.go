package main

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// labWithPeers returns a lab whose peers run.
func labWithPeers(t *testing.T, ctx context.Context) *lab {
	lab := testLab(t, ctx)
	require.NoError(t, lab.startPeers(ctx))
	return lab
}

// The costs of the peers' locks are known, so they show whether all that the peers send
// passes through the proxy, and is counted.
func TestPeersCostWhatTheirOperationsCost(t *testing.T) {
	ctx := quick(t)
	lab := labWithPeers(t, ctx)
	for _, p := range lab.peers {
		t.Run(p.name, func(t *testing.T) {
			if p.worker == nil {
				t.Skip(p.about)
			}
			free := lab.onlyPeer(t, ctx, p, scenario{workers: 1, block: 30, peers: peerLock{recipe: mutex}})
			// Both list the line after the create. Before it, kazoo looks for a znode that
			// an attempt before may have left.
			require.Equal(t, map[string]float64{curator: 3, kazoo: 4}[p.name], free.Requests())
			require.Equal(t, 2.0, free.Commits())
			require.Equal(t, int64(60), free.Latency.TotalCount(), "a time for each cycle, but for those of the first block")

			// A waiter also reads its predecessor, and lists again at its turn. The count
			// is the difference of two blocks, so it is not exact.
			contended := lab.onlyPeer(t, ctx, p, scenario{workers: 4, lead: 8, block: 40, peers: peerLock{recipe: mutex}})
			require.InDelta(t, free.Requests()+1, contended.Requests(), 1.5)
			require.Equal(t, 2.0, contended.Commits())
		})
	}
}

// onlyPeer runs a scenario with one peer and no other side.
func (l *lab) onlyPeer(t *testing.T, ctx context.Context, p *peer, sc scenario) *row {
	sc.name, sc.rounds = "only "+p.name, 2*peerRounds
	sc.open = func(*fixture) ([]side, error) { return nil, nil }
	rows, err := (&lab{servers: l.servers, peers: []*peer{p}}).measure(ctx, sc)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[0]
}

func TestPeersHoldTheLockAsLongAsTheyAreAskedTo(t *testing.T) {
	ctx := quick(t)
	lab := labWithPeers(t, ctx)
	for _, p := range lab.peers {
		for _, recipe := range p.recipes {
			t.Run(p.name+"/"+recipe, func(t *testing.T) {
				if p.worker == nil {
					t.Skip(p.about)
				}
				const hold = 20 * time.Millisecond
				w := lab.onlyPeer(t, ctx, p, scenario{workers: 2, block: 4, peers: peerLock{recipe: recipe, hold: hold}})
				ran := slices.DeleteFunc(w.blocks, func(d time.Duration) bool { return d == 0 }) // in each third round
				require.Len(t, ran, 2)
				for _, took := range ran {
					require.GreaterOrEqual(t, took, 2*hold, "4 cycles of 2 threads")
				}
			})
		}
	}
}

func TestAPeersErrorNamesIt(t *testing.T) {
	ctx := quick(t)
	lab := labWithPeers(t, ctx)
	for _, p := range lab.peers {
		if p.worker == nil {
			t.Log(p.name, p.about)
			continue
		}
		_, err := p.worker.ask(ctx, "open %s no-such-recipe 1 1 /x", lab.servers[0])
		require.ErrorContains(t, err, "unknown recipe no-such-recipe")
		p.worker.cmd.Process.Kill()
		_, err = p.worker.ask(ctx, "close")
		require.ErrorContains(t, err, "its process: ")
	}
}

func TestTheReportNamesWhatIsMissing(t *testing.T) {
	ctx := quick(t)
	lab := testLab(t, ctx)
	t.Setenv("PATH", t.TempDir())
	require.NoError(t, lab.startPeers(ctx))
	rep := &report{Machine: machine(lab)}
	var page bytes.Buffer
	require.NoError(t, rep.write(&page))
	require.Contains(t, page.String(), "| Curator | not measured: there is no java (Debian: default-jre-headless) |")
	require.Contains(t, page.String(), "\n| kazoo | ")
}

func TestTheProxyCountsWhatADialerCounts(t *testing.T) {
	ctx := quick(t)
	lab := testLab(t, ctx)
	fx := lab.fixture(ctx, limit)
	defer fx.close()
	var dialed, passed tally
	through, err := newProxy(lab.servers[0], &passed)
	require.NoError(t, err)
	defer through.close()
	fx.servers = []string{through.addr()}
	conn, err := fx.conn(&dialed)
	require.NoError(t, err)
	require.NoError(t, makeNode(conn, fx.path+"/line"))
	for range 20 {
		require.NoError(t, theirLock(conn, fx.path+"/line").cycle())
	}
	require.Equal(t, dialed.read(), passed.read())
	require.NotZero(t, passed.read().Commits)
}
