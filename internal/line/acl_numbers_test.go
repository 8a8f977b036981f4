package line_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
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
		rw := zkrecipes.NewRWLock(a, path)
		l := recipetest.Held(t, rw.Lock)
		require.NoError(t, rw.Downgrade(t.Context(), l))
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
		for i := range 250 { // several segments
			recipetest.PutOn(t, q, fmt.Sprint(i))
		}
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		require.Len(t, recipetest.Drain(t, zkrecipes.NewQueue(b, path, nil)), 250)
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

func TestB89ACLsDoNotComeAndGo(t *testing.T) {
	user := zk.DigestACL(zk.PermAll, "app", "secret")
	for name, tt := range map[string]struct {
		opts *zkrecipes.Options
		made []zk.ACL // of a path that another library has made; nil: this one makes it
	}{
		"without credentials":           {&zkrecipes.Options{}, nil},
		"with credentials":              {&zkrecipes.Options{Auth: credentials()}, nil},
		"shared with another user":      {&zkrecipes.Options{Auth: credentials(), ACL: append(zk.DigestACL(zk.PermAll, "b", "b"), user...)}, nil},
		"in another library's znode":    {&zkrecipes.Options{}, zk.WorldACL(zk.PermAll)},
		"in a user's znode":             {&zkrecipes.Options{Auth: credentials()}, user},
		"in another library's, as user": {&zkrecipes.Options{Auth: credentials()}, zk.WorldACL(zk.PermAll)},
	} {
		for recipe, cycle := range cycles {
			if tt.made != nil && recipe == "gate" {
				continue // its znode is all that there is of it, and comes and goes by hand
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
}

// As TestB89ACLsDoNotComeAndGo, for paths made by others with lists that do not let clients
// see the ids, or write.
func TestB89ACLsDoNotComeAndGoInPathsOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		opts *zkrecipes.Options
		made []zk.ACL
	}{
		"hidden":   {&zkrecipes.Options{Auth: credentials()}, zk.DigestACL(zk.PermAll&^zk.PermAdmin, "app", "secret")},
		"no write": {&zkrecipes.Options{}, zk.WorldACL(zk.PermAll &^ zk.PermWrite)},
	} {
		for recipe, cycle := range cycles {
			switch recipe {
			case "gate", "election", "barrier": // a documented limit: one number for each term or round
				continue
			case "semaphore", "double barrier":
				if name == "no write" { // is refused
					continue
				}
			}
			t.Run(name+"/"+recipe, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					_, err := w.Bare().CreateContainer("/line", nil, zk.FlagContainer, tt.made)
					require.NoError(t, err)
					w.GivesNoNumbers(tt.opts, cycle)
				})
			})
		}
	}
}

// A barrier's path that an operator has made with its n (Version 0, with data).
func TestB89ACLsDoNotComeAndGoInABarrierMadeByHand(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		_, err := w.Bare().Create("/line", []byte("2"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		w.GivesNoNumbers(nil, cycles["barrier"])
	})
}
