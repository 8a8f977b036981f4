package line_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// wantedSlots of one session have brought three servers down for good: none could read the
// transaction that ended the session.
const wantedSlots = 45_000

// A Client takes as many slots as it gets, up to wantedSlots, and dies. Its session expires, and all
// servers go on. TestTheAccountIsWhatTheServersHaveAfterEachRecipe shows that a Client counts the znodes
// of all recipes.
func TestLongAnEnsembleOutlivesTheLargestSessionThatAClientCanHave(t *testing.T) {
	recipetest.NeedsLong(t)
	e := threeServers(t)
	ctx := harness.Within(t, 5*time.Minute)
	taps := harness.NewTapsVia(new(net.Dialer).DialContext)
	c := recipetest.DialTo(t, e.Addrs(), &zkrecipes.Options{SessionTimeout: 5 * time.Second, Dialer: taps.Dial})
	recipetest.LockOn(t, zkrecipes.NewMutex(c, "/alive"))

	began := time.Now()
	got, err := takeSlots(ctx, c)
	require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
	require.Less(t, got, wantedSlots)
	status := c.Status()
	require.Greater(t, status.ZnodeBytes, status.MaxZnodeBytes*99/100)
	t.Logf("%d slots in %v, %d znodes of %d bytes; then: %v", got, time.Since(began).Round(time.Second), status.Znodes, status.ZnodeBytes, err)

	taps.Hold()
	for _, c := range taps.All() {
		c.Close()
	}
	cut := time.Now()
	require.NoError(t, zkrecipes.NewMutex(recipetest.DialTo(t, e.Addrs(), nil), "/alive").Do(ctx, recipetest.Nothing), "the session has expired")
	t.Logf("the session has expired %v after the cut", time.Since(cut).Round(time.Second))
	time.Sleep(time.Until(cut.Add(30 * time.Second))) // a server that fails does so within seconds
	for i, n := range e.Nodes {
		one := recipetest.DialTo(t, []string{n.Addr()}, nil)
		require.NoError(t, one.Ping(ctx), n)
		require.NoError(t, zkrecipes.NewMutex(one, fmt.Sprintf("/after/%d", i)).Do(ctx, recipetest.Nothing), n)
		require.NoError(t, one.Close())
	}
	t.Logf("all three servers serve %v after the cut", time.Since(cut).Round(time.Second))
}

func takeSlots(ctx context.Context, c *zkrecipes.Client) (got int, err error) {
	x := zkrecipes.NewSemaphore(c, "/full/slots", wantedSlots)
	for k := 500; k > 0 && got < wantedSlots; {
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
