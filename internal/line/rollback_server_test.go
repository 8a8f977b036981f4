package line_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// A server that lost its last transactions, and goes on in a new epoch as an ensemble does
// whose members do. A standalone server's epoch never changes, see
// TestRealServerThatLostItsDataEndsLeasesAndServesNewSessions.

// rollbackTimeout is the session timeout. A session that its client lost would be over after
// it, so whoever is served within it has not waited for that.
const rollbackTimeout = time.Minute

// rollback is a server in quorum mode, on which two clients hold what they give back later. The other
// recipes are in TestEachRecipeGoesOnAfterTheServersHaveLostTransactions.
type rollback struct {
	t       *testing.T
	node    *zkserver.Node
	clients []*zkrecipes.Client
	used    map[string]func(context.Context, *zkrecipes.Client) (giveBack func() error, err error)
}

func newRollback(t *testing.T) *rollback {
	r := &rollback{t: t, node: harness.OwnNode(t, zkserver.Config{TickTime: 3 * time.Second, Quorum: true})}
	for range 2 {
		r.clients = append(r.clients, recipetest.DialTo(t, []string{r.node.Addr()}, &zkrecipes.Options{SessionTimeout: rollbackTimeout}))
	}
	_, err := r.queue(r.clients[0]).Put(harness.Within(t, 2*time.Minute), nil)
	require.NoError(t, err)
	r.used = map[string]func(context.Context, *zkrecipes.Client) (func() error, error){
		"Lock": func(ctx context.Context, c *zkrecipes.Client) (func() error, error) {
			return releaseOf(zkrecipes.NewMutex(c, "/mutex").Lock(ctx))
		},
		"Acquire": func(ctx context.Context, c *zkrecipes.Client) (func() error, error) {
			return releaseOf(zkrecipes.NewSemaphore(c, "/semaphore", 1).Acquire(ctx))
		},
		"Take": func(ctx context.Context, c *zkrecipes.Client) (func() error, error) {
			it, err := r.queue(c).Take(ctx)
			if err != nil {
				return nil, err
			}
			return func() error { return it.Nack(ctx) }, nil
		},
	}
	return r
}

func releaseOf[L interface{ Release() error }](l L, err error) (func() error, error) {
	return l.Release, err
}

func (r *rollback) queue(c *zkrecipes.Client) *zkrecipes.Queue {
	return zkrecipes.NewQueue(c, "/queue", &zkrecipes.QueueOptions{MaxAttempts: -1})
}

// hold takes one of each in the first client, and returns what gives all of them back.
func (r *rollback) hold() (giveBack func()) {
	ctx := harness.Within(r.t, 10*time.Minute)
	var all []func() error
	for what, use := range r.used {
		f, err := use(ctx, r.clients[0])
		require.NoError(r.t, err, what)
		all = append(all, f)
	}
	return func() {
		for _, f := range all {
			require.NoError(r.t, f())
		}
	}
}

// save copies the server's data.
func (r *rollback) save() {
	require.NoError(r.t, r.node.Pause(r.t.Context()))
	require.NoError(r.t, r.node.Save(r.t.Context()))
	require.NoError(r.t, r.node.Unpause(r.t.Context()))
}

// goBack puts the copied data back.
func (r *rollback) goBack() {
	require.NoError(r.t, r.node.Kill(r.t.Context()))
	require.NoError(r.t, r.node.Restore(r.t.Context()))
	require.NoError(r.t, r.node.Restart(r.t.Context()))
}

// goesOn requires that each client is served by each recipe, one after the other.
func (r *rollback) goesOn() {
	for what, use := range r.used {
		r.t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx := harness.Within(t, rollbackTimeout)
			began := time.Now()
			for i, c := range r.clients {
				giveBack, err := use(ctx, c)
				require.NoError(t, err, "client %d waits behind what it or the other one has given back", i)
				require.NoError(t, giveBack())
			}
			t.Logf("both clients were served within %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

func TestRealNothingThatWasGivenBackComesBackForGood(t *testing.T) {
	t.Parallel()
	t.Run("in a new epoch", func(t *testing.T) {
		t.Parallel()
		r := newRollback(t)
		giveBack := r.hold()
		r.save()
		giveBack()
		r.goBack()
		r.goesOn()
	})
	// The lost transactions were in an epoch that the copy knows nothing of, so its number is
	// given again. The server refuses the clients until its last transaction has a higher
	// number than the last one that they saw.
	t.Run("in an epoch that has the number of the lost one", func(t *testing.T) {
		t.Parallel()
		r := newRollback(t)
		giveBack := r.hold()
		r.save()
		require.NoError(t, r.node.Kill(t.Context()))
		require.NoError(t, r.node.Restart(t.Context()))
		giveBack()
		r.goBack()
		raw := harness.RawTo(t, []string{r.node.Addr()})
		for i := range 500 {
			_, err := raw.Create(fmt.Sprint("/other-", i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		r.goesOn()
	})
}

func TestRealAGrantThatWasLostEndsAndAWaitGoesOn(t *testing.T) {
	t.Parallel()
	r, seen := newRollback(t), recipetest.NewRecorder()
	c := recipetest.DialTo(t, []string{r.node.Addr()}, &zkrecipes.Options{SessionTimeout: rollbackTimeout, Trace: seen.Trace()})
	r.save()
	l := recipetest.Held(t, zkrecipes.NewMutex(r.clients[0], "/mutex").Lock)
	waiter := recipetest.Later(t, zkrecipes.NewMutex(c, "/mutex").Lock)
	seen.Nth(t, 1, "queued")
	r.goBack()
	require.ErrorIs(t, harness.Cause(t, l.Context(t.Context())), zkrecipes.ErrLost)
	require.NoError(t, waiter.Get().Release(), "nobody has evicted it")
	require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
}
