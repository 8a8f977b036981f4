package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// In a long line whoever joins finds its predecessor by the line's data and by its own
// number, without a list.

// guesser is a client that takes every line for long, behind a link.
type guesser struct {
	*world
	c    *Client
	link *harness.Link
}

func (w *world) guesser() *guesser {
	w.t.Helper()
	g := &guesser{world: w, link: harness.NewLink(w.srv)}
	ctx := tuning.WithLongLine(w.t.Context(), 0)
	c, err := Dial(ctx, []string{w.srv.Addr()}, &Options{Dialer: g.link.Dial})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	require.NoError(w.t, NewMutex(c, w.path).Do(ctx, nothing)) // looks at the line
	g.c = c
	return g
}

// joinOfLongLine is what a join costs that need not list.
var joinOfLongLine = map[string]int{"getData": 3, opJoin: 1}

func TestJoinOfALongLineTakesTwoRoundTripsAndNoList(t *testing.T) {
	const latency = 100 * time.Millisecond // a ping or a watch on the holder's place comes later
	for _, n := range []int{200, 1000, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				holder, conn := w.client(nil), w.bare()
				link, queued := harness.NewLink(w.srv), time.Time{}
				c := w.client(&Options{Dialer: link.Dial, Trace: &Trace{Queued: func(_ context.Context, e TraceQueued) {
					require.Equal(t, n+2, e.Ahead)
					queued = time.Now()
				}}})
				current := lockOn(t, NewMutex(holder, w.path))
				w.stand(conn, line.KindLock, n)
				before := w.lockLater(w.stranger(nil))
				_, err := NewMutex(c, w.path).TryLock(t.Context())
				require.ErrorIs(t, err, ErrLocked) // it has seen how long the line is
				s, _ := c.client.Session()
				require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session

				link.SetLatency(latency)
				received, began := link.Received(), time.Now()
				var a *harness.Call[*Lease]
				require.Equal(t, joinOfLongLine, w.requests(func() {
					a = w.lockLater(c)
					time.Sleep(3 * latency)
				}))
				require.Equal(t, 2*latency, queued.Sub(began), "two round trips")

				conn.Close()
				require.NoError(t, current.Release())
				require.NoError(t, before.Get().Release())
				require.NoError(t, a.Get().Release())
				require.Less(t, link.Received()-received, 1500, "bytes of a full cycle")
			})
		})
	}
}

// In a short line: the join, the listing, and both watches together.
func TestJoinOfAShortLineTakesThreeRoundTrips(t *testing.T) {
	const latency = 100 * time.Millisecond
	inBubble(t, func(t *testing.T, w *world) {
		link, queued := harness.NewLink(w.srv), time.Time{}
		c := w.client(&Options{Dialer: link.Dial, Trace: &Trace{Queued: func(context.Context, TraceQueued) { queued = time.Now() }}})
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		s, _ := c.client.Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		link.SetLatency(latency)
		began := time.Now()
		a := w.lockLater(c)
		time.Sleep(4 * latency)
		synctest.Wait()
		require.Equal(t, 3*latency, queued.Sub(began))
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

// A guess that is wrong costs a list, and nothing else.
func TestAWrongGuessIsNotBelieved(t *testing.T) {
	const foreign, theirs = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", "zkrecipes/1 mutex"
	name := func(of *Lease) string { return of.Check().Path[len("/line/"):] }
	for _, tt := range []struct {
		name string
		data func(l *Lease) string // of the line before the join
		join []string              // places of others that join before
	}{
		{"another library's place has joined since", nil, []string{foreign}},
		{"several have", nil, []string{foreign, foreign}},
		{"no record", func(*Lease) string { return theirs }, nil},
		{"a place that there never was", func(*Lease) string { return theirs + " _c_" + line.NewUUID(true) + "-lock-" }, nil},
		{"a kind that is foreign to the recipe", func(l *Lease) string { return theirs + " " + name(l)[:len("_c_")+37] + "__WRIT__" }, nil},
		{"no kind", func(l *Lease) string { return theirs + " " + name(l)[:len("_c_")+37] }, nil},
		{"a path", func(*Lease) string { return theirs + " _c_/////////////////8/////////////////////-lock-" }, nil},
		{"another recipe's record", func(l *Lease) string { return "zkrecipes/1 rwlock " + name(l)[:len(name(l))-10] }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				g, conn := w.guesser(), w.insider()
				l := lockOn(t, NewMutex(w.client(nil), w.path))
				if tt.data != nil {
					_, err := conn.Set(w.path, []byte(tt.data(l)), -1)
					require.NoError(t, err)
				}
				var others []string
				for _, prefix := range tt.join {
					p, err := conn.Create(w.path+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					others = append(others, p)
				}
				var a *harness.Call[*Lease]
				requests := w.requests(func() { a = w.lockLater(g.c) })
				require.Equal(t, 1, requests["getChildren2"], requests)
				behind := w.lockLater(g.c)
				require.NoError(t, l.Release())
				for _, p := range others {
					synctest.Wait()
					require.True(t, a.Waiting())
					require.NoError(t, conn.Delete(p, -1))
				}
				require.NoError(t, a.Get().Release())
				require.NoError(t, behind.Get().Release())
			})
		})
	}
}

func TestAGuessThatHasLeftIsFoundOutByTheWatch(t *testing.T) {
	const latency = time.Second
	for _, tt := range []struct {
		name  string
		leave func(t *testing.T, l *Lease, before *harness.Call[*Lease])
		first bool
	}{
		{"the holder releases", func(t *testing.T, l *Lease, before *harness.Call[*Lease]) {
			require.NoError(t, l.Release())
			require.NoError(t, before.Get().Release())
		}, true},
		{"a waiter gives up", func(t *testing.T, _ *Lease, before *harness.Call[*Lease]) {
			before.Cancel(nil)
			_, err := before.Wait()
			require.ErrorIs(t, err, context.Canceled)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				g := w.guesser()
				l := lockOn(t, NewMutex(w.client(nil), w.path))
				before := w.lockLater(w.stranger(nil))
				g.link.SetLatency(latency)
				a := w.lockLater(g.c)
				time.Sleep(latency / 2) // the join is done, and its reply is under way
				tt.leave(t, l, before)
				time.Sleep(4 * latency)
				require.Equal(t, !tt.first, a.Waiting())
				if !tt.first {
					require.NoError(t, l.Release())
				}
				require.NoError(t, a.Get().Release())
			})
		})
	}
}

// Where places leave before their successors watch them, each guess would cost a round trip
// more than a listing.
func TestAClientWhoseGuessHadLeftListsUntilItSeesItsPredecessor(t *testing.T) {
	const latency = time.Second
	inBubble(t, func(t *testing.T, w *world) {
		g := w.guesser()
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		before := w.lockLater(w.stranger(nil))
		s, _ := g.c.client.Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		g.link.SetLatency(latency)
		calls := []*harness.Call[*Lease]{w.lockLater(g.c)}
		time.Sleep(latency / 2)
		before.Cancel(nil)
		time.Sleep(5 * latency)
		g.link.SetLatency(0)
		join := func() map[string]int {
			return w.requests(func() { calls = append(calls, w.lockLater(g.c)) })
		}
		// The predecessor is of the same client, which watches it already.
		require.Equal(t, map[string]int{opJoin: 1, "getChildren2": 1, "getData": 1}, join(), "it lists, and sees its predecessor")
		require.Equal(t, map[string]int{opJoin: 1, "getData": 2}, join())
		require.NoError(t, l.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}

// The line's Stat tells whether somebody has joined between the read and the join.
func TestAGuessThatIsKnownToBeWrongIsNotWatched(t *testing.T) {
	const late = 100 * time.Millisecond // a ping or a watch on the holder's place comes later
	inBubble(t, func(t *testing.T, w *world) {
		g, other := w.guesser(), w.stranger(nil)
		require.NoError(t, NewMutex(other, w.path).Do(t.Context(), nothing))
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		for _, c := range []*Client{g.c, other} {
			s, _ := c.client.Session()
			require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		}
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opJoin, For: late})
		var a, between *harness.Call[*Lease]
		require.Equal(t, map[string]int{opJoin: 2, "getChildren2": 2, "getData": 5}, w.requests(func() {
			a = w.lockLater(g.c)
			between = w.lockLater(other) // in a line that is short to it
			time.Sleep(2 * late)
		}), "the line and two watches of the one, and two of the other")
		var behind *harness.Call[*Lease]
		require.Zero(t, w.requests(func() { behind = w.lockLater(g.c) })["getChildren2"], "it goes on guessing")
		require.NoError(t, l.Release())
		for _, next := range []*harness.Call[*Lease]{between, a, behind} {
			require.NoError(t, next.Get().Release())
		}
	})
}

// The Stat counts each creation twice, in 32 bits.
func TestGuessesGoOnInTheSecondHalfOfTheCounter(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := w.guesser()
		require.NoError(t, w.srv.SetCounter(w.path, 1<<30+7))
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		s, _ := g.c.client.Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		var a *harness.Call[*Lease]
		require.Equal(t, joinOfLongLine, w.requests(func() { a = w.lockLater(g.c) }))
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

// Readers leave in any order, so a reader does not wait for the reader ahead of it. It
// asks the line only if its client's last place was behind a writer.
func TestAReaderGuessesWritersOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g, path := w.guesser(), w.path+"-rw"
		readers, writers := NewRWLock(g.c, path), NewRWLock(w.stranger(nil), path)
		require.NoError(t, readers.Do(t.Context(), nothing))
		current := held(t, writers.Lock)
		var calls []*harness.Call[*Lease]
		join := func(l locker) map[string]int {
			return w.requests(func() { calls = append(calls, later(t, l.Lock)) })
		}
		listed := map[string]int{"getData": 2, opJoin: 1, "getChildren2": 1}
		require.Equal(t, map[string]int{"getData": 2, opJoin: 1, "getChildren2": 1, opACLProbe: 1}, join(reading{readers}), "behind a writer, for the first time")
		join(writers)
		require.Equal(t, joinOfLongLine, join(reading{readers}), "behind a writer again")
		require.Equal(t, listed, join(reading{readers}), "behind a reader; the writer is watched already")
		listed["getData"] = 1
		require.Equal(t, listed, join(reading{readers}), "behind a reader again")
		require.NoError(t, current.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}

// The read by which a client learns of a line tells its length and the kind of its last place.
func TestFirstJoinOfALongLineDoesNotListIt(t *testing.T) {
	for _, tt := range []struct {
		name           string
		ahead, joining func(*Client, string) locker
	}{
		{"mutex", mutex, mutex},
		{"writer", writer, writer},
		{"reader", writer, reader},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				ahead := tt.ahead(w.client(nil), w.path)
				l := held(t, ahead.Lock)
				var calls []*harness.Call[*Lease]
				for range line.LongLine {
					calls = append(calls, later(t, ahead.Lock))
					synctest.Wait()
				}
				newcomer := w.stranger(nil)
				requests := w.requests(func() { calls = append(calls, later(t, tt.joining(newcomer, w.path).Lock)) })
				require.Zero(t, requests["getChildren2"], requests)
				require.Equal(t, 1, requests[opJoin])
				require.NoError(t, l.Release())
				for _, a := range calls {
					require.NoError(t, a.Get().Release())
				}
			})
		})
	}
}

// The queue's and any other recipe's lines are read only when they are long.
func TestAShortLineIsNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		var calls []*harness.Call[*Lease]
		for i := range line.LongLine + 4 {
			requests := w.requests(func() { calls = append(calls, w.lockLater(c)) })
			lists := 1
			if i >= line.LongLine { // it saw more than longLine places at its last join
				lists = 0
			}
			require.Equal(t, lists, requests["getChildren2"], "join %d: %v", i, requests)
		}
		require.NoError(t, l.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}
