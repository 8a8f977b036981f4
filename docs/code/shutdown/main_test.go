//go:build unix

package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) { codetest.Main(m, main) }

func TestWorkFinishesAfterTheSignal(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	stop, cancel := context.WithCancel(t.Context())
	shipped := 0
	err := serve(stop, client, time.Minute, func(ctx context.Context, lease *zkrecipes.Lease) error {
		cancel()
		for { // until the Shutdown has begun
			other, err := zkrecipes.NewMutex(client, "/any").TryLock(t.Context())
			if errors.Is(err, zkrecipes.ErrClosed) {
				break
			}
			if err == nil {
				_ = other.Release() // else the Shutdown waits for it
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := lease.Commit(ctx)
		shipped++
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 1, shipped)
	require.Empty(t, srv.Sessions())
}

func TestWorkIsCutShortAtTheDeadline(t *testing.T) {
	srv := zktest.NewServer(t)
	stop, cancel := context.WithCancel(t.Context())
	var cause error
	err := serve(stop, codetest.Dial(t, srv), 10*time.Millisecond, func(ctx context.Context, _ *zkrecipes.Lease) error {
		cancel()
		<-ctx.Done()
		cause = context.Cause(ctx)
		return nil
	})
	require.ErrorIs(t, cause, zkrecipes.ErrClosed)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the exit code says so")
}

func TestWorkThatFailsEndsTheService(t *testing.T) {
	srv := zktest.NewServer(t)
	failed := errors.New("disk full")
	err := serve(t.Context(), codetest.Dial(t, srv), time.Minute, func(context.Context, *zkrecipes.Lease) error { return failed })
	require.ErrorIs(t, err, failed)
	require.Empty(t, srv.Sessions())
}

func TestALoopGoesOnAfterALoss(t *testing.T) {
	srv := zktest.NewServer(t)
	stop, cancel := context.WithCancel(t.Context())
	holds := 0
	err := serve(stop, codetest.Dial(t, srv), time.Minute, func(ctx context.Context, _ *zkrecipes.Lease) error {
		if holds++; holds == 1 {
			srv.Expire(srv.Sessions()[0].ID)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		cancel()
		return nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, holds, 2)
}

func TestALoopGoesOnAfterAnEviction(t *testing.T) {
	srv := zktest.NewServer(t)
	holder, err := zkrecipes.NewMutex(codetest.Dial(t, srv), "/locks/orders").Lock(t.Context())
	require.NoError(t, err)
	stop, cancel := context.WithCancel(t.Context())
	client, ended := codetest.Dial(t, srv), make(chan error, 1)
	go func() {
		ended <- serve(stop, client, time.Minute, func(context.Context, *zkrecipes.Lease) error {
			cancel()
			return nil
		})
	}()
	waiters := func() []string {
		return slices.DeleteFunc(srv.Children("/locks/orders"), func(name string) bool {
			return "/locks/orders/"+name == holder.Check().Path
		})
	}
	require.Eventually(t, func() bool { return len(waiters()) == 1 }, time.Minute, time.Millisecond)
	evicted := waiters()[0]
	_, err = holder.Commit(t.Context(), zkrecipes.OpDelete("/locks/orders/"+evicted, -1))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(waiters()) == 1 && waiters()[0] != evicted }, time.Minute, time.Millisecond)
	require.NoError(t, holder.Release())
	require.NoError(t, <-ended)
}

// Do joins the function's error with ErrClosed, not with ErrLost.
func TestDoReturnsErrClosedIfTheClientIsClosedMeanwhile(t *testing.T) {
	client := codetest.Dial(t, zktest.NewServer(t))
	own := errors.New("half done")
	err := zkrecipes.NewMutex(client, "/locks/orders").Do(t.Context(), func(ctx context.Context, _ *zkrecipes.Lease) error {
		if err := client.Close(); err != nil {
			return err
		}
		<-ctx.Done()
		return own
	})
	require.ErrorIs(t, err, own)
	require.ErrorIs(t, err, zkrecipes.ErrClosed)
	require.NotErrorIs(t, err, zkrecipes.ErrLost)
}

func TestTheProgramStopsOnSIGTERM(t *testing.T) {
	srv := zktest.NewServer(t)
	p := codetest.Start(t, srv.Addr()+"/app")
	p.Until(regexp.MustCompile("shipped"))
	require.Regexp(t, `stopped(\n|$)`, strings.Join(p.Stop(), "\n"))
	require.Empty(t, srv.Sessions(), "the session was closed")
	require.Empty(t, srv.Children("/app/locks/orders"), "the lock was released")
	require.NotEmpty(t, srv.Children("/app/locks"), "below the prefix")
}
