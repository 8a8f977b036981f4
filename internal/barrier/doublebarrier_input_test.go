package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestB40AZeroVisitIsAnError(t *testing.T) {
	var none context.Context
	ctx := harness.Within(t, 20*time.Second)
	var nilVisit *zkrecipes.Visit
	require.EqualError(t, nilVisit.Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	require.EqualError(t, new(zkrecipes.Visit).Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	path := harness.NewPath(t)
	v := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(recipetest.Dial(t, nil), path, 1)))[0]
	require.EqualError(t, v.Leave(none), "zkrecipes: leave "+path+": nil context")
	require.NoError(t, v.Err())
	require.Panics(t, func() { v.Context(none) })
	require.NoError(t, v.Leave(ctx))
}

func TestB57HooksOfAVisitMayCloseTheClient(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var c *zkrecipes.Client
		closed := make(chan error, 1)
		c = w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{AcquireEnd: func(_ context.Context, e zkrecipes.TraceAcquireEnd) {
			if e.Path == "/d" {
				closed <- c.Close()
			}
		}}})
		a := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/d", 1))
		v, err := a.Wait()
		if err == nil {
			<-v.Context(t.Context()).Done()
			err = v.Err()
		}
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.NoError(t, <-closed)
		synctest.Wait()
		require.Empty(t, w.Inside())
	})
}
