package line_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// wantedPlaces of one session have brought three servers down for good: none could read the
// transaction that ended the session.
const wantedPlaces = 45_000

// A Client takes as many places as it gets, up to wantedPlaces, and dies. Its session
// expires, and all servers go on.
func TestLongAnEnsembleOutlivesTheLargestSessionThatAClientCanHave(t *testing.T) {
	recipetest.NeedsLong(t)
	e := threeServers(t)
	for what, fill := range map[string]func(ctx context.Context, c *zkrecipes.Client) (got int, err error){
		"mutexes": fillWithMutexes, "slots": fillWithSlots, "items": fillWithItems,
	} {
		ctx := harness.Within(t, 5*time.Minute)
		taps := harness.NewTapsVia(new(net.Dialer).DialContext)
		c := recipetest.DialTo(t, e.Addrs(), &zkrecipes.Options{SessionTimeout: 5 * time.Second, Dialer: taps.Dial})
		flag := zkrecipes.NewMutex(c, "/alive/"+what)
		recipetest.LockOn(t, flag)

		began := time.Now()
		got, err := fill(ctx, c)
		require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
		require.Less(t, got, wantedPlaces)
		status := c.Status()
		require.Greater(t, status.ZnodeBytes, status.MaxZnodeBytes*99/100)
		t.Logf("%s: %d in %v, %d znodes of %d bytes; then: %v", what, got, time.Since(began).Round(time.Second), status.Znodes, status.ZnodeBytes, err)

		taps.Hold()
		for _, c := range taps.All() {
			c.Close()
		}
		cut := time.Now()
		require.NoError(t, zkrecipes.NewMutex(recipetest.DialTo(t, e.Addrs(), nil), "/alive/"+what).Do(ctx, recipetest.Nothing), "the session has expired")
		t.Logf("%s: the session has expired %v after the cut", what, time.Since(cut).Round(time.Second))
		time.Sleep(time.Until(cut.Add(30 * time.Second))) // a server that fails does so within seconds
		for i, n := range e.Nodes {
			one := recipetest.DialTo(t, []string{n.Addr()}, nil)
			require.NoError(t, one.Ping(ctx), n)
			require.NoError(t, zkrecipes.NewMutex(one, fmt.Sprintf("/after/%s-%d", what, i)).Do(ctx, recipetest.Nothing), n)
			require.NoError(t, one.Close())
		}
		t.Logf("%s: all three servers serve %v after the cut", what, time.Since(cut).Round(time.Second))
		c.Close()
	}
}

// fillWithMutexes takes locks, several at a time.
func fillWithMutexes(ctx context.Context, c *zkrecipes.Client) (got int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for i := worker; i < wantedPlaces; i += 64 {
				_, failed := zkrecipes.NewMutex(c, fmt.Sprintf("/full/locks/%05d", i)).Lock(ctx)
				mu.Lock()
				if failed == nil {
					got++
				} else {
					err = failed
				}
				mu.Unlock()
				if failed != nil && !errors.Is(failed, zkrecipes.ErrSessionFull) {
					return
				}
			}
		})
	}
	wg.Wait()
	return got, err
}

func fillWithSlots(ctx context.Context, c *zkrecipes.Client) (got int, err error) {
	x := zkrecipes.NewSemaphore(c, "/full/slots", wantedPlaces)
	for k := 500; k > 0 && got < wantedPlaces; {
		if _, failed := x.AcquireN(ctx, k); failed == nil {
			got += k
			continue
		} else if err = failed; !errors.Is(err, zkrecipes.ErrSessionFull) {
			return got, err
		}
		k /= 2
	}
	return got, err
}

func fillWithItems(ctx context.Context, c *zkrecipes.Client) (got int, err error) {
	q := zkrecipes.NewQueue(c, "/full/items", nil)
	for put := 0; put < wantedPlaces/2; put += 500 {
		if _, err := q.PutAll(ctx, make([][]byte, 500)...); err != nil {
			return 0, err
		}
	}
	for got < wantedPlaces/2 {
		items, err := q.TakeN(ctx, 100)
		if err != nil {
			return got, err
		}
		got += len(items)
	}
	return got, nil
}
