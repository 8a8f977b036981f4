package recipetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Fails requires that a call fails with all of these errors, and returns its error. The
// outcome is uncertain only if ErrUncertain is one of them.
func Fails[R any](t testing.TB, a *harness.Call[R], errs ...error) error {
	t.Helper()
	_, err := a.Wait()
	requireErrors(t, err, errs)
	return err
}

func requireErrors(t testing.TB, err error, errs []error) {
	t.Helper()
	require.Error(t, err)
	uncertain := false
	for _, e := range errs {
		require.ErrorIs(t, err, e)
		uncertain = uncertain || e == zkrecipes.ErrUncertain
	}
	if !uncertain {
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
	}
}

// Cancels ends the context of a call and requires that it fails for that reason.
func Cancels[R any](t testing.TB, a *harness.Call[R], errs ...error) error {
	t.Helper()
	a.Cancel(nil)
	return Fails(t, a, append(errs, context.Canceled)...)
}
