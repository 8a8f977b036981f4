package fence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
)

// of returns a holder of the lock of the tests.
func of(token int64) fence.Holder { return fence.Tokens{"/locks/orders": token} }

// told returns a Memory that knows the lowest token of that lock.
func told(lowest int64) *fence.Memory {
	m := fence.NewMemory(nil)
	m.Raise("/locks/orders", lowest)
	return m
}

func TestMemoryRefusesAllUntilItKnowsTheLowestToken(t *testing.T) {
	m := new(fence.Memory)
	for range 2 { // a token that was refused teaches it nothing
		_, _, err := m.Admit(t.Context(), of(512))
		require.ErrorIs(t, err, fence.ErrUnknown)
		require.NotErrorIs(t, err, fence.ErrFenced)
	}
	m.Raise("/locks/orders", 512)
	m.Raise("/locks/orders", 1)
	_, _, err := m.Admit(t.Context(), of(511))
	require.ErrorIs(t, err, fence.ErrFenced)
	_, done, err := m.Admit(t.Context(), of(512))
	require.NoError(t, err)
	done()
	_, _, err = m.Admit(t.Context(), fence.Tokens{"/locks/other": 512})
	require.ErrorIs(t, err, fence.ErrUnknown)
}

func TestMemoryAsksForTheLowestTokenOnceForEachFence(t *testing.T) {
	asked := map[string]int{}
	down := errors.New("no connection")
	failing := down
	m := fence.NewMemory(func(_ context.Context, name string) (int64, error) {
		asked[name]++
		return 256, failing
	})
	_, _, err := m.Admit(t.Context(), of(512))
	require.ErrorIs(t, err, fence.ErrUnknown)
	require.ErrorIs(t, err, down)
	failing = nil
	_, _, err = m.Admit(t.Context(), of(255))
	require.ErrorIs(t, err, fence.ErrFenced)
	for range 3 {
		_, done, err := m.Admit(t.Context(), of(512))
		require.NoError(t, err)
		done()
	}
	require.Equal(t, map[string]int{"/locks/orders": 2}, asked)
}

func TestMemoryAdmitsTheSameHolderAgainAndNoEarlierOne(t *testing.T) {
	m := told(1)
	_, first, err := m.Admit(t.Context(), of(256))
	require.NoError(t, err)
	_, second, err := m.Admit(t.Context(), of(256))
	require.NoError(t, err, "both at once")
	first()
	first()
	second()
	_, done, err := m.Admit(t.Context(), of(512))
	require.NoError(t, err)
	done()
	_, _, err = m.Admit(t.Context(), of(256))
	require.ErrorIs(t, err, fence.ErrFenced)
	require.ErrorContains(t, err, `fence: "/locks/orders", token 256: refused: a later holder came first, with token 512`)
}

func TestALaterHolderEndsTheWorkOfAnEarlierOneAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := told(1)
		work, done, err := m.Admit(t.Context(), of(256))
		require.NoError(t, err)
		over, admitted := false, false
		go func() {
			_, leave, err := m.Admit(t.Context(), of(512))
			require.NoError(t, err)
			require.True(t, over)
			admitted = true
			leave()
		}()
		synctest.Wait()
		require.False(t, admitted)
		require.ErrorIs(t, context.Cause(work), fence.ErrFenced)
		_, _, err = m.Admit(t.Context(), of(256))
		require.ErrorIs(t, err, fence.ErrFenced, "the later one waits already")
		over = true
		done()
		synctest.Wait()
		require.True(t, admitted)
	})
}

func TestAHolderThatWaitsIsRefusedIfALaterOneComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := told(1)
		_, done, err := m.Admit(t.Context(), of(256))
		require.NoError(t, err)
		errs := make(chan error, 2)
		for _, token := range []int64{512, 1024} {
			go func() {
				_, leave, err := m.Admit(t.Context(), of(token))
				if err == nil {
					leave()
				}
				errs <- err
			}()
			synctest.Wait()
		}
		done()
		refused, admitted := <-errs, <-errs
		if refused == nil {
			refused, admitted = admitted, refused
		}
		require.NoError(t, admitted)
		require.ErrorIs(t, refused, fence.ErrFenced)
	})
}

func TestAWaitForAnEarlierHolderEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := told(1)
		_, done, err := m.Admit(t.Context(), of(256))
		require.NoError(t, err)
		defer done()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the client has gone")
		go cancel(gone)
		_, _, err = m.Admit(ctx, of(512))
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, fence.ErrFenced)
	})
}

// It has entered one fence, and waits at the other, when a later holder comes at the first.
func TestAHolderThatWaitsAtASecondFenceGivesWayAtTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fence.NewMemory(func(context.Context, string) (int64, error) { return 1, nil })
		_, done, err := m.Admit(t.Context(), fence.Tokens{"/b": 1})
		require.NoError(t, err)
		defer done()
		both := make(chan error, 1)
		go func() {
			_, _, err := m.Admit(t.Context(), fence.Tokens{"/a": 5, "/b": 5})
			both <- err
		}()
		synctest.Wait()
		_, leave, err := m.Admit(t.Context(), fence.Tokens{"/a": 6})
		require.NoError(t, err)
		leave()
		require.ErrorIs(t, <-both, fence.ErrFenced)
	})
}

func TestRaiseEndsTheWorkOfHoldersBelow(t *testing.T) {
	m := told(1)
	work, done, err := m.Admit(t.Context(), of(256))
	require.NoError(t, err)
	defer done()
	m.Raise("/locks/orders", 256)
	require.NoError(t, work.Err())
	m.Raise("/locks/orders", 257)
	require.ErrorIs(t, context.Cause(work), fence.ErrFenced)
}

func TestAPanicOfLowestLeavesNothingEntered(t *testing.T) {
	m := fence.NewMemory(func(_ context.Context, name string) (int64, error) {
		if name == "/b" {
			panic("lowest")
		}
		return 1, nil
	})
	require.Panics(t, func() { m.Admit(t.Context(), fence.Tokens{"/a": 5, "/b": 5}) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, done, err := m.Admit(ctx, fence.Tokens{"/a": 6})
	require.NoError(t, err)
	done()
}
