package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
)

// Nothing is a function for Do.
func Nothing(context.Context, *zkrecipes.Lease) error { return nil }

// Rig is the path of a line on the shared server, and a connection that bypasses the library.
type Rig struct {
	T    *testing.T
	Ctx  context.Context
	Path string
	Raw  *zk.Conn
}

// LockOn locks m and fails the test if it cannot.
func LockOn(t testing.TB, m *zkrecipes.Mutex) *zkrecipes.Lease {
	t.Helper()
	return Held(t, m.Lock)
}

// LockLater locks m in the background.
func LockLater(t testing.TB, m *zkrecipes.Mutex) *harness.Call[*zkrecipes.Lease] {
	return harness.Go(t, m.Lock)
}

// Queued waits until the line has n places.
func (r *Rig) Queued(n int) {
	r.T.Helper()
	harness.Eventually(r.T, "places in line", func() bool { return len(harness.Children(r.T, r.Raw, r.Path)) == n })
}

// TracedEvent is what tests read of the arguments of a Trace's functions.
type TracedEvent struct {
	Time    time.Time
	Path    string
	Session int64
	Place   string
}

// TraceOf returns a Trace that calls note: "queued"; for the end of an acquisition "granted",
// "passed" if there is nothing to hold, or "failed"; for the end of a hold "released",
// "lost" or "closed"; "up" for a connected session.
func TraceOf(note func(what string, e TracedEvent)) *zkrecipes.Trace {
	return &zkrecipes.Trace{
		Queued: func(_ context.Context, e zkrecipes.TraceQueued) {
			note("queued", TracedEvent{e.Time, e.Path, e.Session, e.Place})
		},
		AcquireEnd: func(_ context.Context, e zkrecipes.TraceAcquireEnd) {
			what := "granted"
			if e.Err != nil {
				what = "failed"
			} else if e.Token == 0 {
				what = "passed"
			}
			note(what, TracedEvent{e.Time, e.Path, e.Session, e.Place})
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) {
			what := "released"
			if errors.Is(e.Err, zkrecipes.ErrClosed) {
				what = "closed"
			} else if e.Err != nil {
				what = "lost"
			}
			note(what, TracedEvent{e.Time, e.Path, e.Session, e.Place})
		},
		Session: func(e zkrecipes.TraceSession) {
			if e.State == zkrecipes.SessionConnected {
				note("up", TracedEvent{Time: e.Time, Session: e.ID})
			}
		},
	}
}

// Recorder keeps the events that a Client's Trace reports.
type Recorder struct {
	mu       sync.Mutex
	reported map[string][]TracedEvent
}

func NewRecorder() *Recorder { return &Recorder{reported: map[string][]TracedEvent{}} }

func (r *Recorder) Trace() *zkrecipes.Trace {
	return TraceOf(func(what string, e TracedEvent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reported[what] = append(r.reported[what], e)
	})
}

func (r *Recorder) Of(what string) []TracedEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reported[what])
}

// Nth waits until an event has been reported n times, and returns the nth.
func (r *Recorder) Nth(t testing.TB, n int, what string) TracedEvent {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d events %q", n, what), func() bool { return len(r.Of(what)) >= n })
	return r.Of(what)[n-1]
}

// Places returns the names of the places in a line, in order.
func Places(t testing.TB, servers []string, path string) (names []string) {
	t.Helper()
	conn := harness.RawTo(t, servers)
	defer conn.Close() // go-zookeeper's Close can hang for a minute when its server dies
	_, err := conn.Sync(path)
	require.NoError(t, err)
	ms := layout.ParsePlaces(harness.Children(t, conn, path), layout.LockKinds)
	slices.SortFunc(ms, layout.PlaceName.Compare)
	for _, m := range ms {
		names = append(names, m.Name)
	}
	return names
}

// Held takes a lock with the given method and fails the test if it cannot.
func Held(t testing.TB, lock func(context.Context) (*zkrecipes.Lease, error)) *zkrecipes.Lease {
	t.Helper()
	l, err := lock(harness.Within(t, 2*time.Minute))
	require.NoError(t, err)
	return l
}

// Later takes a lock with the given method in the background.
func Later(t testing.TB, lock func(context.Context) (*zkrecipes.Lease, error)) *harness.Call[*zkrecipes.Lease] {
	return harness.Go(t, lock)
}

// CuratorUUID returns the nth of some UUIDs of version 4, which Curator uses.
func CuratorUUID(n int) string { return fmt.Sprintf("7a1b2c3d-4e5f-4a6b-8c7d-%012d", n) }

// Dial returns a Client on the shared server, closed at the end of the test.
func Dial(t testing.TB, opts *zkrecipes.Options) *zkrecipes.Client {
	t.Helper()
	return DialTo(t, harness.Servers(), opts)
}

// DialTo returns a Client on the given servers, closed at the end of the test.
func DialTo(t testing.TB, servers []string, opts *zkrecipes.Options) *zkrecipes.Client {
	t.Helper()
	c, err := zkrecipes.Dial(harness.Within(t, 2*time.Minute), servers, opts)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
