// Package telemetrytest has what the tests of telemetry, zkotel and zkprom share.
package telemetrytest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// World is a server in a bubble.
type World struct {
	T   *testing.T
	Srv *zktest.Server
}

// InBubble runs f in a bubble.
func InBubble(t *testing.T, f func(t *testing.T, w World)) {
	synctest.Test(t, func(t *testing.T) { f(t, World{t, zktest.NewServer(t, zktest.InMemory())}) })
}

// Dial returns a Client, which is closed at the end.
func (w World) Dial(trace *zkrecipes.Trace) *zkrecipes.Client {
	w.T.Helper()
	c, err := zkrecipes.Dial(w.T.Context(), []string{w.Srv.Addr()}, &zkrecipes.Options{Dialer: w.Srv.DialContext, Trace: trace})
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = c.Close() })
	return c
}

// Exporter exports the metrics of a Client.
type Exporter interface {
	Trace() *zkrecipes.Trace
	PollQueue(ctx context.Context, q *zkrecipes.Queue, interval time.Duration) error
}

// Measure uses a Client until something of each metric has happened, and then calls check, while a
// lock is held for two hours and another call has waited for it for one, and for a second more.
func (w World) Measure(e Exporter, check func()) {
	t := w.T
	client := w.Dial(e.Trace())
	ctx, cancel := context.WithCancel(t.Context())
	lost, err := zkrecipes.NewMutex(client, "/locks/lost").Lock(ctx)
	require.NoError(t, err)
	time.Sleep(time.Minute)
	w.Srv.Expire(client.Status().Session)
	<-lost.Context(ctx).Done()
	time.Sleep(time.Minute) // for the next session
	require.True(t, w.Srv.Disconnect(client.Status().Session))
	time.Sleep(time.Minute)

	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1})
	_, err = jobs.PutAll(ctx, []byte("fails"), []byte("waits"), []byte("waits"))
	require.NoError(t, err)
	failing, end := context.WithCancel(ctx)
	require.NoError(t, jobs.Serve(failing, func(context.Context, *zkrecipes.Item) error {
		end()
		synctest.Wait() // else it depends on the order of events whether Serve asks for another item
		return errors.New("no paper")
	}))
	polled := make(chan error, 1)
	go func() { polled <- e.PollQueue(ctx, jobs, 30*time.Minute) }()

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	hung, err := orders.Lock(ctx)
	require.NoError(t, err)
	_, err = orders.TryLock(ctx)
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
	time.Sleep(time.Hour)
	waits := make(chan error, 1)
	go func() {
		_, err := orders.Lock(ctx)
		waits <- err
	}()
	time.Sleep(time.Hour + time.Second) // the poll is over
	check()
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
	require.NoError(t, <-polled)
	require.NoError(t, hung.Release())
}
