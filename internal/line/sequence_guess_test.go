package line_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// In a long line whoever joins finds its predecessor by the line's data and by its own
// number, without a list.

func TestJoinOfALongLineTakesTwoRoundTripsAndNoList(t *testing.T) {
	const latency = 100 * time.Millisecond // a ping or a watch on the holder's place comes later
	for _, n := range []int{200, 1000, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				holder, conn := w.Client(nil), w.Bare()
				link, queued := harness.NewLink(w.Srv), time.Time{}
				c := w.Client(&zkrecipes.Options{Dialer: link.Dial, Trace: &zkrecipes.Trace{Queued: func(_ context.Context, e zkrecipes.TraceQueued) {
					require.Equal(t, n+2, e.Ahead)
					queued = time.Now()
				}}})
				current := recipetest.LockOn(t, zkrecipes.NewMutex(holder, w.Path))
				w.Stand(conn, placename.KindLock, n)
				before := w.LockLater(w.Stranger(nil))
				_, err := zkrecipes.NewMutex(c, w.Path).TryLock(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrLocked) // it has seen how long the line is
				s, _ := recipetest.Core(c).Session()
				require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session

				link.SetLatency(latency)
				received, began := link.Received(), time.Now()
				var a *harness.Call[*zkrecipes.Lease]
				joins := w.Requests(func() {
					a = w.LockLater(c)
					time.Sleep(3 * latency)
				})
				require.Zero(t, joins["getChildren2"])
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		link, queued := harness.NewLink(w.Srv), time.Time{}
		c := w.Client(&zkrecipes.Options{Dialer: link.Dial, Trace: &zkrecipes.Trace{Queued: func(context.Context, zkrecipes.TraceQueued) { queued = time.Now() }}})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		s, _ := recipetest.Core(c).Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		link.SetLatency(latency)
		began := time.Now()
		a := w.LockLater(c)
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
	name := func(of *zkrecipes.Lease) string { return of.Check().Path[len("/line/"):] }
	for _, tt := range []struct {
		name string
		data func(l *zkrecipes.Lease) string // of the line before the join
		join []string                        // places of others that join before
	}{
		{"another library's place has joined since", nil, []string{foreign}},
		{"several have", nil, []string{foreign, foreign}},
		{"no record", func(*zkrecipes.Lease) string { return theirs }, nil},
		{"a place that there never was", func(*zkrecipes.Lease) string { return theirs + " _c_" + placename.NewUUID(true) + "-lock-" }, nil},
		{"a kind that is foreign to the recipe", func(l *zkrecipes.Lease) string { return theirs + " " + name(l)[:len("_c_")+37] + "__WRIT__" }, nil},
		{"no kind", func(l *zkrecipes.Lease) string { return theirs + " " + name(l)[:len("_c_")+37] }, nil},
		{"a path", func(*zkrecipes.Lease) string { return theirs + " _c_/////////////////8/////////////////////-lock-" }, nil},
		{"another recipe's record", func(l *zkrecipes.Lease) string { return "zkrecipes/1 rwlock " + name(l)[:len(name(l))-10] }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				g, conn := w.Guesser(), w.Insider()
				l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
				if tt.data != nil {
					_, err := conn.Set(w.Path, []byte(tt.data(l)), -1)
					require.NoError(t, err)
				}
				var others []string
				for _, prefix := range tt.join {
					p, err := conn.Create(w.Path+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					others = append(others, p)
				}
				var a *harness.Call[*zkrecipes.Lease]
				requests := w.Requests(func() { a = w.LockLater(g.C) })
				require.Equal(t, 1, requests["getChildren2"], requests)
				behind := w.LockLater(g.C)
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
		leave func(t *testing.T, l *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease])
		first bool
	}{
		{"the holder releases", func(t *testing.T, l *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease]) {
			require.NoError(t, l.Release())
			require.NoError(t, before.Get().Release())
		}, true},
		{"a waiter gives up", func(t *testing.T, _ *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease]) {
			before.Cancel(nil)
			_, err := before.Wait()
			require.ErrorIs(t, err, context.Canceled)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				g := w.Guesser()
				l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
				before := w.LockLater(w.Stranger(nil))
				g.Link.SetLatency(latency)
				a := w.LockLater(g.C)
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g := w.Guesser()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		before := w.LockLater(w.Stranger(nil))
		s, _ := recipetest.Core(g.C).Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		g.Link.SetLatency(latency)
		calls := []*harness.Call[*zkrecipes.Lease]{w.LockLater(g.C)}
		time.Sleep(latency / 2)
		before.Cancel(nil)
		time.Sleep(5 * latency)
		g.Link.SetLatency(0)
		join := func() map[string]int {
			return w.Requests(func() { calls = append(calls, w.LockLater(g.C)) })
		}
		// The predecessor is of the same client, which watches it already.
		require.Equal(t, 1, join()["getChildren2"], "it lists, and sees its predecessor")
		require.Zero(t, join()["getChildren2"])
		require.NoError(t, l.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}

// The line's Stat tells whether somebody has joined between the read and the join.
func TestAGuessThatIsKnownToBeWrongIsNotWatched(t *testing.T) {
	const late = 100 * time.Millisecond // a ping or a watch on the holder's place comes later
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g, other := w.Guesser(), w.Stranger(nil)
		require.NoError(t, zkrecipes.NewMutex(other, w.Path).Do(t.Context(), recipetest.Nothing))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		for _, c := range []*zkrecipes.Client{g.C, other} {
			s, _ := recipetest.Core(c).Session()
			require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		}
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: late})
		var a, between *harness.Call[*zkrecipes.Lease]
		joins := w.Requests(func() {
			a = w.LockLater(g.C)
			between = w.LockLater(other) // in a line that is short to it
			time.Sleep(2 * late)
		})
		require.Equal(t, 5, joins["getData"], "the line and two watches of the one, and two of the other")
		var behind *harness.Call[*zkrecipes.Lease]
		require.Zero(t, w.Requests(func() { behind = w.LockLater(g.C) })["getChildren2"], "it goes on guessing")
		require.NoError(t, l.Release())
		for _, next := range []*harness.Call[*zkrecipes.Lease]{between, a, behind} {
			require.NoError(t, next.Get().Release())
		}
	})
}

// The Stat counts each creation twice, in 32 bits.
func TestGuessesGoOnInTheSecondHalfOfTheCounter(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g := w.Guesser()
		require.NoError(t, w.Srv.SetCounter(w.Path, 1<<30+7))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		s, _ := recipetest.Core(g.C).Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		var a *harness.Call[*zkrecipes.Lease]
		require.Zero(t, w.Requests(func() { a = w.LockLater(g.C) })["getChildren2"])
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

// Readers leave in any order, so a reader does not wait for the reader ahead of it. It
// asks the line only if its client's last place was behind a writer.
func TestAReaderGuessesWritersOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g, path := w.Guesser(), w.Path+"-rw"
		readers, writers := zkrecipes.NewRWLock(g.C, path), zkrecipes.NewRWLock(w.Stranger(nil), path)
		require.NoError(t, readers.Do(t.Context(), recipetest.Nothing))
		current := recipetest.Held(t, writers.Lock)
		var calls []*harness.Call[*zkrecipes.Lease]
		lists := func(l recipetest.Locker) int {
			return w.Requests(func() { calls = append(calls, recipetest.Later(t, l.Lock)) })["getChildren2"]
		}
		require.Equal(t, 1, lists(recipetest.Reading{RWLock: readers}), "behind a writer, for the first time")
		lists(writers)
		require.Zero(t, lists(recipetest.Reading{RWLock: readers}), "behind a writer again")
		require.Equal(t, 1, lists(recipetest.Reading{RWLock: readers}), "behind a reader")
		require.Equal(t, 1, lists(recipetest.Reading{RWLock: readers}), "behind a reader again")
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
		ahead, joining func(*zkrecipes.Client, string) recipetest.Locker
	}{
		{"mutex", recipetest.Mutex, recipetest.Mutex},
		{"writer", recipetest.Writer, recipetest.Writer},
		{"reader", recipetest.Writer, recipetest.Reader},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				ahead := tt.ahead(w.Client(nil), w.Path)
				l := recipetest.Held(t, ahead.Lock)
				var calls []*harness.Call[*zkrecipes.Lease]
				for range line.LongLine {
					calls = append(calls, recipetest.Later(t, ahead.Lock))
					synctest.Wait()
				}
				newcomer := w.Stranger(nil)
				requests := w.Requests(func() { calls = append(calls, recipetest.Later(t, tt.joining(newcomer, w.Path).Lock)) })
				require.Zero(t, requests["getChildren2"], requests)
				require.Equal(t, 1, requests[recipetest.OpJoin])
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		var calls []*harness.Call[*zkrecipes.Lease]
		for i := range line.LongLine + 4 {
			requests := w.Requests(func() { calls = append(calls, w.LockLater(c)) })
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
