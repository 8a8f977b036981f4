package zkrecipes

import (
	"context"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// watchWorld is a world in which an operator changes znodes.
type watchWorld struct {
	*world
	operator *zk.Conn
}

// inWatchBubble runs f in a bubble with two clients.
func inWatchBubble(t *testing.T, f func(t *testing.T, w *watchWorld, a, b *Client), opts ...zktest.Option) {
	inBubble(t, func(t *testing.T, w *world) {
		w.path = "/config"
		f(t, &watchWorld{w, w.bare()}, w.stranger(nil), w.stranger(nil))
	}, opts...)
}

// Each of these is done by the operator.

func (w *watchWorld) creates(path, data string) {
	w.t.Helper()
	_, err := w.operator.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
	synctest.Wait()
}

func (w *watchWorld) sets(path, data string) {
	w.t.Helper()
	_, err := w.operator.Set(path, []byte(data), -1)
	require.NoError(w.t, err)
	synctest.Wait()
}

func (w *watchWorld) deletes(path string) {
	w.t.Helper()
	require.NoError(w.t, w.operator.Delete(path, -1))
	synctest.Wait()
}

// readout collects what an iterator yields, as texts.
type readout struct {
	t    testing.TB
	stop context.CancelFunc
	mu   sync.Mutex
	all  []string
	err  error
	done chan struct{}
}

func read[A any](t testing.TB, each func(context.Context) iter.Seq2[A, error], text func(A) string) *readout {
	ctx, cancel := context.WithCancel(t.Context())
	r := &readout{t: t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for a, err := range each(ctx) {
			r.mu.Lock()
			if r.err = err; err == nil {
				r.all = append(r.all, text(a))
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	synctest.Wait()
	return r
}

// watchesAt reads what Watch yields: the data, "none" where there is no znode.
func watchesAt(t testing.TB, c *Client, path string) *readout {
	return read(t, func(ctx context.Context) iter.Seq2[Node, error] { return c.Watch(ctx, path) }, func(n Node) string {
		if n.None() {
			return "none"
		}
		return string(n.Data)
	})
}

// listsOf reads what WatchChildren yields: the names, "none" where there is no znode.
func listsOf(t testing.TB, c *Client, path string) *readout {
	return read(t, func(ctx context.Context) iter.Seq2[Children, error] { return c.WatchChildren(ctx, path) }, func(n Children) string {
		if n.None() {
			return "none"
		}
		return fmt.Sprintf("[%s]", strings.Join(n.Names, " "))
	})
}

// texts returns what was yielded.
func (r *readout) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// last returns what was yielded last, "" if nothing was.
func (r *readout) last() string {
	all := r.texts()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// ended waits for the end of the iteration and returns its error.
func (r *readout) ended() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Hour):
		r.t.Fatal("the iteration goes on")
	}
	return r.err
}

// readsOf returns the requests that f makes the server receive, without those of the
// operator and of heartbeats.
func (w *watchWorld) readsOf(f func()) map[string]int {
	w.t.Helper()
	counts := w.requests(f)
	for _, op := range []string{"ping", "create", "setData", "delete"} {
		delete(counts, op)
	}
	return counts
}

// restored returns Options that connect to the world's server, and after switchOver to
// another one, which has had fewer transactions and has the znodes with these paths.
func (w *world) restored() (opts *Options, switchOver func(paths ...string)) {
	other := zktest.NewServer(w.t, zktest.InMemory())
	var switched atomic.Bool
	opts = &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if switched.Load() {
			return other.DialContext(ctx, network, addr)
		}
		return w.srv.DialContext(ctx, network, addr)
	}}
	return opts, func(paths ...string) {
		w.t.Helper()
		conn := harness.RawVia(w.t, other.Dial, other.Addr())
		for _, path := range paths {
			_, err := conn.Create(path, []byte("restored"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(w.t, err)
		}
		switched.Store(true)
		for _, s := range w.srv.Sessions() {
			w.srv.Expire(s.ID)
		}
	}
}
