package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Servers give each distinct ACL a number, and free it with the last znode that has the
// ACL. Where numbers come and go, a server that is killed may never start again. So what
// the library creates bears one list for as long as a path stands.

// cycles use each recipe once, from start to end, with two clients.
var cycles = map[string]func(t *testing.T, a, b *Client, path string){
	"mutex":   func(t *testing.T, a, b *Client, path string) { handOver(t, mutex(a, path), mutex(b, path)) },
	"writers": func(t *testing.T, a, b *Client, path string) { handOver(t, writer(a, path), writer(b, path)) },
	"readers": func(t *testing.T, a, b *Client, path string) { handOver(t, writer(a, path), reader(b, path)) },
	"kept lock": func(t *testing.T, a, b *Client, path string) {
		handOver(t, NewMutex(a, path, KeepFor(time.Minute)), mutex(b, path))
	},
	"downgrade": func(t *testing.T, a, b *Client, path string) {
		rw := NewRWLock(a, path)
		l := held(t, rw.Lock)
		require.NoError(t, rw.Downgrade(t.Context(), l))
		require.NoError(t, l.Release())
	},
	"semaphore": func(t *testing.T, a, b *Client, path string) {
		l := acquire(t, NewSemaphore(a, path, 2), 2)
		waiter := acquireLater(t, NewSemaphore(b, path, 2), 1)
		synctest.Wait()
		releaseSlots(t, l)
		releaseSlots(t, waiter.Get())
	},
	"election": func(t *testing.T, a, b *Client, path string) {
		term := campaigns(t, NewElection(a, path), "a")
		next := campaignLater(t, NewElection(b, path), "b")
		require.NoError(t, term.Proclaim(t.Context(), []byte("again")))
		require.NoError(t, term.Resign())
		require.NoError(t, next.Get().Resign())
	},
	"queue": func(t *testing.T, a, b *Client, path string) {
		q := NewQueue(a, path, &QueueOptions{MaxLen: 1000})
		for i := range 250 { // several segments
			putOn(t, q, fmt.Sprint(i))
		}
		nackOn(t, takeOn(t, q))
		require.Len(t, drain(t, NewQueue(b, path, nil)), 250)
	},
	"barrier": func(t *testing.T, a, b *Client, path string) {
		first := waitLater(t, NewBarrier(a, path, 2))
		indexes(t, first, waitLater(t, NewBarrier(b, path, 2)))
	},
	"double barrier": func(t *testing.T, a, b *Client, path string) {
		leaveAll(t, visits(t, enter(t, NewDoubleBarrier(a, path, 2)), enter(t, NewDoubleBarrier(b, path, 2)))...)
	},
	"gate": func(t *testing.T, a, b *Client, path string) {
		require.NoError(t, NewGate(a, path+"/gate").Shut(t.Context()))
		require.NoError(t, NewGate(b, path+"/gate").Open(t.Context()))
	},
}

// handOver has a waiter, and one more that gives up.
func handOver(t *testing.T, first, next locker) {
	l := held(t, first.Lock)
	_, err := next.Lock(harness.Within(t, time.Second))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waiter := later(t, next.Lock)
	synctest.Wait()
	require.NoError(t, l.Release())
	require.NoError(t, waiter.Get().Release())
}

// givesNoNumbers uses a recipe again and again, by new sessions each time.
func (w *world) givesNoNumbers(opts *Options, cycle func(t *testing.T, a, b *Client, path string)) {
	w.t.Helper()
	round := func() {
		a, b := w.stranger(opts), w.stranger(opts)
		cycle(w.t, a, b, w.path)
		require.NoError(w.t, a.Close())
		require.NoError(w.t, b.Close())
	}
	round()
	known, given := w.srv.ACLs(), w.srv.Counts().NewACLs
	for range 5 {
		round()
	}
	require.Equal(w.t, known, w.srv.ACLs(), "distinct lists")
	require.Equal(w.t, given, w.srv.Counts().NewACLs, "numbers given")
}

func TestB89ACLsDoNotComeAndGo(t *testing.T) {
	user := zk.DigestACL(zk.PermAll, "app", "secret")
	for name, tt := range map[string]struct {
		opts *Options
		made []zk.ACL // of a path that another library has made; nil: this one makes it
	}{
		"without credentials":           {&Options{}, nil},
		"with credentials":              {&Options{Auth: credentials()}, nil},
		"shared with another user":      {&Options{Auth: credentials(), ACL: append(zk.DigestACL(zk.PermAll, "b", "b"), user...)}, nil},
		"in another library's znode":    {&Options{}, zk.WorldACL(zk.PermAll)},
		"in a user's znode":             {&Options{Auth: credentials()}, user},
		"in another library's, as user": {&Options{Auth: credentials()}, zk.WorldACL(zk.PermAll)},
	} {
		for recipe, cycle := range cycles {
			if tt.made != nil && recipe == "gate" {
				continue // its znode is all that there is of it, and comes and goes by hand
			}
			t.Run(name+"/"+recipe, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					if tt.made != nil {
						_, err := w.bare().CreateContainer("/line", nil, zk.FlagContainer, tt.made)
						require.NoError(t, err)
					}
					w.givesNoNumbers(tt.opts, cycle)
				})
			})
		}
	}
}

// As TestB89ACLsDoNotComeAndGo, for paths made by others with lists that do not let clients
// see the ids, or write.
func TestB89ACLsDoNotComeAndGoInPathsOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		opts *Options
		made []zk.ACL
	}{
		"hidden":   {&Options{Auth: credentials()}, zk.DigestACL(zk.PermAll&^zk.PermAdmin, "app", "secret")},
		"no write": {&Options{}, zk.WorldACL(zk.PermAll &^ zk.PermWrite)},
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
				inBubble(t, func(t *testing.T, w *world) {
					_, err := w.bare().CreateContainer("/line", nil, zk.FlagContainer, tt.made)
					require.NoError(t, err)
					w.givesNoNumbers(tt.opts, cycle)
				})
			})
		}
	}
}

// A barrier's path that an operator has made with its n (Version 0, with data).
func TestB89ACLsDoNotComeAndGoInABarrierMadeByHand(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.bare().Create("/line", []byte("2"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		w.givesNoNumbers(nil, cycles["barrier"])
	})
}
