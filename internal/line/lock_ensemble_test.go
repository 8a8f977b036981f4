package line_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Three servers, some of which are cut off, paused or killed.

// tolerance is how late a timer may fire on a busy machine. It is shorter than the sessions whose
// ends are measured: what ends with the next answer, or twice the timeout later, is later.
const tolerance = 8 * time.Second

// threeServers starts an ensemble. Now and then two servers do not agree which of them
// leads, and notice only after initLimit. It is 3 s here, so that sessions survive
// that.
func threeServers(t *testing.T) *zkserver.Ensemble {
	t.Helper()
	return harness.OwnEnsemble(t, zkserver.Config{
		TickTime: 200 * time.Millisecond,
		Extra:    map[string]string{"initLimit": "15", "maxSessionTimeout": "30000"},
	})
}

// The holder is connected to a leader that is cut off from its followers. The leader
// answers heartbeats until it notices. The lease ends at the time that the last
// answer allowed, and no Commit succeeds. The followers elect a new leader, which
// expires the session.
func TestRealLeaseEndsInTimeWhenTheLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	q.hold(q.leader)
	q.cut(q.leader)
	q.endsInTime()
	q.handedOver()
	q.refused()
}

// The holder is connected to the leader, and the two other servers are paused. The
// leader loses its quorum and stops serving. No waiter is granted until there is a
// quorum again.
func TestRealLeaseEndsInTimeWhenTheQuorumIsGone(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	q.hold(q.leader)
	for _, n := range q.others(q.leader) {
		require.NoError(t, n.Pause(t.Context()))
	}
	q.endsInTime()
	for _, l := range q.lines {
		require.True(t, l.waiter.Waiting())
	}
	for _, n := range q.others(q.leader) {
		require.NoError(t, n.Unpause(t.Context()))
	}
	q.handedOver()
	q.refused()
}

// The exception: here two hold for a while. A follower that is cut off from its leader
// goes on answering heartbeats while it waits for the leader (syncLimit, 2 s here),
// and cannot forward them. The leader expires the session and a waiter is granted,
// while the holder has every reason to believe in its lease. The fencing tokens and
// Commit protect the data, and the lease still ends at the time that the last answer
// allowed.
func TestRealCommitIsRefusedBehindAFollowerThatIsCutOff(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	follower := q.others(q.leader)[0]
	q.hold(follower)
	q.cut(follower)
	cut := time.Now()

	q.handedOver()
	t.Logf("the waiters were granted %v after the cut; Err of an old lease is %v", time.Since(cut), q.lines[0].holder.Err())
	var wg sync.WaitGroup
	for _, l := range q.lines { // at once, with contexts that end with the leases: the follower closes its connections soon
		wg.Go(func() {
			if _, err := l.holder.Commit(l.work, zkrecipes.OpSet(l.data, []byte("old"), -1)); err == nil {
				t.Error("a Commit under an old lease has succeeded")
			}
		})
	}
	wg.Wait()
	q.endsInTime()
	t.Logf("the old leases ended %v after the cut", time.Since(cut))
	require.NoError(t, follower.Heal(t.Context()))
	q.refused()
}

// quorum is an ensemble of three servers with a holder on each side of the locks. All
// holders are in one session, connected to one server. Their rivals wait, connected to
// the other two.
type quorum struct {
	*zkserver.Ensemble
	t       *testing.T
	ctx     context.Context
	leader  *zkserver.Node
	taps    *harness.Taps     // of client
	timeout time.Duration     // of the holders' session
	client  *zkrecipes.Client // the holders'
	lines   []*contest
}

// contest is a line with a holder and a waiter.
type contest struct {
	data   string // a znode that the holders write to
	holder *zkrecipes.Lease
	work   context.Context // the holder's
	waiter *harness.Call[*zkrecipes.Lease]
}

func newQuorum(t *testing.T) *quorum {
	t.Helper()
	q := &quorum{t: t, ctx: harness.Within(t, 2*time.Minute), timeout: 10 * time.Second, taps: harness.NewTapsVia(new(net.Dialer).DialContext)}
	q.Ensemble = threeServers(t)
	var err error
	q.leader, err = q.Leader(t.Context())
	require.NoError(t, err)
	return q
}

// others returns the servers other than n.
func (q *quorum) others(n *zkserver.Node) []*zkserver.Node {
	return slices.DeleteFunc(slices.Clone(q.Nodes), func(m *zkserver.Node) bool { return m == n })
}

// hold takes the locks in a client of node, and has their rivals wait.
func (q *quorum) hold(node *zkserver.Node) {
	q.t.Helper()
	q.client = recipetest.DialTo(q.t, []string{node.Addr()}, &zkrecipes.Options{SessionTimeout: q.timeout, Dialer: q.taps.Dial})
	var servers []string
	for _, n := range q.others(node) {
		servers = append(servers, n.Addr())
	}
	for _, side := range recipetest.Sides {
		path := harness.NewPath(q.t)
		l := &contest{data: path + "-data", holder: recipetest.Held(q.t, side.Ours(q.client, path).Lock)}
		l.work = l.holder.Context(q.ctx)
		_, err := l.holder.Commit(q.ctx, zkrecipes.OpCreate(l.data, []byte("first"), 0, nil))
		require.NoError(q.t, err)
		seen := recipetest.NewRecorder()
		c := recipetest.DialTo(q.t, servers, &zkrecipes.Options{Trace: seen.Trace()})
		l.waiter = recipetest.Later(q.t, side.Theirs(c, path).Lock)
		seen.Nth(q.t, 1, "queued")
		q.lines = append(q.lines, l)
	}
	for _, l := range q.lines {
		require.NoError(q.t, l.holder.Err())
	}
}

// handedOver waits until the waiters are granted. They write and release.
func (q *quorum) handedOver() {
	q.t.Helper()
	for _, l := range q.lines {
		next := l.waiter.Get()
		require.Greater(q.t, next.Token(), l.holder.Token())
		_, err := next.Commit(q.ctx, zkrecipes.OpSet(l.data, []byte("next"), -1))
		require.NoError(q.t, err)
		require.NoError(q.t, next.Release())
	}
}

// cut cuts a server off from the others, and skips the test if that is not possible.
func (q *quorum) cut(n *zkserver.Node) {
	q.t.Helper()
	err := n.Cut(q.t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		q.t.Skip("only servers in networks of their own can be cut off from each other: ", err)
	}
	require.NoError(q.t, err)
}

// endsInTime waits until the holders' contexts end, and requires that they end when,
// from the answers that the client has received, the session may have expired.
func (q *quorum) endsInTime() {
	q.t.Helper()
	for _, l := range q.lines {
		err := harness.Cause(q.t, l.work)
		now := time.Now()
		require.ErrorIs(q.t, err, zkrecipes.ErrLost)
		require.ErrorIs(q.t, l.holder.Err(), zkrecipes.ErrLost)
		require.Less(q.t, now.Sub(q.lastAnswered().Add(q.timeout)), tolerance, "a timeout after the last request that was answered")
		q.t.Logf("the lease ended %v after the last request that was answered", now.Sub(q.lastAnswered()))
	}
}

// refused requires that the holders' Commits fail and change nothing.
func (q *quorum) refused() {
	q.t.Helper()
	conn := harness.RawTo(q.t, []string{q.leader.Addr(), q.Nodes[0].Addr(), q.Nodes[1].Addr(), q.Nodes[2].Addr()})
	for _, l := range q.lines {
		_, err := l.holder.Commit(q.ctx, zkrecipes.OpSet(l.data, []byte("old"), -1))
		require.ErrorIs(q.t, err, zkrecipes.ErrLost)
		require.ErrorIs(q.t, l.holder.Release(), zkrecipes.ErrLost)
		_, err = conn.Sync(l.data)
		require.NoError(q.t, err)
		data, _, err := conn.Get(l.data)
		require.NoError(q.t, err)
		require.Equal(q.t, "next", string(data))
	}
}

// lastAnswered returns when the client last sent a request that was answered.
func (q *quorum) lastAnswered() (last time.Time) {
	for _, c := range q.taps.All() {
		c.Mu.Lock()
		if c.Answered.After(last) {
			last = c.Answered
		}
		c.Mu.Unlock()
	}
	return last
}

// The leader dies and another server takes over. Sessions, the lock and the places in
// the line survive. Clients only re-arm their watches, and each waiter wakes once,
// when its predecessor leaves.
func TestRealLockIsKeptThroughAChangeOfLeader(t *testing.T) {
	const n = 5
	e := threeServers(t)
	var all []*harness.Taps
	// sent returns how often each operation was sent, without those of earlier.
	sent := func(earlier map[string]int) map[string]int {
		count := map[string]int{}
		for op, n := range earlier {
			count[op] = -n
		}
		for _, taps := range all {
			for _, c := range taps.All() {
				for _, op := range c.Sent() {
					count[op]++
				}
			}
		}
		return count
	}
	// A line of mutexes, and a line in which writers and readers alternate, so that
	// each waits for one other there, too. The first of each line holds.
	type standing struct {
		*harness.Call[*zkrecipes.Lease]
		recorder *recipetest.Recorder
		client   *zkrecipes.Client
		watches  *atomic.Int32 // of data that it has asked for
	}
	asksFor := func(waiter standing, watches int32) {
		harness.Eventually(t, "watches", func() bool { return waiter.watches.Load() >= watches })
	}
	var lines [2][]standing
	var before [2][]string
	for line, kinds := range []string{"mmmmmm", "wrwrwr"} {
		path := harness.NewPath(t)
		for i, kind := range kinds {
			waiter, taps := standing{recorder: recipetest.NewRecorder(), watches: new(atomic.Int32)}, harness.NewTapsVia(new(net.Dialer).DialContext)
			taps.OnWrite(func(_ *harness.Tap, op string, frame []byte) (bool, error) {
				if op == "getData" && frame[len(frame)-1] == 1 {
					waiter.watches.Add(1)
				}
				return false, nil
			})
			all = append(all, taps)
			waiter.client = recipetest.DialTo(t, e.Addrs(), &zkrecipes.Options{
				SessionTimeout: 30 * time.Second, Trace: waiter.recorder.Trace(), Dialer: taps.Dial,
			})
			waiter.Call = recipetest.Later(t, kindsOfLock[kind](waiter.client, path).Lock)
			if i == 0 {
				asksFor(waiter, 1) // on its own place
			} else {
				waiter.recorder.Nth(t, 1, "queued")
			}
			lines[line] = append(lines[line], waiter)
		}
		before[line] = recipetest.Places(t, e.Addrs(), path)
		require.Len(t, before[line], 1+n)
	}
	earlier := sent(nil)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, leader.Kill(t.Context()))
	_, err = e.Leader(t.Context(), leader)
	require.NoError(t, err)
	for _, waiter := range slices.Concat(lines[0], lines[1]) {
		require.Equal(t, waiter.recorder.Nth(t, 1, "up").Session, waiter.recorder.Nth(t, 2, "up").Session, "the same session")
		harness.Eventually(t, "connected", func() bool { return waiter.client.Status().Connected })
	}
	require.NoError(t, leader.Restart(t.Context()))
	for _, line := range lines {
		for _, waiter := range line[1:] {
			asksFor(waiter, 3) // on its own place, which needs no other, and twice on its predecessor
		}
	}
	for i, line := range lines {
		holder := line[0].Get()
		_, err = holder.Commit(t.Context())
		require.NoError(t, err)
		require.Equal(t, before[i], recipetest.Places(t, e.Addrs(), holder.Path()))
	}
	count := sent(earlier)
	require.Equal(t, len(lines), count["multi(check)"], "the Commits")
	require.Equal(t, len(lines), recipetest.Writes(count), "%v", count)
	require.Zero(t, count["getChildren2"], "each waiter watches the same predecessor again: %v", count)

	for l, line := range lines {
		for i, waiter := range line {
			current := waiter.Get()
			earlier := sent(nil)
			require.NoError(t, current.Release())
			if i == n {
				break
			}
			next := line[i+1]
			next.Get()
			count := sent(earlier)
			want := 1
			if current.Shared() { // a writer behind a reader lists
				want = 2
			}
			// A reply may be the first that shows the new epoch.
			require.Equal(t, want, recipetest.Sum(count)-count["getEphemerals"], "one waiter wakes: %v", count)
			require.Len(t, next.recorder.Of("queued"), 1)
			require.Equal(t, before[l][i+1], next.recorder.Nth(t, 1, "granted").Place)
		}
	}
}
