package zkrecipes

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The requests of an election.
const (
	opElect   = "multi(check,create,setData)"
	opSucceed = "multi(check,delete,create,setData)"
	opResign  = "multi(setData,delete,delete)"
	opQuit    = "multi(delete,delete)"
)

// campaigns campaigns in c and fails the test if it is not elected.
func campaigns(t testing.TB, e *Election, value string) *Term {
	t.Helper()
	term, err := e.Campaign(harness.Within(t, time.Minute), []byte(value))
	require.NoError(t, err)
	return term
}

// campaignLater campaigns in the background, and returns once the call sleeps.
func campaignLater(t testing.TB, e *Election, value string) *harness.Call[*Term] {
	a := harness.Go(t, func(ctx context.Context) (*Term, error) { return e.Campaign(ctx, []byte(value)) })
	synctest.Wait()
	return a
}

// election returns the election on the world's path in a session of its own.
func (w *world) election(opts *Options) *Election { return NewElection(w.stranger(opts), w.path) }

// leaderIs requires that the znode of the leader has that value.
func (w *world) leaderIs(value string) {
	w.t.Helper()
	data, _, err := w.bare().Get(w.path + leaderName)
	require.NoError(w.t, err)
	require.Equal(w.t, value, string(data))
}

// noLeader requires that the path has no leader's znode and no places.
func (w *world) noLeader() {
	w.t.Helper()
	require.Empty(w.t, w.srv.Children(w.path))
}

// follower collects what Observe yields.
type follower struct {
	stop context.CancelFunc
	mu   sync.Mutex
	all  []string
	seen []Leader
	err  error
	done chan struct{}
}

func follow(t testing.TB, e *Election) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	o := &follower{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		for l, err := range e.Observe(ctx) {
			o.mu.Lock()
			if o.err = err; err == nil {
				o.seen = append(o.seen, l)
				value := string(l.Value)
				if l.None() {
					value = "none"
				}
				o.all = append(o.all, value)
			}
			o.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-o.done })
	synctest.Wait()
	return o
}

// values returns the values that were yielded; "none" where there was no leader.
func (o *follower) values() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

// ended waits for the end of the iteration and returns its error.
func (o *follower) ended() error {
	<-o.done
	return o.err
}

// evict deletes the znode that a lease holds with.
func (w *world) evict(l *Lease) {
	w.t.Helper()
	require.NoError(w.t, w.bare().Delete(l.Check().Path, -1))
	synctest.Wait()
}

// inElectionBubble runs f in a bubble with two clients.
func inElectionBubble(t *testing.T, f func(t *testing.T, w *world, a, b *Election), opts ...zktest.Option) {
	inBubble(t, func(t *testing.T, w *world) { f(t, w, w.election(nil), w.election(nil)) }, opts...)
}

// deleteLeader is an operator that deletes the leader's znode.
func (w *world) deleteLeader() {
	w.t.Helper()
	require.NoError(w.t, w.bare().Delete(w.path+leaderName, -1))
	synctest.Wait()
}

// createByHand creates a leader's znode without the library.
func (w *world) createByHand(conn *zk.Conn, flags int32) {
	w.t.Helper()
	_, err := conn.Create(w.path+leaderName, []byte("by hand"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
}
