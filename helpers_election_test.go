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

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The requests of an election.
const (
	opElect    = "multi(check,create,setData)"
	opSucceed  = "multi(check,delete,create,setData)"
	opResign   = "multi(setData,delete,delete)"
	opProclaim = "multi(check,check,setData)"
	opQuit     = "multi(delete,delete)"
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
func (w *electionWorld) leaderIs(value string) {
	w.t.Helper()
	data, _, err := w.operator.Get(w.path + election.LeaderName)
	require.NoError(w.t, err)
	require.Equal(w.t, value, string(data))
}

// noLeader requires that the path has no leader's znode and no places.
func (w *electionWorld) noLeader() {
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

// requestsWithoutPings is like requests, for an f that takes time.
func (w *electionWorld) requestsWithoutPings(f func()) map[string]int {
	w.t.Helper()
	counts := w.requests(f)
	delete(counts, "ping")
	return counts
}

// evict deletes the znode that a lease holds with.
func (w *electionWorld) evict(l *Lease) {
	w.t.Helper()
	require.NoError(w.t, w.operator.Delete(l.Check().Path, -1))
	synctest.Wait()
}

// electionWorld is a world with an operator's connection.
type electionWorld struct {
	*world
	operator *zk.Conn
}

// inElectionBubble runs f in a bubble with two clients.
func inElectionBubble(t *testing.T, f func(t *testing.T, w *electionWorld, a, b *Election), opts ...zktest.Option) {
	inBubble(t, func(t *testing.T, w *world) {
		f(t, &electionWorld{w, w.bare()}, w.election(nil), w.election(nil))
	}, opts...)
}

// deleteLeader is an operator that deletes the leader's znode.
func (w *electionWorld) deleteLeader() {
	w.t.Helper()
	require.NoError(w.t, w.operator.Delete(w.path+election.LeaderName, -1))
	synctest.Wait()
}

// deleteBoth deletes both znodes of a leader at once.
func (w *electionWorld) deleteBoth(term *Term) {
	w.t.Helper()
	_, err := w.operator.Multi(&zk.DeleteRequest{Path: term.Check().Path, Version: -1}, &zk.DeleteRequest{Path: w.path + election.LeaderName, Version: -1})
	require.NoError(w.t, err)
	synctest.Wait()
}

// remakeLeader is an operator that replaces the leader's znode.
func (w *electionWorld) remakeLeader() {
	w.t.Helper()
	path := w.path + election.LeaderName
	_, err := w.operator.Multi(&zk.DeleteRequest{Path: path, Version: -1},
		&zk.CreateRequest{Path: path, Data: []byte("by hand"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	require.NoError(w.t, err)
	synctest.Wait()
}

// createByHand creates a leader's znode without the library.
func (w *electionWorld) createByHand(flags int32) {
	w.t.Helper()
	_, err := w.operator.Create(w.path+election.LeaderName, []byte("by hand"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
}
