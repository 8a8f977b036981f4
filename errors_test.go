package zkrecipes_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAnErrorNamesItsOwnOperation(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		other := zkrecipes.NewMutex(c, "/other")
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		recipetest.LockOn(t, other)
		waits := harness.GoErr(t, func(context.Context) error { _, err := other.Lock(l.Context(t.Context())); return err })
		synctest.Wait()
		require.NoError(t, l.Release())
		_, err := waits.Wait()
		require.EqualError(t, err, "zkrecipes: lock /other: context canceled: zkrecipes: hold /line: lease released")
		require.ErrorIs(t, err, zkrecipes.ErrReleased)
	})
}

// What a caller may act upon can be told apart with errors.Is.
func TestErrorsOfTheAPICanBeMatched(t *testing.T) {
	large := make([]byte, 1<<20)
	type call func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error
	lock := func(path string) call {
		return func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client) error {
			return errOf(zkrecipes.NewMutex(c, path).Lock)(t.Context())
		}
	}
	commit := func(op zkrecipes.Op) call {
		return func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			_, err := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Commit(t.Context(), op)
			return err
		}
	}
	put := func(opts *zkrecipes.QueueOptions, data []byte) call {
		return func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewQueue(c, "/queue", opts).Put(t.Context(), data)
			return err
		}
	}
	// after has somebody else create a znode with these data before the call.
	after := func(path, data string, f call) call {
		return func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			harness.MakeParents(t, w.Bare(), path)
			w.Write(path, data)
			return f(t, w, c)
		}
	}
	beside := func(fault zktest.Fault, f call) call {
		return func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			w.Plan.Add(fault)
			return f(t, w, c)
		}
	}
	type failing struct {
		want error
		call call
	}
	eachInBubble(t, map[string]failing{
		"invalid path":                 {zkrecipes.ErrInvalidPath, lock("locks")},
		"invalid path of an operation": {zkrecipes.ErrInvalidPath, commit(zkrecipes.OpDelete("/a/", 0))},
		"invalid path in an option": {zkrecipes.ErrInvalidPath, func(t *testing.T, _ *recipetest.World, _ *zkrecipes.Client) error {
			_, err := zkrecipes.Dial(t.Context(), []string{"h"}, &zkrecipes.Options{Prefix: "app"})
			return err
		}},
		"a line of another recipe": {zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
			return errOf(zkrecipes.NewRWLock(c, w.Path).RLock)(t.Context())
		}},
		"a line of another layout":  {zkrecipes.ErrPathInUse, after("/other", "zkrecipes/9 mutex", lock("/other"))},
		"a queue of another layout": {zkrecipes.ErrPathInUse, after("/queue/s", "zkrecipes/9 queue", put(nil, nil))},
		"a barrier's path with other data": {zkrecipes.ErrPathInUse, after("/other", "not a number", func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client) error {
			return errOf(zkrecipes.NewBarrier(c, "/other", 2).Wait)(t.Context())
		})},
		"a double barrier on a line": {zkrecipes.ErrPathInUse, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
			return errOf(zkrecipes.NewDoubleBarrier(c, w.Path, 2).Enter)(t.Context())
		}},
		"a large transaction":             {zkrecipes.ErrTooLarge, commit(zkrecipes.OpCreate("/large", large, 0, nil))},
		"a large item":                    {zkrecipes.ErrTooLarge, put(nil, large)},
		"an item above the queue's limit": {zkrecipes.ErrTooLarge, put(&zkrecipes.QueueOptions{MaxItemBytes: 10}, large[:11])},
		"a long path":                     {zkrecipes.ErrTooLarge, lock("/" + strings.Repeat("x", 1<<20))},
		"quota":                           {zkrecipes.ErrQuotaExceeded, beside(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: "multi"}, lock("/line"))},
		"quota of the parents":            {zkrecipes.ErrQuotaExceeded, beside(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Path: "/new"}, lock("/new/lock"))},
		"contended":                       {zkrecipes.ErrContended, beside(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "multi", Times: -1}, lock("/line"))},
		"Close while disconnected": {zkrecipes.ErrSessionNotClosed, func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) error {
			w.Away(c)
			return c.Close()
		}},
	}, func(t *testing.T, w *recipetest.World, _ string, tt failing) {
		err := tt.call(t, w, w.Client(nil))
		require.ErrorIs(t, err, tt.want)
		var e *zkrecipes.Error
		require.ErrorAs(t, err, &e)
	})
}
