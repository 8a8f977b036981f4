package line_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Outages of one server. Outages of an ensemble are in lock_ensemble_test.go, and
// those of the client's process in session_process_test.go.

// A waiter whose server restarts keeps its place, and is granted at its turn and not
// before.
func TestRealWaiterSurvivesAServerRestart(t *testing.T) {
	t.Parallel()
	node := harness.OwnNode(t, zkserver.Config{TickTime: 5 * time.Second}) // which allows for sessions of 100 s
	servers := []string{node.Addr()}
	for _, end := range []struct {
		how string
		f   func(context.Context) error
	}{{"killed", node.Kill}, {"stopped", node.Stop}} {
		t.Run(end.how, func(t *testing.T) {
			lines := pairs(t, harness.Within(t, 3*time.Minute), servers, 90*time.Second)
			require.NoError(t, end.f(t.Context()))
			require.NoError(t, node.Restart(t.Context()))
			for _, l := range lines {
				l.holding.Nth(t, 2, "up")
				l.waiting.Nth(t, 2, "up")
				require.NoError(t, l.holder.Err())
				_, err := l.holder.Commit(harness.Within(t, 2*time.Minute))
				require.NoError(t, err, "the holder still holds on the server")
				require.Equal(t, l.before, recipetest.Places(t, servers, l.path), "the same places, in the same order")
				require.True(t, l.waiter.Waiting())
				require.NoError(t, l.holder.Release())

				next := l.waiter.Get()
				require.Greater(t, next.Token(), l.holder.Token())
				require.Equal(t, l.before[1], l.waiting.Nth(t, 1, "granted").Place)
				require.Len(t, l.waiting.Of("queued"), 1, "it never left its place")
				require.NoError(t, next.Release())
			}
		})
	}
}

// A server that lost its data knows no session, and refuses clients that have seen a
// later transaction than its own last one. Leases end with ErrLost, and clients go on
// in new sessions.
func TestRealServerThatLostItsDataEndsLeasesAndServesNewSessions(t *testing.T) {
	t.Parallel()
	const timeout = 8 * time.Second
	node := harness.OwnNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	ctx := harness.Within(t, 2*time.Minute)
	lines := pairs(t, ctx, servers, timeout)

	for _, l := range lines {
		require.True(t, l.waiter.Waiting())
	}
	require.NoError(t, node.Wipe(t.Context()))
	wiped := time.Now()
	for _, l := range lines {
		require.ErrorIs(t, harness.Cause(t, l.work), zkrecipes.ErrLost)
		require.ErrorIs(t, l.holder.Err(), zkrecipes.ErrLost)
		_, err := l.holder.Commit(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorIs(t, l.holder.Release(), zkrecipes.ErrLost)
	}
	for _, l := range lines {
		next := l.waiter.Get()
		require.NotEqual(t, l.waiting.Nth(t, 1, "up").Session, l.waiting.Nth(t, 1, "granted").Session, "in a new session")
		other := recipetest.Later(t, l.Theirs(l.client, l.path).Lock) // in the holder's client
		require.NoError(t, next.Release())
		again := other.Get()
		t.Logf("%s: both clients were served %v after the server was back without its data, timeout %v", l.Name, time.Since(wiped), timeout)
		require.NotEqual(t, l.holding.Nth(t, 1, "up").Session, l.holding.Nth(t, 2, "granted").Session, "in a new session")
		require.NoError(t, again.Release())
	}
}

// The server is down for longer than the session timeout, and still knows the sessions
// when it is back. The holder's lease has ended by then, so the client deletes its
// place as soon as it can. The waiter keeps its session and its place.
func TestRealOutageLongerThanTheTimeoutEndsLeasesAndKeepsWaiters(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	for _, tt := range []struct {
		name   string
		outage time.Duration // at least
	}{{"once", 0}, {"twice", 2*timeout + timeout/4}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := harness.OwnNode(t, zkserver.Config{})
			servers := []string{node.Addr()}
			ctx := harness.Within(t, 2*time.Minute)
			lines := pairs(t, ctx, servers, timeout)

			require.NoError(t, node.Kill(t.Context()))
			over := time.After(tt.outage)
			for _, l := range lines {
				require.ErrorIs(t, harness.Cause(t, l.work), zkrecipes.ErrLost, "after the timeout")
			}
			<-over
			for _, l := range lines {
				require.True(t, l.waiter.Waiting())
			}
			require.NoError(t, node.Restart(t.Context()))

			for _, l := range lines {
				next := l.waiter.Get()
				for _, r := range []*recipetest.Recorder{l.holding, l.waiting} {
					require.Equal(t, r.Nth(t, 1, "up").Session, r.Nth(t, 2, "up").Session, "the server still knows the session")
				}
				require.Equal(t, l.before[1], l.waiting.Nth(t, 1, "granted").Place)
				require.Len(t, l.waiting.Of("queued"), 1, "it never left its place")
				require.Equal(t, l.before[1:], recipetest.Places(t, servers, l.path), "the ended lease's place is gone")
				_, err := l.holder.Commit(ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.ErrorIs(t, l.holder.Release(), zkrecipes.ErrLost)
				require.NoError(t, next.Release())
				require.NoError(t, l.Theirs(l.client, l.path).Do(ctx, recipetest.Nothing), "its own old place does not block it")
			}
		})
	}
}

// pair is a holder and a waiter behind it, each in a session of its own.
type pair struct {
	recipetest.Side  // of the waiter; the holder is a rival
	path             string
	holding, waiting *recipetest.Recorder
	client           *zkrecipes.Client // the holder's
	holder           *zkrecipes.Lease
	work             context.Context // the holder's
	waiter           *harness.Call[*zkrecipes.Lease]
	before           []string // the names of the two places
}

// pairs returns a pair for each side.
func pairs(t testing.TB, ctx context.Context, servers []string, timeout time.Duration) (ps []*pair) {
	t.Helper()
	for _, side := range recipetest.Sides {
		p := &pair{Side: side, path: harness.NewPath(t), holding: recipetest.NewRecorder(), waiting: recipetest.NewRecorder()}
		p.client = recipetest.DialTo(t, servers, &zkrecipes.Options{SessionTimeout: timeout, Trace: p.holding.Trace()})
		p.holder = recipetest.Held(t, side.Theirs(p.client, p.path).Lock)
		p.work = p.holder.Context(ctx)
		c := recipetest.DialTo(t, servers, &zkrecipes.Options{SessionTimeout: timeout, Trace: p.waiting.Trace()})
		p.waiter = recipetest.Later(t, side.Ours(c, p.path).Lock)
		p.waiting.Nth(t, 1, "queued")
		p.before = recipetest.Places(t, servers, p.path)
		require.Len(t, p.before, 2)
		ps = append(ps, p)
	}
	return ps
}
