package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAnErrorNamesItsOwnOperation(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	other := zkrecipes.NewMutex(r.C, r.Path+"-other")
	l := r.Lock()
	blocker := recipetest.LockOn(t, other)
	ctx := l.Context(r.Ctx)
	failed := make(chan error)
	go func() { _, err := other.Lock(ctx); failed <- err }()
	harness.Eventually(t, "waiting", func() bool { return len(harness.Children(t, r.Raw, r.Path+"-other")) == 2 })
	require.NoError(t, l.Release())
	err := <-failed
	require.EqualError(t, err, "zkrecipes: lock "+r.Path+"-other: context canceled: zkrecipes: hold "+r.Path+": lease released")
	require.ErrorIs(t, err, zkrecipes.ErrReleased)
	require.NoError(t, blocker.Release())
}

func TestErrorsKeepTheirCauses(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	err := zkrecipes.Fail("lock", "/x", zkconn.ContextErr(ctx))
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "zkrecipes: lock /x: context canceled: why")
	var e *zkrecipes.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "lock", e.Op)
	require.Equal(t, "/x", e.Path)
	require.NoError(t, zkrecipes.Fail("lock", "/x", nil))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", zkrecipes.Auth{Scheme: "digest", Data: []byte("u:secret")}, zkrecipes.Auth{Scheme: "digest", Data: []byte("u:secret")}, zkrecipes.Auth{Scheme: "digest", Data: []byte("u:secret")}), "secret")
}

// What a caller may act upon can be told apart with errors.Is.
func TestErrorsOfTheAPICanBeMatched(t *testing.T) {
	large := make([]byte, 1<<20)
	lock := func(path string) func(*testing.T, *recipetest.World, *zkrecipes.Client) error {
		return func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewMutex(c, path).Lock(t.Context())
			return err
		}
	}
	for _, tt := range []struct {
		name string
		want error
		call func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error
	}{
		{"invalid path", zkrecipes.ErrInvalidPath, lock("locks")},
		{"invalid path of an operation", zkrecipes.ErrInvalidPath, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			_, err := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Commit(t.Context(), zkrecipes.OpDelete("/a/", 0))
			return err
		}},
		{"invalid path in an option", zkrecipes.ErrInvalidPath, func(t *testing.T, _ *recipetest.World, _ *zkrecipes.Client) error {
			_, err := zkrecipes.Dial(t.Context(), []string{"h"}, &zkrecipes.Options{Prefix: "app"})
			return err
		}},
		{"a line of another recipe", zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
			_, err := zkrecipes.NewRWLock(c, w.Path).RLock(t.Context())
			return err
		}},
		{"a line of another layout", zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			_, err := w.Bare().Create("/other", []byte("zkrecipes/9 mutex"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return lock("/other")(t, w, c)
		}},
		{"a queue of another layout", zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			harness.MakeParents(t, w.Bare(), "/other/s")
			_, err := w.Insider().Set("/other/s", []byte("zkrecipes/9 queue"), -1)
			require.NoError(t, err)
			_, err = zkrecipes.NewQueue(c, "/other", nil).Put(t.Context(), nil)
			return err
		}},
		{"a barrier's path with other data", zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			_, err := w.Bare().Create("/other", []byte("not a number"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = zkrecipes.NewBarrier(c, "/other", 2).Wait(t.Context())
			return err
		}},
		{"a double barrier on a line", zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
			_, err := zkrecipes.NewDoubleBarrier(c, w.Path, 2).Enter(t.Context())
			return err
		}},
		{"a large transaction", zkrecipes.ErrTooLarge, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			_, err := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Commit(t.Context(), zkrecipes.OpCreate("/large", large, 0, nil))
			return err
		}},
		{"a large item", zkrecipes.ErrTooLarge, func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewQueue(c, "/queue", nil).Put(t.Context(), large)
			return err
		}},
		{"an item above the queue's limit", zkrecipes.ErrTooLarge, func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewQueue(c, "/queue", &zkrecipes.QueueOptions{MaxItemBytes: 10}).Put(t.Context(), large[:11])
			return err
		}},
		{"a long path", zkrecipes.ErrTooLarge, lock("/" + strings.Repeat("x", 1<<20))},
		{"quota", zkrecipes.ErrQuotaExceeded, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: "multi"})
			return lock(w.Path)(t, w, c)
		}},
		{"quota of the parents", zkrecipes.ErrQuotaExceeded, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Path: "/new"})
			return lock("/new/lock")(t, w, c)
		}},
		{"contended", zkrecipes.ErrContended, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "multi", Times: -1})
			return lock(w.Path)(t, w, c)
		}},
		{"Close while disconnected", zkrecipes.ErrSessionNotClosed, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			w.Away(c)
			return c.Close()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				err := tt.call(t, w, w.Client(nil))
				require.ErrorIs(t, err, tt.want)
				var e *zkrecipes.Error
				require.ErrorAs(t, err, &e)
			})
		})
	}
}
