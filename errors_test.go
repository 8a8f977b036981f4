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
	lock := func(path string) func(*recipetest.World, *zkrecipes.Client) error {
		return func(w *recipetest.World, c *zkrecipes.Client) error {
			return errOf(zkrecipes.NewMutex(c, path).Lock)(w.T.Context())
		}
	}
	put := func(w *recipetest.World, c *zkrecipes.Client, opts *zkrecipes.QueueOptions) error {
		_, err := zkrecipes.NewQueue(c, "/queue", opts).Put(w.T.Context(), large[:11])
		return err
	}
	type failing struct {
		want  error
		fault zktest.Fault
		call  func(w *recipetest.World, c *zkrecipes.Client) error
	}
	quota := func(op, path string) zktest.Fault {
		return zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: op, Path: path}
	}
	recipetest.EachInBubble(t, map[string]failing{
		"invalid path in an option": {want: zkrecipes.ErrInvalidPath, call: func(w *recipetest.World, _ *zkrecipes.Client) error {
			_, err := zkrecipes.Dial(w.T.Context(), []string{"h"}, &zkrecipes.Options{Prefix: "app"})
			return err
		}},
		"a queue of another layout": {want: zkrecipes.ErrPathInUse, call: func(w *recipetest.World, c *zkrecipes.Client) error {
			harness.MakeParents(w.T, w.Bare(), "/queue/s")
			w.Write("/queue/s", "zkrecipes/9 queue")
			return put(w, c, nil)
		}},
		"a large transaction": {want: zkrecipes.ErrTooLarge, call: func(w *recipetest.World, c *zkrecipes.Client) error {
			return first(recipetest.LockOn(w.T, zkrecipes.NewMutex(c, w.Path)).Commit(w.T.Context(), zkrecipes.OpCreate("/large", large, 0, nil)))
		}},
		"an item above the queue's limit": {want: zkrecipes.ErrTooLarge, call: func(w *recipetest.World, c *zkrecipes.Client) error {
			return put(w, c, &zkrecipes.QueueOptions{MaxItemBytes: 10})
		}},
		"a long path":          {want: zkrecipes.ErrTooLarge, call: lock("/" + strings.Repeat("x", 1<<20))},
		"quota":                {zkrecipes.ErrQuotaExceeded, quota("multi", ""), lock("/line")},
		"quota of the parents": {zkrecipes.ErrQuotaExceeded, quota("", "/new"), lock("/new/lock")},
		"contended":            {zkrecipes.ErrContended, zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "multi", Times: -1}, lock("/line")},
	}, func(t *testing.T, w *recipetest.World, tt failing) {
		c := w.Client(nil)
		if tt.fault.Do != "" {
			w.Plan.Add(tt.fault)
		}
		err := tt.call(w, c)
		require.ErrorIs(t, err, tt.want)
		var e *zkrecipes.Error
		require.ErrorAs(t, err, &e)
	})
}
