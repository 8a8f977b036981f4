package zkrecipes

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// longPilesEnv, if it is set, makes the test below last for five minutes, with the time that
// users have.
const longPilesEnv = "ZKRECIPES_LONG_PILES"

func TestPathsThatAreUsedOnceDoNotPileUp(t *testing.T) {
	const perSecond, workers = 500, 50
	lasts, idle, most := 6*time.Second, time.Second, int64(perSecond*5)
	left, rests := int64(50), 6*time.Second
	if os.Getenv(longPilesEnv) != "" {
		lasts, idle, most, left, rests = 3*time.Minute, idleLine, 40_000, 1_000, 2*time.Minute
	}
	addr := harness.OwnServer(t, zkserver.Config{}) // which deletes no containers itself
	c, err := Dial(tuning.WithIdleLine(t.Context(), idle), []string{addr}, nil)
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
	end := time.Now().Add(lasts)
	for range workers {
		wg.Go(func() {
			for next := time.Now(); time.Now().Before(end); next = next.Add(time.Second * workers / perSecond) {
				time.Sleep(time.Until(next))
				path := fmt.Sprintf("/orders/%d", used.Add(1))
				if err := NewMutex(c, path).Do(t.Context(), nothing); err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
			}
		})
	}
	peak := int64(0)
	for time.Now().Before(end) {
		time.Sleep(lasts / 60)
		peak = max(peak, znodes())
	}
	wg.Wait()
	end = time.Now()
	for znodes() >= left && time.Since(end) < rests {
		time.Sleep(100 * time.Millisecond)
	}
	rest, after := znodes(), time.Since(end)
	t.Logf("%d paths in %v: at most %d znodes at a time, %d of them %v later", used.Load(), lasts, peak, rest, after.Round(time.Second))
	require.LessOrEqual(t, peak, most)
	require.Less(t, rest, left)
}
