package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

func TestB40AZeroVisitIsAnError(t *testing.T) {
	var none context.Context
	ctx := harness.Within(t, 20*time.Second)
	var nilVisit *Visit
	require.EqualError(t, nilVisit.Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	require.EqualError(t, new(Visit).Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	path := harness.NewPath(t)
	v := visits(t, enter(t, NewDoubleBarrier(dial(t, nil), path, 1)))[0]
	require.EqualError(t, v.Leave(none), "zkrecipes: leave "+path+": nil context")
	require.NoError(t, v.Err())
	require.Panics(t, func() { v.Context(none) })
	require.NoError(t, v.Leave(ctx))
}

func TestB57HooksOfAVisitMayCloseTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		closed := make(chan error, 1)
		c = w.stranger(&Options{Trace: &Trace{AcquireEnd: func(_ context.Context, e TraceAcquireEnd) {
			if e.Path == "/d" {
				closed <- c.Close()
			}
		}}})
		a := enter(t, NewDoubleBarrier(c, "/d", 1))
		v, err := a.Wait()
		if err == nil {
			<-v.Context(t.Context()).Done()
			err = v.Err()
		}
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, <-closed)
		synctest.Wait()
		require.Empty(t, w.inside())
	})
}
