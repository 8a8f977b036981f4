package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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
	err := fail("lock", "/x", zkconn.ContextErr(ctx))
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "zkrecipes: lock /x: context canceled: why")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "lock", e.Op)
	require.Equal(t, "/x", e.Path)
	require.NoError(t, fail("lock", "/x", nil))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", Auth{"digest", []byte("u:secret")}, Auth{"digest", []byte("u:secret")}, Auth{"digest", []byte("u:secret")}), "secret")
}
