package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// service is a running service.
type service struct {
	stop   context.CancelFunc
	result chan error
	items  chan *zkrecipes.Item // that the handler got; it waits until somebody reads
}

func start(t *testing.T, srv *zktest.Server) *service {
	ctx, stop := context.WithCancel(t.Context())
	s := &service{stop: stop, result: make(chan error, 1), items: make(chan *zkrecipes.Item)}
	go func() {
		s.result <- run(ctx, srv.Addr()+"/", func(ctx context.Context, job *zkrecipes.Item) error {
			select {
			case s.items <- job:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return bill(ctx, job)
		})
	}()
	return s
}

func producer(t *testing.T, srv *zktest.Server) *zkrecipes.Queue {
	return zkrecipes.NewQueue(codetest.Dial(t, srv), "/jobs", nil)
}

func requireEmpty(t *testing.T, jobs *zkrecipes.Queue) {
	n, err := jobs.Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestTheServiceFinishesWhatItBeganAndStops(t *testing.T) {
	srv := zktest.NewServer(t)
	jobs := producer(t, srv)
	s := start(t, srv)
	_, err := jobs.PutAll(t.Context(), []byte("invoice 17"), []byte("invoice 18"))
	require.NoError(t, err)
	<-s.items
	<-s.items
	s.stop() // while both are worked on
	require.NoError(t, <-s.result)
	requireEmpty(t, jobs)
	require.Len(t, srv.Sessions(), 1, "that of the producer")
}

func TestTheServiceGetsAnItemAgainAfterItsSessionHasExpired(t *testing.T) {
	srv := zktest.NewServer(t)
	s := start(t, srv)
	jobs := producer(t, srv)
	id, err := jobs.Put(t.Context(), []byte("invoice 17"))
	require.NoError(t, err)
	first := <-s.items
	for _, session := range srv.Sessions() {
		srv.Expire(session.ID)
	}
	second := <-s.items
	require.Equal(t, id, first.ID)
	require.Equal(t, id, second.ID)
	require.Equal(t, 2, second.Attempt)
	s.stop()
	require.NoError(t, <-s.result)
	requireEmpty(t, jobs)
}

func TestTheServiceGoesOnAfterItsZnodeWasDeleted(t *testing.T) {
	srv := zktest.NewServer(t)
	s := start(t, srv)
	raw, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer raw.Close()
	var places []string
	require.Eventually(t, func() bool { places = srv.Children("/jobs/line"); return len(places) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, raw.Delete("/jobs/line/"+places[0], -1))
	_, err = producer(t, srv).Put(t.Context(), []byte("invoice 17"))
	require.NoError(t, err)
	<-s.items
	s.stop()
	require.NoError(t, <-s.result)
}

func TestTheServiceEndsWithAnErrorIfItCannotServe(t *testing.T) {
	srv := zktest.NewServer(t)
	_, err := zkrecipes.NewSemaphore(codetest.Dial(t, srv), "/jobs", 3).Acquire(t.Context())
	require.NoError(t, err)
	s := start(t, srv)
	require.ErrorIs(t, <-s.result, zkrecipes.ErrPathInUse)
	require.Len(t, srv.Sessions(), 1, "that of the semaphore")
}

func TestTheServiceThatIsStoppedWhileItDialsEndsWithoutAnError(t *testing.T) {
	srv := zktest.NewServer(t)
	srv.Stop()
	s := start(t, srv)
	s.stop()
	require.NoError(t, <-s.result)
}
