//go:build unix

package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// world is a hub in simulated time, without a page.
type world struct {
	t    *testing.T
	srv  *zktest.Server
	hub  *hub
	hide func() // has the browser leave
}

// inBubble calls build, then starts a hub and calls f.
func inBubble(t *testing.T, opts Options, build, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, srv: zktest.NewServer(t, zktest.InMemory())}
		build(w)
		w.hub = newHub(w.dial("zkr"), opts)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.hub.run(ctx) }()
		w.show("")
		f(w)
		w.hide()
		stop()
		<-done
	})
}

// show has a browser come that shows a line.
func (w *world) show(path string) {
	hide, ok := w.hub.show(path)
	require.True(w.t, ok)
	w.hide = hide
}

func (w *world) dial(identity string) *zkrecipes.Client {
	w.t.Helper()
	return recipetest.DialTo(w.t, []string{"zk:2181"}, &zkrecipes.Options{Identity: identity, Dialer: w.srv.DialContext})
}

// after returns how long it took, in steps of 100 ms, until f was true of the hub.
func (w *world) after(most time.Duration, what string, f func(h *hub) bool) time.Duration {
	w.t.Helper()
	since := time.Now()
	for {
		w.hub.mu.Lock()
		is := f(w.hub)
		w.hub.mu.Unlock()
		took := time.Since(since)
		if is {
			return took
		}
		if took > most {
			w.hub.mu.Lock()
			known, looked, unread := w.hub.progress()
			w.t.Logf("%d lines, %d looked at, %d places unread, %d directories", known, looked, unread, len(w.hub.dirs))
			w.hub.mu.Unlock()
			require.FailNow(w.t, "too late", "%s: not after %v", what, took)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *world) awaitFirstReading() time.Duration {
	w.t.Helper()
	return w.after(30*time.Second, "all is read", func(h *hub) bool {
		known, looked, unread := h.progress()
		return !h.walked.IsZero() && known == looked && unread == 0
	})
}

// deadlock makes two sessions wait for each other at two paths.
func (w *world) deadlock(x, y string) (one *zkrecipes.Client) {
	one, two := w.dial("one"), w.dial("two")
	w.lock(one, x)
	w.lock(two, y)
	w.waitFor(one, y)
	w.waitFor(two, x)
	return one
}

func (w *world) lock(c *zkrecipes.Client, path string) {
	w.t.Helper()
	recipetest.LockOn(w.t, zkrecipes.NewMutex(c, path))
}

// waitFor has a Client wait for a lock until the end of the test.
func (w *world) waitFor(c *zkrecipes.Client, path string) {
	recipetest.LockLater(w.t, zkrecipes.NewMutex(c, path))
	synctest.Wait()
}

func hasDeadlock(h *hub) bool { return len(h.deadlocked) > 0 }

// sent returns how many requests the page has sent meanwhile. All others in these tests write.
func (w *world) sent(f func()) (n int) {
	before := w.srv.Counts()
	f()
	for op, requests := range w.srv.Counts().Sub(before).Requests {
		if op == "sync" || op == "exists" || strings.HasPrefix(op, "get") {
			n += requests
		}
	}
	return n
}

// keepBusy has a place come to and go from each of the first n locks, twice a second.
func (w *world) keepBusy(n int) {
	c, ctx := w.dial("busy"), w.t.Context()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := 0; ctx.Err() == nil; round++ {
			for first := 0; first < n; first += 100 {
				var ops []zkrecipes.Op
				for i := first; i < min(n, first+100); i++ {
					place := func(round int) string {
						return fmt.Sprintf("/locks/%04d/_c_00000000-0000-4000-8000-000000000000-lock-%010d", i, round)
					}
					ops = append(ops, zkrecipes.OpCreate(place(round), []byte("busy"), zk.FlagEphemeral, nil))
					if round > 0 {
						ops = append(ops, zkrecipes.OpDelete(place(round-1), -1))
					}
				}
				if _, err := c.Commit(ctx, ops...); err != nil {
					return
				}
			}
			_ = sleep(ctx, 500*time.Millisecond)
		}
	}()
	w.t.Cleanup(func() { <-done })
}

func TestADeadlockOfTwoNewLocksAmong2000IsShownWithin10Seconds(t *testing.T) {
	opts := Options{Root: "/", Refresh: 10 * time.Second, Requests: 80, Lines: 5000, Stale: time.Minute}
	for _, busy := range []int{0, 500} {
		t.Run(fmt.Sprint(busy, " are busy"), func(t *testing.T) {
			inBubble(t, opts, func(w *world) { recipetest.MakeLocks(w.t, w.dial("maker"), "/locks", 2000) }, func(w *world) {
				t.Logf("2,000 locks are read after %v", w.awaitFirstReading())
				if busy > 0 {
					w.keepBusy(busy)
					for i := range 3 { // of which browsers show some
						hide, ok := w.hub.show(fmt.Sprintf("/locks/%04d", i))
						require.True(t, ok)
						defer hide()
					}
					time.Sleep(time.Minute) // all shares that can be used up are
				}
				const observed = time.Minute
				sent := w.sent(func() {
					since := time.Now()
					w.deadlock("/locks/new-x", "/locks/new-y")
					t.Logf("the deadlock is shown after %v", w.after(10*time.Second, "a deadlock", hasDeadlock))
					time.Sleep(observed - time.Since(since))
				})
				t.Logf("%.1f requests/s", float64(sent)/observed.Seconds())
				bound := opts.Requests*int(observed/time.Second) + opts.Requests/2 // and the burst
				require.LessOrEqual(t, sent, bound)
			})
		})
	}
}

// No walk finds what comes here: the next one is in an hour.
func TestWhatIsNewIsFoundWithoutAWalk(t *testing.T) {
	opts := Options{Root: "/", Refresh: time.Hour, Requests: 80, Lines: 100, Stale: time.Minute}
	inBubble(t, opts, func(w *world) { recipetest.MakeLocks(w.t, w.dial("maker"), "/locks", 30) }, func(w *world) {
		w.awaitFirstReading()
		c := w.dial("new")
		sem := zkrecipes.NewSemaphore(c, "/limits/api", 2)
		for path, use := range map[string]func() error{
			"/locks/new":        func() error { _, err := zkrecipes.NewMutex(c, "/locks/new").Lock(w.t.Context()); return err },
			"/apps/new/locks/a": func() error { _, err := zkrecipes.NewMutex(c, "/apps/new/locks/a").Lock(w.t.Context()); return err },
			"/limits/api":       func() error { _, err := sem.Acquire(w.t.Context()); return err },
			"/jobs": func() error {
				_, err := zkrecipes.NewQueue(c, "/jobs", nil).Put(w.t.Context(), []byte("a"))
				return err
			},
		} {
			require.NoError(w.t, use())
			t.Logf("%s is there after %v", path, w.after(10*time.Second, path, func(h *hub) bool { return h.lines[path] != nil }))
		}
		// A path that is empty at first, as one is that a deployment has made.
		_, err := c.Commit(w.t.Context(), zkrecipes.OpCreate("/empty", nil, 0, nil))
		require.NoError(w.t, err)
		time.Sleep(time.Minute)
		w.lock(c, "/empty/lock")
		w.after(10*time.Second, "/empty/lock", func(h *hub) bool { return h.lines["/empty/lock"] != nil })
	})
}

func TestAPageThatHasNotReadSaysSo(t *testing.T) {
	opts := Options{Root: "/", Refresh: 10 * time.Second, Requests: 4, Lines: 5000, Stale: time.Minute}
	inBubble(t, opts, func(w *world) {
		recipetest.MakeLocks(w.t, w.dial("maker"), "/locks", 300)
		w.lock(w.dial("holder"), "/locks/0299")
	}, func(w *world) {
		w.after(time.Minute, "a part", func(h *hub) bool {
			s := h.newStatus(time.Now())
			return s.Known == 301 && s.Looked > 0 && s.Looked < 100
		})
		w.after(10*time.Minute, "all is read", func(h *hub) bool { return h.newStatus(time.Now()).Looked == 301 })
		w.after(10*time.Minute, "the holder is read", func(h *hub) bool { return h.newGraph().Unread == 0 })
	})
}

// Each znode that comes to a directory may make a recipe of it. What is below was looked at before.
func TestANewZnodeAboveManyLocksHoldsUpNothing(t *testing.T) {
	opts := Options{Root: "/", Refresh: time.Hour, Requests: 80, Lines: 5000, Stale: time.Minute}
	inBubble(t, opts, func(w *world) { recipetest.MakeLocks(w.t, w.dial("maker"), "/locks", 900) }, func(w *world) {
		w.awaitFirstReading()
		c := w.dial("new")
		for _, path := range []string{"/first", "/second", "/deep/er/third"} {
			w.lock(c, path)
			w.after(10*time.Second, path, func(h *hub) bool { return h.lines[path] != nil })
		}
	})
}

// Nothing says how many of them are read, so the page rests.
func TestATreeWithoutRecipesCostsNoMoreRequests(t *testing.T) {
	opts := Options{Root: "/", Refresh: 10 * time.Second, Requests: 80, Lines: 5000, Stale: time.Minute}
	inBubble(t, opts, func(w *world) {
		c := w.dial("maker")
		_, err := c.Commit(w.t.Context(), zkrecipes.OpCreate("/data", nil, 0, nil))
		require.NoError(w.t, err)
		for i := range 10 {
			dir := fmt.Sprint("/data/", i)
			ops := []zkrecipes.Op{zkrecipes.OpCreate(dir, nil, 0, nil)}
			for n := range 199 {
				ops = append(ops, zkrecipes.OpCreate(fmt.Sprint(dir, "/", n), nil, 0, nil))
			}
			_, err := c.Commit(w.t.Context(), ops...)
			require.NoError(w.t, err)
		}
		w.srv.Plan().Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Times: -1, For: time.Millisecond})
	}, func(w *world) {
		w.awaitFirstReading()
		const observed = 10 * time.Minute
		sent := w.sent(func() { time.Sleep(observed) })
		t.Logf("%.1f requests/s", float64(sent)/observed.Seconds())
		require.LessOrEqual(t, sent, opts.Requests*int(observed/time.Second))
	})
}
