package recipetest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Leading is a call of Lead whose function runs until it is told to return.
type Leading struct {
	*harness.Call[struct{}]
	Terms   atomic.Int32 // that have begun
	Running atomic.Int32
	most    atomic.Int32 // of the functions that ran at a time
	Last    atomic.Pointer[zkrecipes.Term]
	Ret     chan error // what the function returns next
	patient bool       // the function goes on when its context ends
}

func Lead(t testing.TB, e *zkrecipes.Election, patient bool) *Leading {
	l := &Leading{Ret: make(chan error), patient: patient}
	l.Call = harness.GoErr(t, func(ctx context.Context) error {
		return e.Lead(ctx, []byte("lead"), l.Run)
	})
	synctest.Wait()
	return l
}

func (l *Leading) Run(ctx context.Context, term *zkrecipes.Term) error {
	l.Terms.Add(1)
	l.Last.Store(term)
	l.most.Store(max(l.most.Load(), l.Running.Add(1)))
	defer l.Running.Add(-1)
	ended := ctx.Done()
	if l.patient {
		ended = nil
	}
	select {
	case err := <-l.Ret:
		return err
	case <-ended:
		return context.Cause(ctx)
	}
}

// JoinByHand takes a place in the line without the library, and returns its path.
func (w *ElectionWorld) JoinByHand() string {
	w.T.Helper()
	path, err := w.Operator.Create(w.Path+"/_c_"+CuratorUUID(1)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	return path
}

// The requests of an election.
const (
	OpElect    = "multi(check,create,setData)"
	OpSucceed  = "multi(check,delete,create,setData)"
	OpProclaim = "multi(check,check,setData)"
)

// Campaigns campaigns in c and fails the test if it is not elected.
func Campaigns(t testing.TB, e *zkrecipes.Election, value string) *zkrecipes.Term {
	t.Helper()
	term, err := e.Campaign(harness.Within(t, time.Minute), []byte(value))
	require.NoError(t, err)
	return term
}

// CampaignLater campaigns in the background, and returns once the call sleeps.
func CampaignLater(t testing.TB, e *zkrecipes.Election, value string) *harness.Call[*zkrecipes.Term] {
	return settled(harness.Go(t, func(ctx context.Context) (*zkrecipes.Term, error) { return e.Campaign(ctx, []byte(value)) }))
}

// Election returns the election on the world's path in a session of its own.
func (w *World) Election(opts *zkrecipes.Options, more ...zkrecipes.MutexOption) *zkrecipes.Election {
	c := w.Stranger(opts)
	return uses(w, zkrecipes.NewElection(c, w.Path, more...), c)
}

// LeaderIs requires that the znode of the leader has that value.
func (w *ElectionWorld) LeaderIs(value string) {
	w.T.Helper()
	data, _, err := w.Operator.Get(w.Path + election.LeaderName)
	require.NoError(w.T, err)
	require.Equal(w.T, value, string(data))
}

// NoLeader requires that the path has no leader's znode and no places.
func (w *ElectionWorld) NoLeader() {
	w.T.Helper()
	require.Empty(w.T, w.Srv.Children(w.Path))
}

// Follower collects what Observe yields: the values, "none" where there is no leader.
type Follower struct {
	*Readout
	Seen []zkrecipes.Leader
}

func Follow(t testing.TB, e *zkrecipes.Election) *Follower {
	o := &Follower{}
	o.Readout = read(t, e.Observe, func(l zkrecipes.Leader) string {
		o.Seen = append(o.Seen, l)
		if l.None() {
			return "none"
		}
		return string(l.Value)
	})
	return o
}

// Evict deletes the place that a guard checks.
func (w *ElectionWorld) Evict(guard *zk.CheckVersionRequest) {
	w.T.Helper()
	require.NoError(w.T, w.Operator.Delete(guard.Path, -1))
	synctest.Wait()
}

// ElectionWorld is a world with an operator's connection.
type ElectionWorld struct {
	*World
	Operator *zk.Conn
}

// InElectionBubble runs f in a bubble with two clients.
func InElectionBubble(t *testing.T, f func(t *testing.T, w *ElectionWorld, a, b *zkrecipes.Election), opts ...zktest.Option) {
	InBubble(t, func(t *testing.T, w *World) {
		f(t, &ElectionWorld{w, w.Bare()}, w.Election(nil), w.Election(nil))
	}, opts...)
}

// DeleteLeader is an operator that deletes the leader's znode.
func (w *ElectionWorld) DeleteLeader() {
	w.T.Helper()
	require.NoError(w.T, w.Operator.Delete(w.Path+election.LeaderName, -1))
	synctest.Wait()
}

// DeleteBoth deletes both znodes of a leader at once.
func (w *ElectionWorld) DeleteBoth(term *zkrecipes.Term) {
	w.T.Helper()
	_, err := w.Operator.Multi(&zk.DeleteRequest{Path: term.Checks()[0].Path, Version: -1}, &zk.DeleteRequest{Path: w.Path + election.LeaderName, Version: -1})
	require.NoError(w.T, err)
	synctest.Wait()
}

// RemakeLeader is an operator that replaces the leader's znode.
func (w *ElectionWorld) RemakeLeader() {
	w.T.Helper()
	path := w.Path + election.LeaderName
	_, err := w.Operator.Multi(&zk.DeleteRequest{Path: path, Version: -1},
		&zk.CreateRequest{Path: path, Data: []byte("by hand"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	require.NoError(w.T, err)
	synctest.Wait()
}

// CreateByHand creates a leader's znode without the library.
func (w *ElectionWorld) CreateByHand(flags int32) {
	w.T.Helper()
	_, err := w.Operator.Create(w.Path+election.LeaderName, []byte("by hand"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
}
