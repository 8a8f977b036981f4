package line_test

import (
	"context"
	"crypto"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Who may use, read, write and delete what the library creates.

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

// B36: Another identity is refused at once, whatever it tries, and nothing changes for the
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

// B36: Another identity that knows the holder's znode can neither end the lease, nor use its
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

// A18
func TestRealACLsAreSetOnLineAndPlaces(t *testing.T) {
	for name, acl := range map[string][]zk.ACL{
		"default with credentials": nil, "given": zk.DigestACL(zk.PermAll, "alice", "secret"), "scheme auth": zk.AuthACL(zk.PermAll),
	} {
		t.Run(name, func(t *testing.T) {
			path, user, opts := harness.NewPath(t), harness.Raw(t), &zkrecipes.Options{Auth: auth("alice:secret"), ACL: acl}
			require.NoError(t, user.AddAuth("digest", []byte("alice:secret")))
			harness.MakeParents(t, user, "/test") // else other tests cannot use it
			l := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.Dial(t, opts), path))
			own := zk.DigestACL(zk.PermAll&^zk.PermWrite, "alice", "secret")[0]
			for _, p := range []string{path, l.Check().Path} {
				acl, _, err := user.GetACL(p)
				require.NoError(t, err)
				require.Len(t, acl, 2)
				require.Equal(t, own, acl[0])
				require.EqualValues(t, zk.PermWrite, acl[1].Perms, "the library's entry")
				require.True(t, strings.HasPrefix(acl[1].ID, "zkrecipes:"), acl[1].ID)
			}
			_, _, err := harness.Raw(t).Children(path)
			require.ErrorIs(t, err, zk.ErrNoAuth, "a client without credentials")
			require.NoError(t, l.Release())
			recipetest.Held(t, zkrecipes.NewMutex(recipetest.Dial(t, opts), path).Lock) // another client of the same user
		})
	}
}

// B36
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

		line(zk.PermAll &^ zk.PermWrite) // which is not needed
		l := w.Holds(c)
		a := w.RivalWaits(w.Stranger(nil))
		require.True(t, a.Waiting())
		_, stat, err := admin.Get(l.Check().Path)
		require.NoError(t, err)
		require.Equal(t, recipetest.NewToken(stat.Czxid, 0), l.Token())
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.Empty(t, w.Text(w.Path))

		l = recipetest.Held(t, line(zk.PermAll&^zk.PermDelete).Lock)
		require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
		time.Sleep(time.Minute)
		s, _ := recipetest.Core(c).Session()
		require.True(t, s.IsOwner(), "a deletion that is refused says nothing about the identity")
		require.NotEmpty(t, w.Line())
		require.NoError(t, c.Close()) // the server deletes the place with the session
		require.Empty(t, w.Line())
	})
}

// holdings take something of each recipe, whose znodes nobody else may write.
var holdings = map[string]func(t *testing.T, c *zkrecipes.Client, path string) (paths []string){
	"place": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		return []string{path, recipetest.Held(t, zkrecipes.NewMutex(c, path).Lock).Check().Path}
	},
	"claim": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		q := zkrecipes.NewQueue(c, path, nil)
		recipetest.PutOn(t, q, "x")
		claim := recipetest.TakenOf(recipetest.TakeOn(t, q)).Claim
		return []string{path + "/s", claim.Path, claim.Exclusion(), claim.Item}
	},
	"slot": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		return []string{path, recipetest.Acquire(t, zkrecipes.NewSemaphore(c, path, 2), 1).Checks()[0].Path}
	},
	"leader": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		recipetest.Campaigns(t, zkrecipes.NewElection(c, path), "a")
		return []string{path + election.LeaderName}
	},
	"member": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 2))
		synctest.Wait()
		return []string{path, path + "/round", path + "/round/ready"}
	},
}

// B90: Without credentials, a client that presents the library's constant on purpose is taken
// for the library. That is a documented limit.
func TestWritesOfOthersAreRefused(t *testing.T) {
	alice := auth("app:secret")
	constant := []zkrecipes.Auth{{Scheme: "digest", Data: zkconn.Identity(wire.Credential{}).Auth}}
	for name, tt := range map[string]struct {
		auth      []zkrecipes.Auth
		strangers map[string][]zkrecipes.Auth
		may       []zkrecipes.Auth
	}{
		"without credentials": {nil, map[string][]zkrecipes.Auth{"an operator": nil, "a user": alice}, constant},
		"with credentials": {alice, map[string][]zkrecipes.Auth{
			"an operator": nil, "the library's constant": constant, "another user": auth("bob:secret"), "the user by hand": alice,
		}, nil},
	} {
		for what, hold := range holdings {
			t.Run(name+"/"+what, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					paths := hold(t, w.Stranger(&zkrecipes.Options{Auth: tt.auth}), w.Path)
					write := func(by []zkrecipes.Auth, path string) error {
						conn := w.Bare()
						for _, a := range by {
							require.NoError(t, conn.AddAuth(a.Scheme, a.Data))
						}
						_, err := conn.Set(path, []byte("released"), -1)
						return err
					}
					for _, path := range paths {
						for stranger, auth := range tt.strangers {
							require.ErrorIs(t, write(auth, path), zk.ErrNoAuth, "%s writes %s", stranger, path)
						}
						if tt.may != nil {
							require.NoError(t, write(tt.may, path))
						}
					}
				})
			})
		}
	}
}

// B47: In a line that another library has made, the places bear its list. Others may write to
// them, so no farewell is sent or believed.
func TestWritesInALineOfAnotherLibrarysAreNoHandOff(t *testing.T) {
	for name, data := range map[string]string{"Curator's container": "", "a user's znode": "mine"} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				conn := w.Bare()
				_, err := conn.CreateContainer(w.Path, []byte(data), zk.FlagContainer, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
				require.False(t, w.Line()[0].Signals())
				a := w.LockLater(w.Stranger(nil))
				_, err = conn.Set(l.Check().Path, []byte("released"), -1)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				require.True(t, a.Waiting())
				require.NoError(t, l.Err())
				handedOver := w.Requests(func() { require.NoError(t, l.Release()); a.Get() })
				require.Equal(t, 1, handedOver["getChildren2"], "it lists")
				require.Zero(t, handedOver[recipetest.OpRelease], "no farewell")
			})
		})
	}
}

// B48: A znode that others have made in the line's place, which lets all join and nobody write,
// stays as it is, and does not cost the client its identity.
func TestAnotherZnodeInTheLinesPlaceStaysAsItIs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, raw := w.Client(nil), w.Bare()
		require.NoError(t, w.Insider().Delete(w.Path, -1))
		noWrite := zk.WorldACL(zk.PermAll &^ zk.PermWrite)
		_, err := raw.CreateContainer(w.Path, []byte("an operator's"), zk.FlagContainer, noWrite)
		require.NoError(t, err)
		require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Release())
		require.Equal(t, "an operator's", w.Text(w.Path))
		acl, _, err := raw.GetACL(w.Path)
		require.NoError(t, err)
		require.Equal(t, noWrite, acl)
		s, _ := recipetest.Core(c).Session()
		require.True(t, s.IsOwner())
	})
}

// A line that this library has created as a parent.
func TestLineThatWasAParentSignals(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		require.NoError(t, zkrecipes.NewMutex(c, w.Path+"/below").Do(t.Context(), recipetest.Nothing))
		require.NoError(t, w.Insider().Delete(w.Path+"/below", -1))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		next := w.LockLater(w.Stranger(nil))
		for _, m := range w.Line() {
			require.True(t, m.Signals(), m.Name)
		}
		require.Zero(t, w.Requests(func() { require.NoError(t, l.Release()); next.Get() })["getChildren2"])
	})
}

// A client that has no identity takes away the seal. The next one puts it back.
func TestSealComesBack(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Client(nil)
		_, err := w.Insider().Set(w.Path, []byte("zkrecipes/1 mutex"), -1) // as by a client on a server without digests
		require.NoError(t, err)
		d := zkrecipes.NewMutex(w.Stranger(nil), w.Path)
		for range 3 {
			require.NoError(t, d.Do(t.Context(), recipetest.Nothing))
		}
		require.Contains(t, w.Text(w.Path), layout.SealPrefix)
	})
}

// B107: A znode that a user has made with the ACL that Options.ACL names is the user's: it
// stays.
func TestZnodeOfAUserWithTheSameACLStays(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		conn := w.Bare()
		require.NoError(t, conn.AddAuth("digest", []byte("a:1")))
		_, err := conn.Create(w.Path, nil, 0, acl)
		require.NoError(t, err)
		w.Client(&zkrecipes.Options{Auth: auth("a:1"), ACL: acl})
		time.Sleep(10 * time.Minute)
		require.True(t, w.Has(w.Path))
	})
}

// B67: ACLs do not bind a super user. A documented limit: the data that he writes to a place
// look like the holder's farewell. README says to delete a place instead.
func TestASuperUserEvictsByDeletingAPlaceAndNotByWritingToIt(t *testing.T) {
	credential := []byte("super:secret")
	for name, evict := range map[string]func(super *zk.Conn, path string) error{
		"deletes": func(super *zk.Conn, path string) error { return super.Delete(path, -1) },
		"writes":  func(super *zk.Conn, path string) error { _, err := super.Set(path, []byte("go away"), -1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				super := w.Bare()
				require.NoError(t, super.AddAuth("digest", credential))
				l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
				a := w.LockLater(w.Stranger(nil))
				time.Sleep(2 * time.Second) // the holder's place is watched by now
				require.True(t, a.Waiting())
				require.NoError(t, evict(super, l.Check().Path))
				next := a.Get()
				synctest.Wait()
				w.Stands(next)
				require.Greater(t, next.Token(), l.Token(), "a store that checks it refuses the first holder")
				if name == "deletes" {
					require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
				} else {
					w.Stands(l)
				}
			}, zktest.SuperDigest(zkconn.DigestID(crypto.SHA1, credential)))
		})
	}
}
