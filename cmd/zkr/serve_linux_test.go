package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

var long = flag.Bool("long", false, "measure zkr serve with 200 lines of 50 waiters, for four minutes")

// crowd is lines in which others wait and hand over, on raw connections: their requests are
// other ones than those of zkr serve.
type crowd struct {
	t     *testing.T
	conn  *zk.Conn
	lines [][]string // paths of places
}

func newCrowd(t *testing.T, srv *zktest.Server, lines, places int) *crowd {
	t.Helper()
	conn, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	c := &crowd{t: t, conn: conn, lines: make([][]string, lines)}
	_, err = conn.Create("/locks", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for i := range lines {
		_, err := conn.Create(c.path(i), nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for range places {
			c.join(i)
		}
	}
	return c
}

func (c *crowd) path(i int) string { return fmt.Sprintf("/locks/line-%03d", i) }

func (c *crowd) join(i int) {
	name := fmt.Sprintf("%s/_c_%08d-0000-4000-8000-000000000000-lock-", c.path(i), len(c.lines[i]))
	path, err := c.conn.Create(name, []byte("app-1:4711"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(c.t, err)
	c.lines[i] = append(c.lines[i], path)
}

// handOver has the holder of a line go, and another process come.
func (c *crowd) handOver(i int) {
	require.NoError(c.t, c.conn.Delete(c.lines[i][0], -1))
	c.lines[i] = c.lines[i][1:]
	c.join(i)
}

// watchPage reads the events of a page, as a browser does, and counts their bytes.
func watchPage(t *testing.T, url, line string) (bytes func() int) {
	t.Helper()
	reply, err := http.Get(url + "events?line=" + line)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	var mu sync.Mutex
	n, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReader(reply.Body)
		for {
			text, err := lines.ReadString('\n')
			mu.Lock()
			n += len(text)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { reply.Body.Close(); <-done })
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// reads returns how many requests zkr serve has sent, those of the crowd left out.
func reads(c zktest.Counts) (n int) {
	for op, count := range c.Requests {
		if op != "create" && op != "delete" {
			n += count
		}
	}
	return n
}

// Each line hands over every 10 s or more often, and three browsers look. The bound on requests
// holds once all is read.
func TestServeSendsFewRequestsAndTakesLittleTime(t *testing.T) {
	t.Parallel()
	lines, places, limit, duration := 30, 20, 40, 12*time.Second
	if *long {
		lines, places, limit, duration = 200, 51, 80, 4*time.Minute
	}
	srv := newServer(t)
	crowd := newCrowd(t, srv, lines, places)
	p := start(t, srv.Addr(), "serve", "--listen", "127.0.0.1:0", "--requests", fmt.Sprint(limit))
	url := p.address()
	var browsers []func() int
	for i := range 3 {
		browsers = append(browsers, watchPage(t, url, crowd.path(i)))
	}
	eventually(t, "watches", func() bool { return srv.Counts().Requests["getChildren2"] > 2*lines })
	eventually(t, "all places are read", func() bool { return srv.Counts().Requests["getData"] >= lines*(places+1) })
	before, cpu, began := srv.Counts(), cpuOf(t, p), time.Now()
	tick := time.NewTicker(10 * time.Second / time.Duration(lines))
	defer tick.Stop()
	for i := 0; time.Since(began) < duration; i++ {
		<-tick.C
		crowd.handOver(i % lines)
	}
	took := time.Since(began).Seconds()
	sent, busy := reads(srv.Counts().Sub(before)), cpuOf(t, p)-cpu
	kib := 0
	for _, bytes := range browsers {
		kib += bytes() / 1024
	}
	t.Logf("%d lines of %d places, %.0f s: %.1f requests/s, %.3f of a core, %.1f KiB/s to each of %d browsers; %v",
		lines, places, took, float64(sent)/took, busy.Seconds()/took, float64(kib)/took/float64(len(browsers)), len(browsers),
		srv.Counts().Sub(before).Requests)
	// What the limit lets through at once is half of it, and the session's pings are no reads.
	require.LessOrEqual(t, float64(sent), float64(limit)*(took+1))
	require.Greater(t, float64(sent), took, "it looks at all")
	if *long {
		require.Less(t, busy.Seconds()/took, 0.1)
	}
	p.signal(syscall.SIGTERM)
	require.Equal(t, 128+15, p.wait())
}

// Everybody who may write znodes chooses identities, of up to a megabyte.
func TestServeKeepsAPartOfEachLongIdentity(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	crowd := newCrowd(t, srv, 1, 0)
	long := bytes.Repeat([]byte("x"), 500_000)
	for i := range 100 {
		_, err := crowd.conn.Create(fmt.Sprintf("%s/_c_%08d-0000-4000-8000-000000000000-lock-", crowd.path(0), i), long,
			zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	p := start(t, srv.Addr(), "serve", "--listen", "127.0.0.1:0")
	shown := watchPage(t, p.address(), crowd.path(0))
	eventually(t, "the places", func() bool { return shown() > 100*250 })
	peak := peakOf(t, p)
	t.Logf("100 identities of 500 kB: %d MiB at most", peak)
	require.Less(t, peak, 100)
}
