package zkrecipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Outages of one server. Outages of an ensemble are in lock_ensemble_test.go, and
// those of the client's process in session_process_test.go.

// A waiter whose server restarts keeps its place, and is granted at its turn and not
// before.
func TestRealA02WaiterSurvivesAServerRestart(t *testing.T) {
	t.Parallel()
	node := harness.OwnNode(t, zkserver.Config{TickTime: 2 * time.Second}) // which allows for sessions of 40 s
	servers := []string{node.Addr()}
	for _, end := range []struct {
		how string
		f   func(context.Context) error
	}{{"killed", node.Kill}, {"stopped", node.Stop}} {
		t.Run(end.how, func(t *testing.T) {
			lines := pairs(t, harness.Within(t, 60*time.Second), servers, 30*time.Second)
			require.NoError(t, end.f(t.Context()))
			require.NoError(t, node.Restart(t.Context()))
			for _, l := range lines {
				l.holding.nth(t, 2, "up")
				l.waiting.nth(t, 2, "up")
				require.NoError(t, l.holder.Err())
				_, err := l.holder.Commit(harness.Within(t, 10*time.Second))
				require.NoError(t, err, "the holder still holds on the server")
				require.Equal(t, l.before, places(t, servers, l.path), "the same places, in the same order")
				require.True(t, l.waiter.Waiting())
				require.NoError(t, l.holder.Release())

				next := l.waiter.Get()
				require.Greater(t, next.Token(), l.holder.Token())
				require.Equal(t, l.before[1], l.waiting.nth(t, 1, "granted").Place)
				require.Len(t, l.waiting.of("queued"), 1, "it never left its place")
				require.NoError(t, next.Release())
			}
		})
	}
}

// The holder's lease ends before its session expires, and the waiter is granted when
// it does.
func TestRealA03WaiterIsGrantedAfterTheHoldersSessionExpires(t *testing.T) {
	t.Parallel()
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			t.Parallel()
			ctx, path := harness.Within(t, 30*time.Second), harness.NewPath(t)
			p := harness.NewProxy(t, harness.Server())
			holder := held(t, side.theirs(dialTo(t, []string{p.Addr()}, &Options{SessionTimeout: 1500 * time.Millisecond}), path).Lock)
			work := holder.Context(ctx)
			c := dial(t, nil)
			waiter := later(t, side.ours(c, path).Lock)
			sleeps(t, c, 2)
			require.NoError(t, holder.Err())

			p.Stall()
			next := waiter.Get()
			require.ErrorIs(t, holder.Err(), ErrLost, "the lease has ended before the waiter is granted")
			require.ErrorIs(t, harness.Cause(t, work), ErrLost)
			require.Greater(t, next.Token(), holder.Token())

			p.Resume()
			require.ErrorIs(t, holder.Release(), ErrLost)
			_, err := holder.Commit(ctx)
			require.ErrorIs(t, err, ErrLost)
			_, err = next.Commit(ctx)
			require.NoError(t, err, "the old holder affects nobody else's place")
			require.NoError(t, next.Release())
		})
	}
}

// A server that lost its data knows no session, and refuses clients that have seen a
// later transaction than its own last one. Leases end with ErrLost, and clients go on
// in new sessions.
func TestRealB46ServerThatLostItsDataEndsLeasesAndServesNewSessions(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond
	node := harness.OwnNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	ctx := harness.Within(t, 30*time.Second)
	lines := pairs(t, ctx, servers, timeout)

	require.NoError(t, node.Wipe(t.Context()))
	wiped := time.Now()
	for _, l := range lines {
		require.ErrorIs(t, harness.Cause(t, l.work), ErrLost)
		require.ErrorIs(t, l.holder.Err(), ErrLost)
		_, err := l.holder.Commit(ctx)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, l.holder.Release(), ErrLost)
	}
	for _, l := range lines {
		next := l.waiter.Get()
		require.NotEqual(t, l.waiting.nth(t, 1, "up").Session, l.waiting.nth(t, 1, "granted").Session, "in a new session")
		other := later(t, l.theirs(l.client, l.path).Lock) // in the holder's client
		require.NoError(t, next.Release())
		again := other.Get()
		took := time.Since(wiped)
		t.Logf("%s: both clients were served %v after the server was back without its data, timeout %v", l.name, took, timeout)
		require.Less(t, took, 6*timeout, "twice the timeout, and time to connect")
		require.NotEqual(t, l.holding.nth(t, 1, "up").Session, l.holding.nth(t, 2, "granted").Session, "in a new session")
		require.NoError(t, again.Release())
	}
}

// The server is down for longer than the session timeout, and still knows the sessions
// when it is back. The holder's lease has ended by then, so the client deletes its
// place as soon as it can. The waiter keeps its session and its place.
func TestRealB56OutageLongerThanTheTimeoutEndsLeasesAndKeepsWaiters(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	for _, tt := range []struct {
		name   string
		outage time.Duration // at least
	}{{"once", 0}, {"twice", 2*timeout + timeout/4}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := harness.OwnNode(t, zkserver.Config{})
			servers := []string{node.Addr()}
			ctx := harness.Within(t, 30*time.Second)
			lines := pairs(t, ctx, servers, timeout)

			require.NoError(t, node.Kill(t.Context()))
			over := time.After(tt.outage)
			for _, l := range lines {
				require.ErrorIs(t, harness.Cause(t, l.work), ErrLost, "after the timeout")
			}
			<-over
			for _, l := range lines {
				require.True(t, l.waiter.Waiting())
			}
			require.NoError(t, node.Restart(t.Context()))

			for _, l := range lines {
				next := l.waiter.Get()
				for _, r := range []*recorder{l.holding, l.waiting} {
					require.Equal(t, r.nth(t, 1, "up").Session, r.nth(t, 2, "up").Session, "the server still knows the session")
				}
				require.Equal(t, l.before[1], l.waiting.nth(t, 1, "granted").Place)
				require.Len(t, l.waiting.of("queued"), 1, "it never left its place")
				require.Equal(t, l.before[1:], places(t, servers, l.path), "the ended lease's place is gone")
				_, err := l.holder.Commit(ctx)
				require.ErrorIs(t, err, ErrLost)
				require.ErrorIs(t, l.holder.Release(), ErrLost)
				require.NoError(t, next.Release())
				require.NoError(t, l.theirs(l.client, l.path).Do(ctx, nothing), "its own old place does not block it")
			}
		})
	}
}

// pair is a holder and a waiter behind it, each in a session of its own.
type pair struct {
	side             // of the waiter; the holder is a rival
	path             string
	holding, waiting *recorder
	client           *Client // the holder's
	holder           *Lease
	work             context.Context // the holder's
	waiter           *harness.Call[*Lease]
	before           []string // the names of the two places
}

// pairs returns a pair for each side.
func pairs(t testing.TB, ctx context.Context, servers []string, timeout time.Duration) (ps []*pair) {
	t.Helper()
	for _, side := range sides {
		p := &pair{side: side, path: harness.NewPath(t), holding: newRecorder(), waiting: newRecorder()}
		p.client = dialTo(t, servers, &Options{SessionTimeout: timeout, Trace: p.holding.trace()})
		p.holder = held(t, side.theirs(p.client, p.path).Lock)
		p.work = p.holder.Context(ctx)
		c := dialTo(t, servers, &Options{SessionTimeout: timeout, Trace: p.waiting.trace()})
		p.waiter = later(t, side.ours(c, p.path).Lock)
		sleeps(t, c, 2)
		p.before = places(t, servers, p.path)
		require.Len(t, p.before, 2)
		ps = append(ps, p)
	}
	return ps
}
