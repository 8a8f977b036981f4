package zkrecipes

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Who may write to what the library creates.

// holdings take something of each recipe, whose znodes nobody else may write.
var holdings = map[string]func(t *testing.T, c *Client, path string) (paths []string){
	"place": func(t *testing.T, c *Client, path string) []string {
		return []string{path, held(t, NewMutex(c, path).Lock).Check().Path}
	},
	"claim": func(t *testing.T, c *Client, path string) []string {
		q := NewQueue(c, path, nil)
		putOn(t, q, "x")
		it := takeOn(t, q)
		return []string{path + "/s", it.takenItem.Claim.Path, it.takenItem.Claim.Exclusion(), it.takenItem.Claim.Item}
	},
	"slot": func(t *testing.T, c *Client, path string) []string {
		return []string{path, acquire(t, NewSemaphore(c, path, 2), 1).Checks()[0].Path}
	},
	"leader": func(t *testing.T, c *Client, path string) []string {
		campaigns(t, NewElection(c, path), "a")
		return []string{path + election.LeaderName}
	},
	"member": func(t *testing.T, c *Client, path string) []string {
		waitLater(t, NewBarrier(c, path, 2))
		synctest.Wait()
		return []string{path, path + "/round", path + "/round/ready"}
	},
}

func TestB90WritesOfOthersAreRefused(t *testing.T) {
	alice := credentials()
	for name, tt := range map[string]struct {
		opts      *Options
		strangers map[string][]Auth
	}{
		"without credentials": {&Options{}, map[string][]Auth{"an operator": nil, "a user": alice}},
		"with credentials": {&Options{Auth: alice}, map[string][]Auth{
			"an operator":            nil,
			"the library's constant": {{"digest", zkconn.Identity(wire.Credential{}).Auth}},
			"another user":           {{"digest", []byte("bob:secret")}},
			"the user by hand":       alice,
		}},
	} {
		for what, hold := range holdings {
			t.Run(name+"/"+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					paths := hold(t, w.stranger(tt.opts), w.path)
					for stranger, auth := range tt.strangers {
						conn := w.bare()
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
	inBubble(t, func(t *testing.T, w *world) {
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		_, err := w.insider().Set(l.Check().Path, []byte("released"), -1)
		require.NoError(t, err)
	})
}

// Two users whom Options.ACL names share a path. Either may write what the other creates,
// so no farewell is believed, and a hand-off costs the successor a listing.
func TestClientsWithDifferentCredentialsShareAPath(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	as := &Options{Auth: []Auth{{"digest", []byte("a:1")}}, ACL: acl}
	bs := &Options{Auth: []Auth{{"digest", []byte("b:2")}}, ACL: acl}
	for recipe, cycle := range cycles {
		t.Run(recipe, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				cycle(t, w.stranger(as), w.stranger(bs), w.path)
				cycle(t, w.stranger(bs), w.stranger(as), w.path)
			})
		})
	}
	t.Run("costs", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			a, b := NewMutex(w.client(as), w.path), NewMutex(w.client(bs), w.path)
			require.Equal(t, map[string]int{opJoin: 1, opReadRelease: 1}, w.requests(func() { lockAndRelease(t, a) }))
			l := lockOn(t, a)
			next := lockLater(t, b)
			handedOver := w.requests(func() { require.NoError(t, l.Release()); l = next.Get() })
			require.Equal(t, map[string]int{opReadRelease: 1, "getChildren2": 1}, handedOver)
			require.NoError(t, l.Release())
		})
	})
}

// In a line that another library has made, the places bear its list. Others may write to
// them, so no farewell is sent or believed.
func TestB47WritesInALineOfAnotherLibrarysAreNoHandOff(t *testing.T) {
	for name, data := range map[string]string{"Curator's container": "", "a user's znode": "mine"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				conn := w.bare()
				_, err := conn.CreateContainer(w.path, []byte(data), zk.FlagContainer, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				l := lockOn(t, NewMutex(w.client(nil), w.path))
				require.False(t, w.line()[0].Signals())
				a := w.lockLater(w.stranger(nil))
				_, err = conn.Set(l.Check().Path, []byte("released"), -1)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				require.True(t, a.Waiting())
				require.NoError(t, l.Err())
				handedOver := w.requests(func() { require.NoError(t, l.Release()); a.Get() })
				require.Equal(t, map[string]int{opReadRelease: 1, "getChildren2": 1}, handedOver)
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
			inBubble(t, func(t *testing.T, w *world) {
				c, conn := w.client(nil), w.bare()
				change(t, conn, w.path)
				for range 3 {
					lockAndRelease(t, NewMutex(c, w.path))
				}
				given := w.srv.Counts().NewACLs
				for _, c := range []*Client{c, w.stranger(nil)} {
					l := lockOn(t, NewMutex(c, w.path))
					acl, _, err := conn.GetACL(l.Check().Path)
					require.NoError(t, err)
					require.Equal(t, zk.WorldACL(zk.PermAll), acl)
					require.NoError(t, l.Release())
				}
				require.Equal(t, given, w.srv.Counts().NewACLs)
				data := w.dataAt(w.path)
				require.False(t, strings.Contains(data, line.SealPrefix), data)
			})
		})
	}
}

func (w *world) dataAt(path string) string {
	data, _, err := w.bare().Get(path)
	require.NoError(w.t, err)
	return string(data)
}

func lockAndRelease(t *testing.T, m *Mutex) {
	t.Helper()
	require.NoError(t, m.Do(harness.Within(t, time.Minute), nothing))
}

// A znode that a user has made with the ACL that Options.ACL names is the user's, and stays.
func TestB107ZnodeOfAUserWithTheSameACLStays(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	inBubble(t, func(t *testing.T, w *world) {
		conn := w.bare()
		require.NoError(t, conn.AddAuth("digest", []byte("a:1")))
		_, err := conn.Create(w.path, nil, 0, acl)
		require.NoError(t, err)
		w.client(&Options{Auth: []Auth{{"digest", []byte("a:1")}}, ACL: acl})
		time.Sleep(10 * time.Minute)
		_, _, err = conn.Get(w.path)
		require.NoError(t, err)
	})
}

// One client has a credential more than the other. Either may write what the other creates.
func TestClientsShareAPathOfWhichOneKnowsMoreCredentials(t *testing.T) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	one := &Options{ACL: acl, Auth: []Auth{{"digest", []byte("a:1")}}}
	both := &Options{ACL: acl, Auth: []Auth{{"digest", []byte("a:1")}, {"digest", []byte("b:2")}}}
	for recipe, cycle := range cycles {
		t.Run(recipe, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				cycle(t, w.stranger(both), w.stranger(one), "/x")
				cycle(t, w.stranger(one), w.stranger(both), "/x")
				cycle(t, w.stranger(one), w.stranger(both), "/y")
			})
		})
	}
}

// While a password is being changed, some processes have the old credentials alone and
// others have both. Paths of either work for all.
func TestClientsShareAPathWhileAPasswordIsChanged(t *testing.T) {
	before, after := Auth{"digest", []byte("app:old")}, Auth{"digest", []byte("app:new")}
	olds, boths := &Options{Auth: []Auth{before}}, &Options{Auth: []Auth{before, after}}
	for recipe, cycle := range cycles {
		t.Run(recipe, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				for _, path := range []string{"/old", "/both"} {
					first, second := w.stranger(olds), w.stranger(boths)
					if path == "/both" {
						first, second = second, first
					}
					cycle(t, first, first, path) // makes it
					cycle(t, first, second, path)
					cycle(t, second, first, path)
					for _, c := range []*Client{first, second} {
						s, _ := c.client.Session()
						require.True(t, s.IsOwner(), "the identity is lost")
					}
				}
			})
		})
	}
}
