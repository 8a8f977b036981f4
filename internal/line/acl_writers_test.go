package line_test

import (
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
)

// Who may write to what the library creates.

// holdings take something of each recipe, whose znodes nobody else may write.
var holdings = map[string]func(t *testing.T, c *zkrecipes.Client, path string) (paths []string){
	"place": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		return []string{path, recipetest.Held(t, zkrecipes.NewMutex(c, path).Lock).Check().Path}
	},
	"claim": func(t *testing.T, c *zkrecipes.Client, path string) []string {
		q := zkrecipes.NewQueue(c, path, nil)
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		return []string{path + "/s", recipetest.TakenOf(it).Claim.Path, recipetest.TakenOf(it).Claim.Exclusion(), recipetest.TakenOf(it).Claim.Item}
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

func TestB90WritesOfOthersAreRefused(t *testing.T) {
	alice := credentials()
	for name, tt := range map[string]struct {
		opts      *zkrecipes.Options
		strangers map[string][]zkrecipes.Auth
	}{
		"without credentials": {&zkrecipes.Options{}, map[string][]zkrecipes.Auth{"an operator": nil, "a user": alice}},
		"with credentials": {&zkrecipes.Options{Auth: alice}, map[string][]zkrecipes.Auth{
			"an operator":            nil,
			"the library's constant": {{Scheme: "digest", Data: zkconn.Identity(wire.Credential{}).Auth}},
			"another user":           {{Scheme: "digest", Data: []byte("bob:secret")}},
			"the user by hand":       alice,
		}},
	} {
		for what, hold := range holdings {
			t.Run(name+"/"+what, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					paths := hold(t, w.Stranger(tt.opts), w.Path)
					for stranger, auth := range tt.strangers {
						conn := w.Bare()
						for _, a := range auth {
							require.NoError(t, conn.AddAuth(a.Scheme, a.Data))
						}
						for _, path := range paths {
							_, err := conn.Set(path, []byte("released"), -1)
							require.ErrorIs(t, err, zk.ErrNoAuth, "%s writes %s", stranger, path)
						}
					}
				})
			})
		}
	}
}

// Without credentials, a client that presents the library's constant on purpose is taken
// for the library. That is a documented limit.
func TestB90WithoutCredentialsTheConstantMayWrite(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		_, err := w.Insider().Set(l.Check().Path, []byte("released"), -1)
		require.NoError(t, err)
	})
}

// Two users whom Options.ACL names share a path. Either may write what the other creates,
// so no farewell is believed, and a hand-off costs the successor a listing.
func TestClientsWithDifferentCredentialsShareAPath(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	as := &zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("a:1")}}, ACL: acl}
	bs := &zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("b:2")}}, ACL: acl}
	for recipe, cycle := range cycles {
		t.Run(recipe, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				cycle(t, w.Stranger(as), w.Stranger(bs), w.Path)
				cycle(t, w.Stranger(bs), w.Stranger(as), w.Path)
			})
		})
	}
}

// In a line that another library has made, the places bear its list. Others may write to
// them, so no farewell is sent or believed.
func TestB47WritesInALineOfAnotherLibrarysAreNoHandOff(t *testing.T) {
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

// Between two joins of a client that knows the line, another library makes it anew, or an
// operator changes its ACL. One join does not know it yet, and then the places bear the
// line's list.
func TestB89ListThatChangedIsNoticedAtTheNextJoin(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, conn *zk.Conn, path string){
		"made anew by another library": func(t *testing.T, conn *zk.Conn, path string) {
			require.NoError(t, conn.Delete(path, -1))
			_, err := conn.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		},
		"changed by an operator": func(t *testing.T, conn *zk.Conn, path string) {
			_, err := conn.SetACL(path, zk.WorldACL(zk.PermAll), -1)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c, conn := w.Client(nil), w.Bare()
				change(t, conn, w.Path)
				for range 3 {
					lockAndRelease(t, zkrecipes.NewMutex(c, w.Path))
				}
				given := w.Srv.Counts().NewACLs
				for _, c := range []*zkrecipes.Client{c, w.Stranger(nil)} {
					l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
					acl, _, err := conn.GetACL(l.Check().Path)
					require.NoError(t, err)
					require.Equal(t, zk.WorldACL(zk.PermAll), acl)
					require.NoError(t, l.Release())
				}
				require.Equal(t, given, w.Srv.Counts().NewACLs)
				data := w.DataAt(w.Path)
				require.False(t, strings.Contains(data, layout.SealPrefix), data)
			})
		})
	}
}

func lockAndRelease(t *testing.T, m *zkrecipes.Mutex) {
	t.Helper()
	require.NoError(t, m.Do(harness.Within(t, time.Minute), recipetest.Nothing))
}

// A znode that a user has made with the ACL that Options.ACL names is the user's, and stays.
func TestB107ZnodeOfAUserWithTheSameACLStays(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		conn := w.Bare()
		require.NoError(t, conn.AddAuth("digest", []byte("a:1")))
		_, err := conn.Create(w.Path, nil, 0, acl)
		require.NoError(t, err)
		w.Client(&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("a:1")}}, ACL: acl})
		time.Sleep(10 * time.Minute)
		_, _, err = conn.Get(w.Path)
		require.NoError(t, err)
	})
}

// One client has a credential more than the other. Either may write what the other creates.
func TestClientsShareAPathOfWhichOneKnowsMoreCredentials(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	one := &zkrecipes.Options{ACL: acl, Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("a:1")}}}
	both := &zkrecipes.Options{ACL: acl, Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("a:1")}, {Scheme: "digest", Data: []byte("b:2")}}}
	for recipe, cycle := range cycles {
		t.Run(recipe, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				cycle(t, w.Stranger(both), w.Stranger(one), "/x")
				cycle(t, w.Stranger(one), w.Stranger(both), "/x")
				cycle(t, w.Stranger(one), w.Stranger(both), "/y")
			})
		})
	}
}

// While a password is being changed, some processes have the old credentials alone and
// others have both. Paths of either work for all.
func TestClientsShareAPathWhileAPasswordIsChanged(t *testing.T) {
	before, after := zkrecipes.Auth{Scheme: "digest", Data: []byte("app:old")}, zkrecipes.Auth{Scheme: "digest", Data: []byte("app:new")}
	olds, boths := &zkrecipes.Options{Auth: []zkrecipes.Auth{before}}, &zkrecipes.Options{Auth: []zkrecipes.Auth{before, after}}
	for recipe, cycle := range cycles {
		t.Run(recipe, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				for _, path := range []string{"/old", "/both"} {
					first, second := w.Stranger(olds), w.Stranger(boths)
					if path == "/both" {
						first, second = second, first
					}
					cycle(t, first, first, path) // makes it
					cycle(t, first, second, path)
					cycle(t, second, first, path)
					for _, c := range []*zkrecipes.Client{first, second} {
						s, _ := recipetest.Core(c).Session()
						require.True(t, s.IsOwner(), "the identity is lost")
					}
				}
			})
		})
	}
}
