package line_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// pile is a use of many paths, each of them once.
type pile struct {
	lasts time.Duration // the use
	idle  time.Duration // for which a line stays
	most  int64         // znodes at a time
	left  int64         // fewer znodes, once it rests
	rests time.Duration // at most, until there are so few
}

func TestRealPathsThatAreUsedOnceDoNotPileUp(t *testing.T) {
	testPile(t, pile{lasts: 6 * time.Second, idle: time.Second, most: 2500, left: 50, rests: 6 * time.Second})
}

// With the times that users have.
func TestLongPathsThatAreUsedOnceDoNotPileUp(t *testing.T) {
	recipetest.NeedsLong(t)
	testPile(t, pile{lasts: 3 * time.Minute, idle: line.IdleLine, most: 40_000, left: 1_000, rests: 2 * time.Minute})
}

func testPile(t *testing.T, p pile) {
	const perSecond, workers = 500, 50
	addr := harness.OwnServer(t, zkserver.Config{}) // which deletes no containers itself
	c, err := zkrecipes.Dial(tuning.WithIdleLine(t.Context(), p.idle), []string{addr}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })

	znodes := func() (n int64) {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("srvr"))
		require.NoError(t, err)
		report, err := io.ReadAll(conn)
		require.NoError(t, err)
		_, count, _ := strings.Cut(string(report), "Node count: ")
		_, err = fmt.Sscan(count, &n)
		require.NoError(t, err, "%s", report)
		return n
	}
	var used atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(p.lasts)
	for range workers {
		wg.Go(func() {
			for next := time.Now(); time.Now().Before(end); next = next.Add(time.Second * workers / perSecond) {
				time.Sleep(time.Until(next))
				path := fmt.Sprintf("/orders/%d", used.Add(1))
				if err := zkrecipes.NewMutex(c, path).Do(t.Context(), recipetest.Nothing); err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
			}
		})
	}
	peak := int64(0)
	for time.Now().Before(end) {
		time.Sleep(p.lasts / 60)
		peak = max(peak, znodes())
	}
	wg.Wait()
	end = time.Now()
	for znodes() >= p.left && time.Since(end) < p.rests {
		time.Sleep(100 * time.Millisecond)
	}
	rest, after := znodes(), time.Since(end)
	t.Logf("%d paths in %v: at most %d znodes at a time, %d of them %v later", used.Load(), p.lasts, peak, rest, after.Round(time.Second))
	require.LessOrEqual(t, peak, p.most)
	require.Less(t, rest, p.left)
}
