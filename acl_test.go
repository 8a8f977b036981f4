package zkrecipes

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Options.Auth without Options.ACL: what a client creates belongs to its identities.

// guardedRecipe is a recipe in use by its owner.
type guardedRecipe struct {
	name string
	// use begins to use the recipe at path, and returns a function that goes on.
	use func(t *testing.T, opts *Options, path string) (goOn func())
	// stranger returns what another identity may not do, by name.
	stranger func(c *Client, path string) map[string]func(context.Context) error
}

// only returns the error of a function that has another result.
func only[R any](f func(context.Context) (R, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := f(ctx)
		return err
	}
}

func guardedLock(s side) guardedRecipe {
	return guardedRecipe{
		name: s.name,
		use: func(t *testing.T, opts *Options, path string) func() {
			l := held(t, s.ours(dial(t, opts), path).Lock)
			waiter := later(t, s.theirs(dial(t, opts), path).Lock)
			return func() {
				require.NoError(t, l.Err())
				_, err := l.Commit(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Release())
				require.NoError(t, waiter.Get().Release())
			}
		},
		stranger: func(c *Client, path string) map[string]func(context.Context) error {
			m := s.ours(c, path)
			return map[string]func(context.Context) error{
				"lock": only(m.Lock), "try lock": only(m.TryLock), "list": only(m.Contenders),
				"do": func(ctx context.Context) error { return m.Do(ctx, nothing) },
			}
		},
	}
}

var guardedQueue = guardedRecipe{
	name: "queue",
	use: func(t *testing.T, opts *Options, path string) func() {
		q := NewQueue(dial(t, opts), path, nil)
		putOn(t, q, "first")
		putOn(t, q, "second")
		it := takeOn(t, q)
		return func() {
			ackOn(t, it)
			require.Equal(t, []string{"second"}, drain(t, q))
		}
	},
	stranger: func(c *Client, path string) map[string]func(context.Context) error {
		q, bounded := NewQueue(c, path, nil), NewQueue(c, path, &QueueOptions{MaxLen: 1})
		put := func(q *Queue) func(context.Context) error {
			return func(ctx context.Context) error { _, err := q.Put(ctx, nil); return err }
		}
		return map[string]func(context.Context) error{
			"put": put(q), "put with a bound": put(bounded), "take": only(q.Take), "peek": only(q.Peek), "count": only(q.Len),
			"put several": func(ctx context.Context) error { _, err := q.PutAll(ctx, nil, nil); return err },
			"serve": func(ctx context.Context) error {
				return q.Serve(ctx, func(context.Context, *Item) error { return nil })
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

func guardedBarrier(m barrierCase) guardedRecipe {
	return guardedRecipe{
		name: m.name,
		use: func(t *testing.T, opts *Options, path string) func() {
			c := dial(t, opts)
			first := m.arrives(t, c, path)
			harness.Eventually(t, "the first member", func() bool {
				s, _ := c.client.Session()
				return len(s.Inspect().Watches) > 0
			})
			return func() { m.pass(t, first, m.arrives(t, c, path)) }
		},
		stranger: func(c *Client, path string) map[string]func(context.Context) error {
			return map[string]func(context.Context) error{
				"join": func(ctx context.Context) error { return m.try(ctx, c, path) },
			}
		},
	}
}

// IsOpen is left out: before 3.9, servers tell everybody whether a znode exists.
var guardedGate = guardedRecipe{
	name: "gate",
	use: func(t *testing.T, opts *Options, path string) func() {
		g := NewGate(dial(t, opts), path)
		require.NoError(t, g.Shut(t.Context()))
		waiter := harness.GoErr(t, g.Wait)
		return func() {
			require.True(t, waiter.Waiting())
			require.NoError(t, g.Open(t.Context()))
			waiter.Get()
		}
	},
	stranger: func(c *Client, path string) map[string]func(context.Context) error {
		g := NewGate(c, path)
		return map[string]func(context.Context) error{
			"open": g.Open, "wait": g.Wait, "shut another": NewGate(c, zkconn.Parent(path)+"/another").Shut,
		}
	},
}

// ownPath returns a path whose parent does not exist, in a znode that is everybody's.
func ownPath(t *testing.T) string {
	t.Helper()
	root := harness.NewPath(t)
	harness.MakeParents(t, harness.Raw(t), root)
	return root + "/owned/recipe"
}

// Another identity is refused at once, whatever it tries, and nothing changes for the
// owner. All of it stands below znodes that the owner's client has created: servers let
// every client that may delete in a parent delete its empty children.
func TestRealB36OtherIdentitiesAreRefused(t *testing.T) {
	all := []guardedRecipe{guardedQueue, guardedGate}
	for _, s := range sides {
		all = append(all, guardedLock(s))
	}
	for _, m := range bothBarriers {
		all = append(all, guardedBarrier(m))
	}
	alice := &Options{Auth: []Auth{{Scheme: "digest", Data: []byte("alice:secret")}}}
	strangers := map[string]*Client{
		"no credentials": dial(t, nil),
		"another user":   dial(t, &Options{Auth: []Auth{{Scheme: "digest", Data: []byte("mallory:secret")}}}),
		"wrong password": dial(t, &Options{Auth: []Auth{{Scheme: "digest", Data: []byte("alice:guess")}}}),
	}
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			path := ownPath(t)
			goOn := g.use(t, alice, path)
			for who, c := range strangers {
				for what, try := range g.stranger(c, path) {
					err := try(harness.Within(t, 10*time.Second))
					require.ErrorIs(t, err, zk.ErrNoAuth, "%s: %s", who, what)
				}
				requireUsable(t, c)
			}
			goOn()
		})
	}
}

// Another identity that knows the holder's znode can neither end the lease, nor use its
// guard, nor read or change what it protects.
func TestRealB36OtherIdentitiesCannotTouchALease(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		alice, path := dial(t, &Options{Auth: []Auth{{Scheme: "digest", Data: []byte("alice:secret")}}}), ownPath(t)
		l := held(t, r.ours(alice, path).Lock)
		_, err := l.Commit(r.ctx, OpCreate(path+"-data", []byte("private"), 0, nil))
		require.NoError(t, err)
		place, own := l.Check(), held(t, r.m.Lock)
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, zk.ErrNoAuth)
		}
		refused(r.raw.Delete(place.Path, -1))
		_, err = r.raw.Set(place.Path, []byte("released"), -1)
		refused(err)
		_, err = r.raw.SetACL(place.Path, zk.WorldACL(zk.PermAll), -1)
		refused(err)
		_, _, err = r.raw.Get(place.Path)
		refused(err)
		_, err = r.raw.Multi(place, &zk.CreateRequest{Path: r.path + "-stolen", Acl: zk.WorldACL(zk.PermAll)})
		refused(err)
		_, _, err = own.Get(r.ctx, path+"-data")
		refused(err)
		_, _, err = own.Children(r.ctx, path)
		refused(err)
		_, err = own.Commit(r.ctx, OpSet(path+"-data", nil, -1))
		refused(err)
		require.NoError(t, own.Release())
		_, err = l.Commit(r.ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}
