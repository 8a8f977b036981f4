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
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// In a long line whoever joins finds its predecessor by the line's data and by its own
// number, without a list.

// released releases a lease, and what the calls are granted one after the other.
func released(t *testing.T, l *zkrecipes.Lease, as ...*harness.Call[*zkrecipes.Lease]) {
	t.Helper()
	require.NoError(t, l.Release())
	for _, a := range as {
		require.NoError(t, a.Get().Release())
	}
}

// The join, the listing of a short line, and both watches together.
func TestJoinTakesThreeRoundTripsAndTwoInALongLine(t *testing.T) {
	const latency = 100 * time.Millisecond // a ping or a watch on the holder's place comes later
	for n, trips := range map[int]time.Duration{0: 3, 3000: 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				holder, conn := w.Client(nil), w.Bare()
				link, queued := harness.NewLink(w.Srv), time.Time{}
				c := w.Client(&zkrecipes.Options{Dialer: link.Dial, Trace: &zkrecipes.Trace{Queued: func(_ context.Context, e zkrecipes.TraceQueued) {
					require.Equal(t, n+2, e.Ahead)
					queued = time.Now()
				}}})
				current := recipetest.LockOn(t, zkrecipes.NewMutex(holder, w.Path))
				w.Stand(conn, layout.KindLock, n)
				before := w.LockLater(w.Stranger(nil))
				_, err := zkrecipes.NewMutex(c, w.Path).TryLock(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrLocked) // it has seen how long the line is

				link.SetLatency(latency)
				received, began := link.Received(), time.Now()
				a := w.LockLater(c)
				time.Sleep((trips + 1) * latency)
				synctest.Wait()
				require.Equal(t, trips*latency, queued.Sub(began))
				conn.Close()
				released(t, current, before, a)
				require.Less(t, link.Received()-received, 1500, "bytes of a full cycle")
			})
		})
	}
}

// A guess that is wrong costs a list, and nothing else.
func TestAWrongGuessIsNotBelieved(t *testing.T) {
	const foreign, theirs = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", "zkrecipes/1 mutex"
	uuid := len("_c_") + 37
	type row struct {
		data func(name string) string // of the line before the join, from the name of the holder's place
		join []string                 // places of others that join before
	}
	recipetest.EachInBubble(t, map[string]row{
		"another library's place has joined since": {nil, []string{foreign}},
		"several have":                         {nil, []string{foreign, foreign}},
		"no record":                            {func(string) string { return theirs }, nil},
		"a place that there never was":         {func(string) string { return theirs + " _c_" + layout.NewUUID() + "-lock-" }, nil},
		"a kind that is foreign to the recipe": {func(name string) string { return theirs + " " + name[:uuid] + "__WRIT__" }, nil},
		"no kind":                              {func(name string) string { return theirs + " " + name[:uuid] }, nil},
		"a path":                               {func(string) string { return theirs + " _c_/////////////////8/////////////////////-lock-" }, nil},
		"another recipe's record":              {func(name string) string { return "zkrecipes/1 rwlock " + name[:len(name)-10] }, nil},
	}, func(t *testing.T, w *recipetest.World, tt row) {
		g, conn := w.Guesser(), w.Bare()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		if tt.data != nil {
			_, err := conn.Set(w.Path, []byte(tt.data(w.Line()[0].Name)), -1)
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
		released(t, a.Get(), behind)
	})
}

func TestAGuessThatHasLeftIsFoundOutByTheWatch(t *testing.T) {
	const latency = time.Second
	recipetest.EachInBubble(t, map[string]func(t *testing.T, l *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease]){
		"the holder releases": func(t *testing.T, l *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease]) { released(t, l, before) },
		"a waiter gives up":   func(t *testing.T, _ *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease]) { before.Cancel(nil) },
	}, func(t *testing.T, w *recipetest.World, leave func(t *testing.T, l *zkrecipes.Lease, before *harness.Call[*zkrecipes.Lease])) {
		g := w.Guesser()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		before := w.LockLater(w.Stranger(nil))
		g.Link.SetLatency(latency)
		a := w.LockLater(g.C)
		time.Sleep(latency / 2) // the join is done, and its reply is under way
		leave(t, l, before)
		time.Sleep(4 * latency)
		require.Equal(t, l.Err() == nil, a.Waiting())
		_ = l.Release()
		require.NoError(t, a.Get().Release())
	})
}

// Where places leave before their successors watch them, each guess would cost a round trip
// more than a listing.
func TestAClientWhoseGuessHadLeftListsUntilItSeesItsPredecessor(t *testing.T) {
	const latency = time.Second
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g := w.Guesser()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		before := w.LockLater(w.Stranger(nil))
		g.Link.SetLatency(latency)
		as := calls{w.LockLater(g.C)}
		time.Sleep(latency / 2)
		before.Cancel(nil)
		time.Sleep(5 * latency)
		g.Link.SetLatency(0)
		lists := func() int { return w.Requests(func() { as = append(as, w.LockLater(g.C)) })["getChildren2"] }
		// The predecessor is of the same client, which watches it already.
		require.Equal(t, 1, lists(), "it lists, and sees its predecessor")
		require.Zero(t, lists())
		released(t, l, as...)
	})
}

// The line's Stat tells whether somebody has joined between the read and the join.
func TestAGuessThatIsKnownToBeWrongIsNotWatched(t *testing.T) {
	const late = 100 * time.Millisecond // a ping or a watch on the holder's place comes later
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g, other := w.Guesser(), w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: late})
		var a, between, behind *harness.Call[*zkrecipes.Lease]
		joins := w.Requests(func() {
			a = w.LockLater(g.C)
			between = w.LockLater(other) // in a line that is short to it
			time.Sleep(2 * late)
		})
		require.Equal(t, 5, joins["getData"], "the line and two watches of the one, and two of the other")
		require.Zero(t, w.Requests(func() { behind = w.LockLater(g.C) })["getChildren2"], "it goes on guessing")
		released(t, l, between, a, behind)
	})
}

// The Stat counts each creation twice, in 32 bits.
func TestGuessesGoOnInTheSecondHalfOfTheCounter(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g := w.Guesser()
		require.NoError(t, w.Srv.SetCounter(w.Path, 1<<30+7))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		var a *harness.Call[*zkrecipes.Lease]
		require.Zero(t, w.Requests(func() { a = w.LockLater(g.C) })["getChildren2"])
		released(t, l, a)
	})
}

// Readers leave in any order, so a reader does not wait for the reader ahead of it. It
// asks the line only if its client's last place was behind a writer.
func TestAReaderGuessesWritersOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g, path := w.Guesser(), w.Path+"-rw"
		reader, ours, theirs := recipetest.Reader(g.C, path), recipetest.Writer(g.C, path), recipetest.Writer(w.Stranger(nil), path)
		require.NoError(t, ours.Do(t.Context(), recipetest.Nothing))
		current := recipetest.Held(t, theirs.Lock)
		var as calls
		joins := func(l recipetest.Locker) map[string]int {
			return w.Requests(func() { as = append(as, recipetest.Later(t, l.Lock)) })
		}
		require.Equal(t, 1, joins(reader)["getChildren2"], "behind a writer, for the first time")
		joins(theirs)
		require.Zero(t, joins(reader)["getChildren2"], "behind a writer again")
		require.Equal(t, 1, joins(reader)["getChildren2"], "behind a reader")
		require.Equal(t, map[string]int{recipetest.OpJoin: 1, "getChildren2": 1, "getData": 1}, joins(reader),
			"behind a reader again: readers share the watches on the writer, and each watches its own place")
		released(t, current, as...)
	})
}

// The read by which a client learns of a line tells its length and the kind of its last place.
// A short line is listed: the queue's and any other recipe's lines are read only when they are
// long.
func TestFirstJoinOfALongLineDoesNotListIt(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead, joining func(*zkrecipes.Client, string) recipetest.Locker
	}{
		"mutex": {recipetest.Mutex, recipetest.Mutex}, "writer": {recipetest.Writer, recipetest.Writer}, "reader": {recipetest.Writer, recipetest.Reader},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				ahead := tt.ahead(w.Client(nil), w.Path)
				l := recipetest.Held(t, ahead.Lock)
				var as calls
				lists := func(lock func(context.Context) (*zkrecipes.Lease, error)) int {
					return w.Requests(func() { as = append(as, recipetest.Later(t, lock)) })["getChildren2"]
				}
				for i := range line.LongLine {
					require.Equal(t, 1, lists(ahead.Lock), "join %d", i)
				}
				require.Zero(t, lists(tt.joining(w.Stranger(nil), w.Path).Lock))
				if name != "reader" {
					require.Zero(t, lists(ahead.Lock), "it saw more places at its last join")
				}
				released(t, l, as...)
			})
		})
	}
}

func TestAheadOfAGuessCountsPlacesOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		conn, ahead := w.Bare(), -1
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		for i := range 3 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.Path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		first := w.LockLater(w.Stranger(nil))
		ctx := tuning.With(t.Context(), func(c *tuning.Constants) { c.LongLine = 0 })
		c, err := zkrecipes.Dial(ctx, []string{w.Srv.Addr()}, &zkrecipes.Options{
			Dialer: w.Srv.DialContext, Trace: &zkrecipes.Trace{Queued: func(_ context.Context, e zkrecipes.TraceQueued) { ahead = e.Ahead }},
		})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		as := calls{first, w.LockLater(c)}
		_, err = w.Bare().Set(w.Path, []byte("zkrecipes/1 mutex"), -1) // without a name
		require.NoError(t, err)
		as = append(as, w.LockLater(c)) // lists
		requests := w.Requests(func() { as = append(as, w.LockLater(c)) })
		require.Equal(t, 4, ahead)
		require.Zero(t, requests["getChildren2"], "it has guessed")
		released(t, l, as...)
	})
}

// Whichever request of a join of a long line is lost, and whenever the predecessor leaves:
// the lock is granted, to one after the other, and no place remains.
func TestAFaultInAJoinOfALongLineLosesNoTurn(t *testing.T) {
	const latency = 40 * time.Millisecond
	var faults []zktest.Fault
	for _, fault := range []zktest.Fault{{Do: zktest.Drop}, {Do: zktest.Expire}, {Do: zktest.Delay, For: 3 * latency / 2}, {Do: zktest.Answer, Code: jute.ErrThrottled}} {
		for _, fault.After = range []bool{false, true} {
			fault.Op, fault.Skip = recipetest.OpJoin, 0
			faults = append(faults, fault)
			fault.Op = "getData"
			for fault.Skip = range 4 { // the line, the two places, and one more
				faults = append(faults, fault)
			}
		}
	}
	for _, fault := range faults {
		for leaves := range 3 {
			t.Run(fmt.Sprint(fault.Do, fault.Op, fault.Skip, fault.After, leaves), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					g := w.Guesser()
					l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
					g.Link.SetLatency(latency)
					w.Plan.Add(fault)
					as := calls{w.LockLater(g.C)}
					time.Sleep(latency / 4)
					as = append(as, w.LockLater(g.C), w.LockLater(g.C))
					time.Sleep(time.Duration(leaves) * latency)
					l.Release() // may be lost
					for range as {
						var held *zkrecipes.Lease
						for i := 0; held == nil; i++ {
							require.Less(t, i, 1000, "nobody holds")
							time.Sleep(latency)
							for j, a := range as {
								if a != nil && !a.Waiting() {
									require.Nil(t, held, "two hold")
									held, as[j] = a.Get(), nil
								}
							}
						}
						held.Release()
					}
					time.Sleep(30 * time.Second)
					require.Empty(t, w.Line())
				})
			})
		}
	}
}

// The two watches of a waiter are set at different times, in either order. Whatever happens
// in between, a place that was deleted is granted nothing, and the next one is granted.
func TestAWaiterEvictedBetweenItsTwoWatchesIsGrantedNothing(t *testing.T) {
	const between = time.Second
	for i := range 20 { // the order is the scheduler's
		for _, releaseFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(i, releaseFirst), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					g := w.Guesser()
					l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Skip: 2, For: between})
					a := w.LockLater(g.C)
					require.Equal(t, 1, w.Plan.Fired()["delay before"])
					behind := w.LockLater(w.Stranger(nil))
					time.Sleep(between / 4)
					if releaseFirst {
						require.NoError(t, l.Release())
						time.Sleep(between / 4)
					}
					require.NoError(t, w.Bare().Delete(w.Path+"/"+w.Line()[len(w.Line())-2].Name, -1))
					time.Sleep(between / 4)
					if !releaseFirst {
						require.NoError(t, l.Release())
					}
					time.Sleep(2 * between)
					_, err := a.Wait()
					require.ErrorIs(t, err, zkrecipes.ErrEvicted)
					require.NoError(t, behind.Get().Release())
					require.Empty(t, w.Line())
				})
			})
		}
	}
}

// The line is made anew between the read and the join, which are sent together. The name in the old data, with
// the number before the own one, is that of a place of the old line, of which events may still come.
func TestDataOfALineThatIsGoneAreNoGuess(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g, conn := w.Guesser(), w.Bare()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		old, number := l.Check().Path, w.Line()[0].Number
		data, _, err := conn.Get(w.Path)
		require.NoError(t, err)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second},
			zktest.Fault{Do: zktest.Delay, Op: "getData", Path: old, For: time.Second, Times: -1})
		a := w.LockLater(g.C)
		require.NoError(t, conn.Delete(old, -1))
		require.NoError(t, conn.Delete(w.Path, -1))
		_, err = conn.CreateContainer(w.Path, data, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, w.Srv.SetCounter(w.Path, number))
		paths := w.Stand(conn, layout.KindLock, 1)
		time.Sleep(5 * time.Second)
		require.True(t, a.Waiting())
		require.Equal(t, number+1, w.Line()[1].Number)
		require.Equal(t, 2, w.Plan.Fired()["delay before"], "the join, and its holder's look at the old place")
		require.NoError(t, conn.Delete(paths[0], -1))
		released(t, a.Get())
	})
}
