package line_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Options.Auth without Options.ACL: what a client creates belongs to its identities.

// guardedRecipe is a recipe in use by its owner.
type guardedRecipe struct {
	name string
	// use begins to use the recipe at path, and returns a function that goes on.
	use func(t *testing.T, opts *zkrecipes.Options, path string) (goOn func())
	// stranger returns what another identity may not do, by name.
	stranger func(c *zkrecipes.Client, path string) map[string]func(context.Context) error
}

// only returns the error of a function that has another result.
func only[R any](f func(context.Context) (R, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := f(ctx)
		return err
	}
}

func guardedLock(s recipetest.Side) guardedRecipe {
	return guardedRecipe{
		name: s.Name,
		use: func(t *testing.T, opts *zkrecipes.Options, path string) func() {
			l := recipetest.Held(t, s.Ours(recipetest.Dial(t, opts), path).Lock)
			waiter := recipetest.Later(t, s.Theirs(recipetest.Dial(t, opts), path).Lock)
			return func() {
				require.NoError(t, l.Err())
				_, err := l.Commit(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Release())
				require.NoError(t, waiter.Get().Release())
			}
		},
		stranger: func(c *zkrecipes.Client, path string) map[string]func(context.Context) error {
			m := s.Ours(c, path)
			return map[string]func(context.Context) error{
				"lock": only(m.Lock), "try lock": only(m.TryLock), "list": only(m.Contenders),
				"do": func(ctx context.Context) error { return m.Do(ctx, recipetest.Nothing) },
			}
		},
	}
}

var guardedQueue = guardedRecipe{
	name: "queue",
	use: func(t *testing.T, opts *zkrecipes.Options, path string) func() {
		q := zkrecipes.NewQueue(recipetest.Dial(t, opts), path, nil)
		recipetest.PutOn(t, q, "first")
		recipetest.PutOn(t, q, "second")
		it := recipetest.TakeOn(t, q)
		return func() {
			recipetest.AckOn(t, it)
			require.Equal(t, []string{"second"}, recipetest.Drain(t, q))
		}
	},
	stranger: func(c *zkrecipes.Client, path string) map[string]func(context.Context) error {
		q, bounded := zkrecipes.NewQueue(c, path, nil), zkrecipes.NewQueue(c, path, &zkrecipes.QueueOptions{MaxLen: 1})
		put := func(q *zkrecipes.Queue) func(context.Context) error {
			return func(ctx context.Context) error { _, err := q.Put(ctx, nil); return err }
		}
		return map[string]func(context.Context) error{
			"put": put(q), "put with a bound": put(bounded), "take": only(q.Take), "peek": only(q.Peek), "count": only(q.Len),
			"put several": func(ctx context.Context) error { _, err := q.PutAll(ctx, nil, nil); return err },
			"serve": func(ctx context.Context) error {
				return q.Serve(ctx, func(context.Context, *zkrecipes.Item) error { return nil })
			},
			"list": func(ctx context.Context) error {
				for _, err := range q.Items(ctx) {
					return err
				}
				return nil
			},
		}
	},
}

func guardedBarrier(m recipetest.BarrierCase) guardedRecipe {
	return guardedRecipe{
		name: m.Name,
		use: func(t *testing.T, opts *zkrecipes.Options, path string) func() {
			c := recipetest.Dial(t, opts)
			first := m.Arrives(t, c, path)
			harness.Eventually(t, "the first member", func() bool {
				s, _ := recipetest.Core(c).Session()
				return len(s.Inspect().Watches) > 0
			})
			return func() { m.Pass(t, first, m.Arrives(t, c, path)) }
		},
		stranger: func(c *zkrecipes.Client, path string) map[string]func(context.Context) error {
			return map[string]func(context.Context) error{
				"join": func(ctx context.Context) error { return m.Try(ctx, c, path) },
			}
		},
	}
}

// IsOpen is left out: before 3.9, servers tell everybody whether a znode exists.
var guardedGate = guardedRecipe{
	name: "gate",
	use: func(t *testing.T, opts *zkrecipes.Options, path string) func() {
		g := zkrecipes.NewGate(recipetest.Dial(t, opts), path)
		require.NoError(t, g.Shut(t.Context()))
		waiter := harness.GoErr(t, g.Wait)
		return func() {
			require.True(t, waiter.Waiting())
			require.NoError(t, g.Open(t.Context()))
			waiter.Get()
		}
	},
	stranger: func(c *zkrecipes.Client, path string) map[string]func(context.Context) error {
		g := zkrecipes.NewGate(c, path)
		return map[string]func(context.Context) error{
			"open": g.Open, "wait": g.Wait, "shut another": zkrecipes.NewGate(c, zkconn.Parent(path)+"/another").Shut,
		}
	},
}

// Another identity is refused at once, whatever it tries, and nothing changes for the
// owner. All of it stands below znodes that the owner's client has created: servers let
// every client that may delete in a parent delete its empty children.
func TestRealB36OtherIdentitiesAreRefused(t *testing.T) {
	all := []guardedRecipe{guardedQueue, guardedGate}
	for _, s := range recipetest.Sides {
		all = append(all, guardedLock(s))
	}
	for _, m := range recipetest.BothBarriers {
		all = append(all, guardedBarrier(m))
	}
	alice := &zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("alice:secret")}}}
	strangers := map[string]*zkrecipes.Client{
		"no credentials": recipetest.Dial(t, nil),
		"another user":   recipetest.Dial(t, &zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("mallory:secret")}}}),
		"wrong password": recipetest.Dial(t, &zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("alice:guess")}}}),
	}
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			path := recipetest.OwnPath(t)
			goOn := g.use(t, alice, path)
			for who, c := range strangers {
				for what, try := range g.stranger(c, path) {
					err := try(harness.Within(t, 10*time.Second))
					require.ErrorIs(t, err, zk.ErrNoAuth, "%s: %s", who, what)
				}
				recipetest.RequireUsable(t, c)
			}
			goOn()
		})
	}
}

// Another identity that knows the holder's znode can neither end the lease, nor use its
// guard, nor read or change what it protects.
func TestRealB36OtherIdentitiesCannotTouchALease(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		alice, path := recipetest.Dial(t, &zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("alice:secret")}}}), recipetest.OwnPath(t)
		l := recipetest.Held(t, r.Ours(alice, path).Lock)
		_, err := l.Commit(r.Ctx, zkrecipes.OpCreate(path+"-data", []byte("private"), 0, nil))
		require.NoError(t, err)
		place, own := l.Check(), recipetest.Held(t, r.M.Lock)
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, zk.ErrNoAuth)
		}
		refused(r.Raw.Delete(place.Path, -1))
		_, err = r.Raw.Set(place.Path, []byte("released"), -1)
		refused(err)
		_, err = r.Raw.SetACL(place.Path, zk.WorldACL(zk.PermAll), -1)
		refused(err)
		_, _, err = r.Raw.Get(place.Path)
		refused(err)
		_, err = r.Raw.Multi(place, &zk.CreateRequest{Path: r.Path + "-stolen", Acl: zk.WorldACL(zk.PermAll)})
		refused(err)
		_, _, err = own.Get(r.Ctx, path+"-data")
		refused(err)
		_, _, err = own.Children(r.Ctx, path)
		refused(err)
		_, err = own.Commit(r.Ctx, zkrecipes.OpSet(path+"-data", nil, -1))
		refused(err)
		require.NoError(t, own.Release())
		_, err = l.Commit(r.Ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}
