package recipetest

import (
	"context"
	"errors"
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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// WatchWorld is a world in which an operator changes znodes.
type WatchWorld struct {
	*World
	Operator *zk.Conn
}

// InWatchBubble runs f in a bubble with two clients.
func InWatchBubble(t *testing.T, f func(t *testing.T, w *WatchWorld, a, b *zkrecipes.Client), opts ...zktest.Option) {
	InBubble(t, func(t *testing.T, w *World) {
		w.Path = "/config"
		f(t, &WatchWorld{w, w.Bare()}, w.Stranger(nil), w.Stranger(nil))
	}, opts...)
}

func (w *WatchWorld) Creates(path, data string) {
	w.T.Helper()
	_, err := w.Operator.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	synctest.Wait()
}

func (w *WatchWorld) Sets(path, data string) {
	w.T.Helper()
	_, err := w.Operator.Set(path, []byte(data), -1)
	require.NoError(w.T, err)
	synctest.Wait()
}

func (w *WatchWorld) Deletes(path string) {
	w.T.Helper()
	require.NoError(w.T, w.Operator.Delete(path, -1))
	synctest.Wait()
}

// Readout collects what an iterator yields, as texts.
type Readout struct {
	t    testing.TB
	Stop context.CancelFunc
	mu   sync.Mutex
	all  []string
	Err  error
	done chan struct{}
}

func read[A any](t testing.TB, each func(context.Context) iter.Seq2[A, error], text func(A) string) *Readout {
	ctx, cancel := context.WithCancel(t.Context())
	r := &Readout{t: t, Stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for a, err := range each(ctx) {
			r.mu.Lock()
			if r.Err = err; err == nil {
				r.all = append(r.all, text(a))
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	synctest.Wait()
	return r
}

// Yields reads an iterator in the background. The function that it returns waits until that has
// yielded a text.
func Yields[A any](t testing.TB, each func(context.Context) iter.Seq2[A, error], text func(A) string) (sees func(want string)) {
	ctx, cancel := context.WithCancel(t.Context())
	all, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		for a, err := range each(ctx) {
			if err != nil {
				return
			}
			all <- text(a)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func(want string) {
		t.Helper()
		tooLate := time.After(2 * time.Minute)
		for last := "nothing"; last != want; {
			select {
			case last = <-all:
			case <-tooLate:
				require.FailNow(t, "not seen", "%q, and %q was seen last", want, last)
			}
		}
	}
}

// WatchesAt reads what Watch yields: the data, "none" where there is no znode.
func WatchesAt(t testing.TB, c *zkrecipes.Client, path string) *Readout {
	return read(t, func(ctx context.Context) iter.Seq2[zkrecipes.Node, error] { return c.Watch(ctx, path) }, func(n zkrecipes.Node) string {
		if n.None() {
			return "none"
		}
		return string(n.Data)
	})
}

// ListsOf reads what WatchChildren yields: the names, "none" where there is no znode.
func ListsOf(t testing.TB, c *zkrecipes.Client, path string) *Readout {
	return read(t, func(ctx context.Context) iter.Seq2[zkrecipes.Children, error] { return c.WatchChildren(ctx, path) }, func(n zkrecipes.Children) string {
		if n.None() {
			return "none"
		}
		return fmt.Sprintf("[%s]", strings.Join(n.Names, " "))
	})
}

// Texts returns what was yielded.
func (r *Readout) Texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Last returns what was yielded last, "" if nothing was.
func (r *Readout) Last() string {
	all := r.Texts()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// Ended waits for the end of the iteration and returns its error.
func (r *Readout) Ended() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Hour):
		r.t.Fatal("the iteration goes on")
	}
	return r.Err
}

// ReadsOf returns the requests that f makes the server receive, without those of the
// operator and of heartbeats.
func (w *WatchWorld) ReadsOf(f func()) map[string]int {
	w.T.Helper()
	counts := w.Requests(f)
	for _, op := range []string{"ping", "create", "setData", "delete"} {
		delete(counts, op)
	}
	return counts
}

// Restored returns Options that connect to the world's server, and after switchOver to
// another one, which has had fewer transactions and has the znodes with these paths.
func (w *World) Restored() (opts *zkrecipes.Options, switchOver func(paths ...string)) {
	other := zktest.NewServer(w.T, zktest.InMemory())
	var switched atomic.Bool
	opts = &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if switched.Load() {
			return other.DialContext(ctx, network, addr)
		}
		return w.Srv.DialContext(ctx, network, addr)
	}}
	return opts, func(paths ...string) {
		w.T.Helper()
		conn := harness.RawVia(w.T, other.Dial, other.Addr())
		for _, path := range paths {
			_, err := conn.Create(path, []byte("restored"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(w.T, err)
		}
		switched.Store(true)
		for _, s := range w.Srv.Sessions() {
			w.Srv.Expire(s.ID)
		}
	}
}

// Insists repeats a change until it is applied. done is the error of one that was applied before.
func (w *WatchWorld) Insists(change func() error, done error) {
	w.T.Helper()
	for {
		err := change()
		if err == nil || done != nil && errors.Is(err, done) {
			break
		}
		require.True(w.T, errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrNoServer) || err.Error() == "unknown error: -7", "%v", err)
		time.Sleep(time.Second)
	}
	time.Sleep(5 * time.Second)
}
