//go:build unix

package main

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) { codetest.Main(m, main) }

var (
	shipped = regexp.MustCompile(`shipped with token (\d+)`)
	lost    = regexp.MustCompile(`lease lost`)
	evicted = regexp.MustCompile(`again: .*evicted from the line`)
)

// token waits until the program has shipped, and returns the token.
func token(t *testing.T, p *codetest.Program) int {
	n, err := strconv.Atoi(p.Until(shipped)[1])
	require.NoError(t, err)
	return n
}

func TestTheProgramShipsLosesTheLockGoesOnAndStops(t *testing.T) {
	places := make(chan zktest.Change, 1000)
	srv := zktest.NewServer(t, zktest.OnChange(func(c zktest.Change) {
		if c.Created && strings.HasPrefix(c.Path, "/app/locks/orders/_c_") {
			places <- c
		}
	}))
	p := codetest.Start(t, srv.Addr()+"/app")
	first := token(t, p)

	// Expire the session at the beginning of each hold, until the program notices a loss
	// while it works. (If the session expires before the grant, the program waits on.)
	noticed := make(chan struct{})
	var expiring sync.WaitGroup
	expiring.Go(func() {
		for {
			select {
			case <-places:
				for _, s := range srv.Sessions() {
					srv.Expire(s.ID)
				}
			case <-noticed:
				return
			}
		}
	})
	p.Until(lost)
	close(noticed)
	expiring.Wait()
	require.Greater(t, token(t, p), first, "the next holder's token is higher")

	p.Stop()
	require.Empty(t, srv.Sessions(), "the session was closed")
	require.Empty(t, srv.Children("/app/locks/orders"), "the lock was released")
	require.NotEmpty(t, srv.Children("/app/locks"), "below the prefix")
}

func TestTheProgramWaitsAgainAfterAnEviction(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(t.Context())
	require.NoError(t, err)
	p := codetest.Start(t, srv.Addr())
	require.Eventually(t, func() bool { return len(srv.Children("/locks/orders")) == 2 }, time.Minute, time.Millisecond)
	for _, place := range srv.Children("/locks/orders") {
		if place := "/locks/orders/" + place; place != lease.Check().Path {
			_, err = lease.Commit(t.Context(), zkrecipes.OpDelete(place, -1))
			require.NoError(t, err)
		}
	}
	p.Until(evicted)
	require.NoError(t, lease.Release())
	require.Greater(t, token(t, p), int(lease.Token()))
	p.Stop()
}

func TestTwoProgramsTakeTurns(t *testing.T) {
	srv := zktest.NewServer(t)
	a, b := codetest.Start(t, srv.Addr()), codetest.Start(t, srv.Addr())
	ta, tb := token(t, a), token(t, b)
	require.NotEqual(t, ta, tb)
	a.Stop()
	require.Greater(t, token(t, b), tb)
	b.Stop()
}
