package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAnErrorNamesItsOwnOperation(t *testing.T) {
	r := newRig(t, nil)
	other := NewMutex(r.c, r.path+"-other")
	l := r.lock()
	blocker := lockOn(t, other)
	ctx := l.Context(r.ctx)
	failed := make(chan error)
	go func() { _, err := other.Lock(ctx); failed <- err }()
	harness.Eventually(t, "waiting", func() bool { return len(harness.Children(t, r.raw, r.path+"-other")) == 2 })
	require.NoError(t, l.Release())
	err := <-failed
	require.EqualError(t, err, "zkrecipes: lock "+r.path+"-other: context canceled: zkrecipes: hold "+r.path+": lease released")
	require.ErrorIs(t, err, ErrReleased)
	require.NoError(t, blocker.Release())
}

func TestErrorsKeepTheirCauses(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	err := Fail("lock", "/x", zkconn.ContextErr(ctx))
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "zkrecipes: lock /x: context canceled: why")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "lock", e.Op)
	require.Equal(t, "/x", e.Path)
	require.NoError(t, Fail("lock", "/x", nil))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", Auth{"digest", []byte("u:secret")}, Auth{"digest", []byte("u:secret")}, Auth{"digest", []byte("u:secret")}), "secret")
}

// What a caller may act upon can be told apart with errors.Is.
func TestErrorsOfTheAPICanBeMatched(t *testing.T) {
	large := make([]byte, 1<<20)
	lock := func(path string) func(*testing.T, *world, *Client) error {
		return func(t *testing.T, _ *world, c *Client) error {
			_, err := NewMutex(c, path).Lock(t.Context())
			return err
		}
	}
	for _, tt := range []struct {
		name string
		want error
		call func(t *testing.T, w *world, c *Client) error
	}{
		{"invalid path", ErrInvalidPath, lock("locks")},
		{"invalid path of an operation", ErrInvalidPath, func(t *testing.T, w *world, c *Client) error {
			_, err := lockOn(t, NewMutex(c, w.path)).Commit(t.Context(), OpDelete("/a/", 0))
			return err
		}},
		{"invalid path in an option", ErrInvalidPath, func(t *testing.T, _ *world, _ *Client) error {
			_, err := Dial(t.Context(), []string{"h"}, &Options{Prefix: "app"})
			return err
		}},
		{"a line of another recipe", ErrPathInUse, func(t *testing.T, w *world, c *Client) error {
			lockOn(t, NewMutex(c, w.path))
			_, err := NewRWLock(c, w.path).RLock(t.Context())
			return err
		}},
		{"a line of another layout", ErrPathInUse, func(t *testing.T, w *world, c *Client) error {
			_, err := w.bare().Create("/other", []byte("zkrecipes/9 mutex"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return lock("/other")(t, w, c)
		}},
		{"a queue of another layout", ErrPathInUse, func(t *testing.T, w *world, c *Client) error {
			harness.MakeParents(t, w.bare(), "/other/s")
			_, err := w.insider().Set("/other/s", []byte("zkrecipes/9 queue"), -1)
			require.NoError(t, err)
			_, err = NewQueue(c, "/other", nil).Put(t.Context(), nil)
			return err
		}},
		{"a barrier's path with other data", ErrPathInUse, func(t *testing.T, w *world, c *Client) error {
			_, err := w.bare().Create("/other", []byte("not a number"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = NewBarrier(c, "/other", 2).Wait(t.Context())
			return err
		}},
		{"a double barrier on a line", ErrPathInUse, func(t *testing.T, w *world, c *Client) error {
			lockOn(t, NewMutex(c, w.path))
			_, err := NewDoubleBarrier(c, w.path, 2).Enter(t.Context())
			return err
		}},
		{"a large transaction", ErrTooLarge, func(t *testing.T, w *world, c *Client) error {
			_, err := lockOn(t, NewMutex(c, w.path)).Commit(t.Context(), OpCreate("/large", large, 0, nil))
			return err
		}},
		{"a large item", ErrTooLarge, func(t *testing.T, _ *world, c *Client) error {
			_, err := NewQueue(c, "/queue", nil).Put(t.Context(), large)
			return err
		}},
		{"an item above the queue's limit", ErrTooLarge, func(t *testing.T, _ *world, c *Client) error {
			_, err := NewQueue(c, "/queue", &QueueOptions{MaxItemBytes: 10}).Put(t.Context(), large[:11])
			return err
		}},
		{"a long path", ErrTooLarge, lock("/" + strings.Repeat("x", 1<<20))},
		{"quota", ErrQuotaExceeded, func(t *testing.T, w *world, c *Client) error {
			w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: "multi"})
			return lock(w.path)(t, w, c)
		}},
		{"quota of the parents", ErrQuotaExceeded, func(t *testing.T, w *world, c *Client) error {
			w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Path: "/new"})
			return lock("/new/lock")(t, w, c)
		}},
		{"contended", ErrContended, func(t *testing.T, w *world, c *Client) error {
			w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "multi", Times: -1})
			return lock(w.path)(t, w, c)
		}},
		{"Close while disconnected", ErrSessionNotClosed, func(t *testing.T, w *world, c *Client) error {
			w.away(c)
			return c.Close()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				err := tt.call(t, w, w.client(nil))
				require.ErrorIs(t, err, tt.want)
				var e *Error
				require.ErrorAs(t, err, &e)
			})
		})
	}
}
