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
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Who may use, read, write and delete what the library creates.

// auth returns digest credentials.
func auth(secrets ...string) (all []zkrecipes.Auth) {
	for _, secret := range secrets {
		all = append(all, zkrecipes.Auth{Scheme: "digest", Data: []byte(secret)})
	}
	return all
}

// only returns the error of a function that has another result.
func only[R any](f func(context.Context) (R, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := f(ctx)
		return err
	}
}

// trespasses are what another identity may not do at the path of a recipe.
func trespasses(recipe string, c *zkrecipes.Client, path string) map[string]func(context.Context) error {
	switch recipe {
	case "mutex":
		m := zkrecipes.NewMutex(c, path)
		return map[string]func(context.Context) error{
			"lock": only(m.Lock), "try lock": only(m.TryLock), "list": only(m.Contenders),
			"do": func(ctx context.Context) error { return m.Do(ctx, recipetest.Nothing) },
		}
	case "rwlock":
		m := zkrecipes.NewRWLock(c, path)
		return map[string]func(context.Context) error{
			"lock": only(m.Lock), "read": only(m.RLock), "try lock": only(m.TryLock), "try to read": only(m.TryRLock), "list": only(m.Contenders),
		}
	case "queue":
		q, bounded := zkrecipes.NewQueue(c, path, nil), zkrecipes.NewQueue(c, path, &zkrecipes.QueueOptions{MaxLen: 1})
		return map[string]func(context.Context) error{
			"take": only(q.Take), "peek": only(q.Peek), "count": only(q.Len),
			"put":              func(ctx context.Context) error { _, err := q.Put(ctx, nil); return err },
			"put with a bound": func(ctx context.Context) error { _, err := bounded.Put(ctx, nil); return err },
			"put several":      func(ctx context.Context) error { _, err := q.PutAll(ctx, nil, nil); return err },
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
	case "barrier":
		return map[string]func(context.Context) error{"wait": only(zkrecipes.NewBarrier(c, path, 1).Wait)}
	case "double barrier":
		return map[string]func(context.Context) error{"enter": only(zkrecipes.NewDoubleBarrier(c, path, 1).Enter)}
	case "gate": // without IsOpen: before 3.9, servers tell everybody whether a znode exists
		g := zkrecipes.NewGate(c, path)
		return map[string]func(context.Context) error{
			"open": g.Open, "wait": g.Wait, "shut another": zkrecipes.NewGate(c, zkconn.Parent(path)+"/another").Shut,
		}
	}
	return nil
}

// Another identity is refused at once, whatever it tries, and nothing changes for the
// owner. All of it stands below znodes that the owner's client has created: servers let
// every client that may delete in a parent delete its empty children.
func TestRealOtherIdentitiesAreRefused(t *testing.T) {
	alice := recipetest.Dial(t, &zkrecipes.Options{Auth: auth("alice:secret")})
	strangers := map[string]*zkrecipes.Client{
		"no credentials": recipetest.Dial(t, nil),
		"another user":   recipetest.Dial(t, &zkrecipes.Options{Auth: auth("mallory:secret")}),
		"wrong password": recipetest.Dial(t, &zkrecipes.Options{Auth: auth("alice:guess")}),
	}
	for recipe, use := range recipetest.Recipes {
		t.Run(recipe, func(t *testing.T) {
			path := recipetest.OwnPath(t)
			giveBack, err := use(harness.Within(t, 2*time.Minute), alice, path)
			require.NoError(t, err)
			for who, c := range strangers {
				for what, try := range trespasses(recipe, c, path) {
					require.ErrorIs(t, try(harness.Within(t, 2*time.Minute)), zk.ErrNoAuth, "%s: %s", who, what)
				}
				recipetest.RequireUsable(t, c)
			}
			require.NoError(t, giveBack())
		})
	}
}

// Another identity that knows the holder's znode can neither end the lease, nor use its
// guard, nor read or change what it protects.
func TestRealOtherIdentitiesCannotTouchALease(t *testing.T) {
	alice, mallory, raw := recipetest.Dial(t, &zkrecipes.Options{Auth: auth("alice:secret")}), recipetest.Dial(t, nil), harness.Raw(t)
	for name, lock := range map[string]func(*zkrecipes.Client, string) recipetest.Locker{"mutex": recipetest.Mutex, "reader": recipetest.Reader} {
		t.Run(name, func(t *testing.T) {
			ctx, path := harness.Within(t, 2*time.Minute), recipetest.OwnPath(t)
			l, own := recipetest.Held(t, lock(alice, path).Lock), recipetest.Held(t, lock(mallory, harness.NewPath(t)).Lock)
			_, err := l.Commit(ctx, zkrecipes.OpCreate(path+"-data", []byte("private"), 0, nil))
			require.NoError(t, err)
			place := l.Check()
			for what, try := range map[string]func() error{
				"delete": func() error { return raw.Delete(place.Path, -1) },
				"write":  func() error { _, err := raw.Set(place.Path, []byte("released"), -1); return err },
				"permit": func() error { _, err := raw.SetACL(place.Path, zk.WorldACL(zk.PermAll), -1); return err },
				"read":   func() error { _, _, err := raw.Get(place.Path); return err },
				"check": func() error {
					_, err := raw.Multi(place, &zk.CreateRequest{Path: path + "-stolen", Acl: zk.WorldACL(zk.PermAll)})
					return err
				},
				"read the data":  func() error { _, _, err := own.Get(ctx, path+"-data"); return err },
				"list":           func() error { _, _, err := own.Children(ctx, path); return err },
				"write the data": func() error { _, err := own.Commit(ctx, zkrecipes.OpSet(path+"-data", nil, -1)); return err },
			} {
				require.ErrorIs(t, try(), zk.ErrNoAuth, what)
			}
			require.NoError(t, own.Release())
			_, err = l.Commit(ctx)
			require.NoError(t, err)
			require.NoError(t, l.Release())
		})
	}
}

func TestAMissingPermissionIsAnErrorAtOnce(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		admin, c, n := w.Bare(), w.Stranger(nil), 0
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		line := func(perms int32) recipetest.Locker {
			n++
			w.Path = fmt.Sprint("/line", n)
			_, err := admin.Create(w.Path, nil, 0, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...))
			require.NoError(t, err)
			return w.Ours(c, w.Path)
		}
		refused := func(call func(context.Context) (*zkrecipes.Lease, error)) {
			t.Helper()
			_, err := call(t.Context())
			require.ErrorIs(t, err, zk.ErrNoAuth)
		}
		refused(line(zk.PermAll &^ zk.PermCreate).Lock)
		line(zk.PermRead)
		refused(w.Ours(c, w.Path+"/below").Lock)
		m := line(zk.PermAll &^ zk.PermRead)
		refused(m.Lock)
		refused(m.TryLock)

		_, err := line(zk.PermAll &^ zk.PermWrite).Lock(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "the data of "+w.Path+", which each join sets, may not be written")
		require.Empty(t, w.Line())

		l := recipetest.Held(t, line(zk.PermAll&^zk.PermDelete).Lock)
		require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
		time.Sleep(time.Minute)
		require.NotEmpty(t, w.Line())
		require.NoError(t, c.Close()) // the server deletes the place with the session
		require.Empty(t, w.Line())
	})
}
