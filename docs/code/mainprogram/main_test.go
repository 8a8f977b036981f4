//go:build unix

package main

import (
	"bufio"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The test binary is also the program: with asProgram set it runs main.
const asProgram = "ZKRECIPES_MAINPROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a process that runs main.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Scanner
}

func start(t *testing.T, servers string) *program {
	p := &program{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "ZK_SERVERS="+servers)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p.cmd.Stderr = w
	require.NoError(t, p.cmd.Start())
	w.Close()
	p.out = bufio.NewScanner(r)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		r.Close()
	})
	return p
}

var (
	shipped = regexp.MustCompile(`shipped with token (\d+)`)
	lost    = regexp.MustCompile(`lease lost`)
	evicted = regexp.MustCompile(`again: .*evicted from the line`)
)

// lines yields what the program prints.
func (p *program) lines() iter.Seq[string] {
	return func(yield func(string) bool) {
		for p.out.Scan() && yield(p.out.Text()) {
			p.t.Log(p.out.Text())
		}
	}
}

// until reads the program's output up to a line that matches.
func (p *program) until(re *regexp.Regexp) []string {
	for line := range p.lines() {
		if m := re.FindStringSubmatch(line); m != nil {
			return m
		}
	}
	require.Failf(p.t, "the program ended", "before it printed %v", re)
	return nil
}

func (p *program) token() int {
	n, err := strconv.Atoi(p.until(shipped)[1])
	require.NoError(p.t, err)
	return n
}

// stop asks the program to stop and waits until it has.
func (p *program) stop() {
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	for range p.lines() { // to the end
	}
	require.NoError(p.t, p.cmd.Wait())
}

func TestTheProgramShipsLosesTheLockGoesOnAndStops(t *testing.T) {
	places := make(chan zktest.Change, 1000)
	srv := zktest.NewServer(t, zktest.OnChange(func(c zktest.Change) {
		if c.Created && strings.HasPrefix(c.Path, "/app/locks/orders/_c_") {
			places <- c
		}
	}))
	p := start(t, srv.Addr()+"/app")
	first := p.token()

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
	p.until(lost)
	close(noticed)
	expiring.Wait()
	require.Greater(t, p.token(), first, "the next holder's token is higher")

	p.stop()
	require.Empty(t, srv.Sessions(), "the session was closed")
	require.Empty(t, srv.Children("/app/locks/orders"), "the lock was released")
	require.NotEmpty(t, srv.Children("/app/locks"), "below the prefix")
}

func TestTheProgramWaitsAgainAfterAnEviction(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(t.Context())
	require.NoError(t, err)
	p := start(t, srv.Addr())
	require.Eventually(t, func() bool { return len(srv.Children("/locks/orders")) == 2 }, time.Minute, time.Millisecond)
	for _, place := range srv.Children("/locks/orders") {
		if place := "/locks/orders/" + place; place != lease.Check().Path {
			_, err = lease.Commit(t.Context(), zkrecipes.OpDelete(place, -1))
			require.NoError(t, err)
		}
	}
	p.until(evicted)
	require.NoError(t, lease.Release())
	require.Greater(t, p.token(), int(lease.Token()))
	p.stop()
}

func TestTwoProgramsTakeTurns(t *testing.T) {
	srv := zktest.NewServer(t)
	a, b := start(t, srv.Addr()), start(t, srv.Addr())
	ta, tb := a.token(), b.token()
	require.NotEqual(t, ta, tb)
	a.stop()
	require.Greater(t, b.token(), tb)
	b.stop()
}
