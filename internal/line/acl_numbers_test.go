package line_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Servers give each distinct ACL a number, and free it with the last znode that has the
// ACL. Where numbers come and go, a server that is killed may never start again. So what
// the library creates bears one list for as long as a path stands.

// cycles use each recipe once, from start to end, with two clients.
var cycles = map[string]func(t *testing.T, a, b *zkrecipes.Client, path string){
	"mutex": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		handOver(t, recipetest.Mutex(a, path), recipetest.Mutex(b, path))
	},
	"writers": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		handOver(t, recipetest.Writer(a, path), recipetest.Writer(b, path))
	},
	"readers": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		handOver(t, recipetest.Writer(a, path), recipetest.Reader(b, path))
	},
	"kept lock": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		handOver(t, zkrecipes.NewMutex(a, path, zkrecipes.KeepFor(time.Minute)), recipetest.Mutex(b, path))
	},
	"downgrade": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		l := recipetest.Held(t, zkrecipes.NewRWLock(a, path).Lock)
		require.NoError(t, l.Downgrade(t.Context()))
		require.NoError(t, l.Release())
	},
	"semaphore": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		l := recipetest.Acquire(t, zkrecipes.NewSemaphore(a, path, 2), 2)
		waiter := recipetest.AcquireLater(t, zkrecipes.NewSemaphore(b, path, 2), 1)
		synctest.Wait()
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, waiter.Get())
	},
	"election": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		term := recipetest.Campaigns(t, zkrecipes.NewElection(a, path), "a")
		next := recipetest.CampaignLater(t, zkrecipes.NewElection(b, path), "b")
		require.NoError(t, term.Proclaim(t.Context(), []byte("again")))
		require.NoError(t, term.Resign())
		require.NoError(t, next.Get().Resign())
	},
	"queue": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		q := zkrecipes.NewQueue(a, path, &zkrecipes.QueueOptions{MaxLen: 1000})
		recipetest.PutOn(t, q, "alone")
		for range 5 { // several segments
			recipetest.PutAllOn(t, q, 0, 50)
		}
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		mine := zkrecipes.NewQueue(b, path, nil)
		for range 25 {
			items, err := mine.TakeN(t.Context(), 10)
			require.NoError(t, err)
			for _, it := range items {
				recipetest.AckOn(t, it)
			}
		}
		require.Len(t, recipetest.Drain(t, mine), 1)
	},
	"barrier": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		first := recipetest.WaitLater(t, zkrecipes.NewBarrier(a, path, 2))
		recipetest.Indexes(t, first, recipetest.WaitLater(t, zkrecipes.NewBarrier(b, path, 2)))
	},
	"double barrier": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(a, path, 2)), recipetest.Enter(t, zkrecipes.NewDoubleBarrier(b, path, 2)))...)
	},
	"gate": func(t *testing.T, a, b *zkrecipes.Client, path string) {
		require.NoError(t, zkrecipes.NewGate(a, path+"/gate").Shut(t.Context()))
		require.NoError(t, zkrecipes.NewGate(b, path+"/gate").Open(t.Context()))
	},
}

// handOver has a waiter, and one more that gives up.
func handOver(t *testing.T, first, next recipetest.Locker) {
	l := recipetest.Held(t, first.Lock)
	_, err := next.Lock(harness.Within(t, time.Second))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waiter := recipetest.Later(t, next.Lock)
	synctest.Wait()
	require.NoError(t, l.Release())
	require.NoError(t, waiter.Get().Release())
}

func TestACLsDoNotComeAndGo(t *testing.T) {
	user := zk.DigestACL(zk.PermAll, "app", "secret")
	without, with := &zkrecipes.Options{}, &zkrecipes.Options{Auth: auth("app:secret")}
	byHand := []string{"gate"} // its znode is all that there is of it, and comes and goes by hand
	for name, tt := range map[string]struct {
		opts   *zkrecipes.Options
		made   []zk.ACL // of a path that others have made; nil: this library makes it
		except []string
	}{
		"without credentials":           {without, nil, nil},
		"with credentials":              {with, nil, nil},
		"shared with another user":      {&zkrecipes.Options{Auth: auth("app:secret"), ACL: append(zk.DigestACL(zk.PermAll, "b", "b"), user...)}, nil, nil},
		"in another library's znode":    {without, zk.WorldACL(zk.PermAll), byHand},
		"in a user's znode":             {with, user, byHand},
		"in another library's, as user": {with, zk.WorldACL(zk.PermAll), byHand},
		// A list that does not let clients see the ids. A documented limit: one number for each
		// term or round.
		"hidden": {with, zk.DigestACL(zk.PermAll&^zk.PermAdmin, "app", "secret"), []string{"gate", "election", "barrier"}},
	} {
		for recipe, cycle := range cycles {
			if slices.Contains(tt.except, recipe) {
				continue
			}
			t.Run(name+"/"+recipe, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					if tt.made != nil {
						_, err := w.Bare().CreateContainer("/line", nil, zk.FlagContainer, tt.made)
						require.NoError(t, err)
					}
					w.GivesNoNumbers(tt.opts, cycle)
				})
			})
		}
	}
	t.Run("in a barrier made by hand", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			_, err := w.Bare().Create("/line", []byte("2"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			w.GivesNoNumbers(nil, cycles["barrier"])
		})
	})
}

// Between two joins of a client that knows the line, another library makes it anew, or an
// operator changes its ACL. One join does not know it yet, and then the places bear the
// line's list.
func TestAnACLThatChangedIsNoticedAtTheNextJoin(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(t *testing.T, conn *zk.Conn, path string){
		"made anew by another library": func(t *testing.T, conn *zk.Conn, path string) {
			require.NoError(t, conn.Delete(path, -1))
			_, err := conn.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		},
		"changed by an operator": func(t *testing.T, conn *zk.Conn, path string) {
			_, err := conn.SetACL(path, zk.WorldACL(zk.PermAll), -1)
			require.NoError(t, err)
		},
	}, func(t *testing.T, w *recipetest.World, change func(t *testing.T, conn *zk.Conn, path string)) {
		c, conn := w.Client(nil), w.Bare()
		change(t, conn, w.Path)
		for range 3 {
			require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing))
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
		require.NotContains(t, w.Text(w.Path), layout.FingerprintPrefix)
	})
}

// Paths that either client has made work for both.
func TestClientsWithDifferentCredentialsShareAPath(t *testing.T) {
	both := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	for name, tt := range map[string]struct {
		acl           []zk.ACL
		first, second []zkrecipes.Auth
	}{
		"two users whom Options.ACL names":   {both, auth("a:1"), auth("b:2")},
		"one user has a credential more":     {both, auth("a:1"), auth("a:1", "b:2")},
		"while a user's password is changed": {nil, auth("app:old"), auth("app:old", "app:new")},
	} {
		for recipe, cycle := range cycles {
			t.Run(name+"/"+recipe, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					first := w.Stranger(&zkrecipes.Options{Auth: tt.first, ACL: tt.acl})
					second := w.Stranger(&zkrecipes.Options{Auth: tt.second, ACL: tt.acl})
					cycle(t, first, second, "/made-by-first")
					cycle(t, second, first, "/made-by-first")
					if tt.acl == nil { // what second makes in a tree of its own has both ids
						return
					}
					cycle(t, second, first, "/made-by-second")
					cycle(t, first, second, "/made-by-second")
				})
			})
		}
	}
}
