package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/fence"
)

const (
	lockPath = "/ledger"

	// sessionTimeout is short for the sake of the demo, because the next worker holds only after
	// that. Use 10 s or more in a service.
	sessionTimeout = 2 * time.Second
)

// params are the parameters of a worker.
type params struct {
	demo.Env
	ID      int
	Service string // its URL
}

// work writes to the ledger whenever it holds the lock, until ctx ends.
func work(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "worker "+demo.Letter(p.ID), sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewMutex(client, lockPath)
	service := &http.Client{Transport: &fence.Transport{}}
	for {
		lease, err := lock.Lock(ctx)
		if err != nil {
			return err
		}
		err = turn(ctx, lease, service, p)
		lease.Release() // ErrLost if the lock was lost
		if err != nil && !errors.Is(err, fence.ErrFenced) {
			return err
		}
	}
}

// turn writes again and again, until ctx ends or the service refuses. It never looks whether the
// lease is lost, to show that the service does not depend on it. In your program use the lease's
// context, too.
func turn(ctx context.Context, lease *zkrecipes.Lease, service *http.Client, p params) error {
	told := report{Worker: p.ID, Token: int64(lease.Token())}
	told.tell(holds)
	for demo.Pause(ctx, 100*time.Millisecond, 100*time.Millisecond) == nil {
		err := write(context.WithoutCancel(ctx), service, p.Service, lease, demo.Letter(p.ID))
		if errors.Is(err, fence.ErrFenced) {
			told.tell(refused)
			return err
		}
		if err != nil {
			return err
		}
		told.tell(wrote)
	}
	return nil
}

// write sends an entry to the service, with the holder's token.
func write(ctx context.Context, service *http.Client, url string, holder fence.Holder, text string) error {
	r, err := http.NewRequestWithContext(fence.NewContext(ctx, holder), http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := service.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := fence.ResponseError(resp); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// report is what a worker tells the parent.
type report struct {
	Worker int
	What   what
	Token  int64
}

type what string

const (
	holds   what = "holds"
	wrote   what = "wrote"
	refused what = "refused" // by the service
)

func (r report) tell(w what) {
	r.What = w
	demo.Tell(r)
}
