package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How a loss is reported: an expiry is never called an eviction, nor a clean release.

// The events of the deletions come before the connection is closed, as from a real server.
func TestB94AnExpiryWhoseEventsComeFirstIsNotCalledAnEviction(t *testing.T) {
	type holding interface {
		Err() error
		Context(context.Context) context.Context
		Path() string
	}
	for name, hold := range map[string]func(*testing.T, *zkrecipes.Client) (_ holding, release func() error){
		"Mutex": func(t *testing.T, c *zkrecipes.Client) (holding, func() error) {
			l := recipetest.Held(t, zkrecipes.NewMutex(c, "/m").Lock)
			return l, l.Release
		},
		"Mutex with KeepFor": func(t *testing.T, c *zkrecipes.Client) (holding, func() error) {
			l := recipetest.Held(t, zkrecipes.NewMutex(c, "/m", zkrecipes.KeepFor(time.Hour)).Lock)
			return l, l.Release
		},
		"downgraded writer": func(t *testing.T, c *zkrecipes.Client) (holding, func() error) {
			l := recipetest.Held(t, zkrecipes.NewRWLock(c, "/m").Lock)
			require.NoError(t, l.Downgrade(t.Context()))
			return l, l.Release
		},
		"slots": func(t *testing.T, c *zkrecipes.Client) (holding, func() error) {
			l, err := zkrecipes.NewSemaphore(c, "/m", 3).AcquireN(t.Context(), 2)
			require.NoError(t, err)
			return l, l.Release
		},
		"term": func(t *testing.T, c *zkrecipes.Client) (holding, func() error) {
			term := recipetest.Campaigns(t, zkrecipes.NewElection(c, "/m"), "a")
			return term, term.Resign
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				ends := make(chan error, 1)
				c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{HoldEnd: func(e zkrecipes.TraceHoldEnd) { ends <- e.Err }}})
				l, release := hold(t, c)
				ctx := l.Context(t.Context())
				time.Sleep(5 * time.Second) // its znodes are watched
				w.Plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1})
				require.True(t, w.Srv.ExpireWithEvents(recipetest.SessionID(c)))
				synctest.Wait()
				require.Error(t, ctx.Err(), "at once")
				for _, err := range []error{l.Err(), context.Cause(ctx)} {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.NotErrorIs(t, err, errs.ErrDeleted)
					require.NotContains(t, err.Error(), "somebody else")
				}
				w.Plan.Stop()
				time.Sleep(30 * time.Second) // the next handshake tells
				for _, err := range []error{l.Err(), context.Cause(ctx), release(), <-ends} {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.ErrorIs(t, err, zk.ErrSessionExpired)
					require.NotContains(t, err.Error(), "deleted")
				}
			})
		})
	}
}

// An eviction is told as one, once a write was answered in the session.
func TestAnEvictionIsToldOnceTheSessionIsKnownToLive(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		ctx := l.Context(t.Context())
		time.Sleep(5 * time.Second)
		require.NoError(t, w.Bare().Delete(l.Check().Path, -1))
		synctest.Wait()
		for _, err := range []error{l.Err(), context.Cause(ctx), l.Release()} {
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			require.ErrorIs(t, err, errs.ErrDeleted)
			require.ErrorContains(t, err, "somebody else")
			require.NotErrorIs(t, err, zk.ErrSessionExpired)
		}
	})
}

// The servers answer the release, or close the connection before it, because they have
// expired the session.
func TestB94ReleaseOfALeaseThatTheServersHadEndedReturnsErrLost(t *testing.T) {
	t.Run("answered", func(t *testing.T) {
		recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
			c := w.Client(nil)
			l := w.Holds(c)
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -112, Op: w.Release})
			err := l.Release()
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			require.ErrorIs(t, err, zk.ErrSessionExpired)
			time.Sleep(time.Minute)
			require.Empty(t, w.Line())
		})
	})
	t.Run("known", func(t *testing.T) {
		recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
			c := w.Client(nil)
			l := w.Holds(c)
			w.Srv.Expire(recipetest.SessionID(c))
			s, _ := recipetest.Core(c).Session()
			<-s.Over()
			err := l.Release()
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			require.ErrorIs(t, err, zk.ErrSessionExpired)
			require.Equal(t, err, l.Release())
		})
	})
}
