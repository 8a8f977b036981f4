package session_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The end of a session must not be larger than what servers read.

func TestAFullSessionRefusesAnotherPlaceAndSendsNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(w.RoomFor(4))
		ls := w.LockMany(c, 4)
		calls := map[string]func(ctx context.Context) error{
			"wait":     func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, "/lk00").Lock(ctx); return err },
			"try lock": func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, "/lk99").TryLock(ctx); return err },
			"commit": func(ctx context.Context) error {
				_, err := ls[0].Commit(ctx, zkrecipes.OpCreate("/lk00-"+layout.NoUUID+layout.NoUUID, nil, zk.FlagEphemeral, nil))
				return err
			},
		}
		for _, recipe := range []string{"mutex", "rwlock", "semaphore", "election", "barrier", "double barrier"} {
			calls[recipe] = func(ctx context.Context) error { return recipetest.UseOnce(ctx, recipe, c, "/lk99") }
		}
		for what, call := range calls {
			require.Empty(t, w.Requests(func() {
				err := call(t.Context())
				recipetest.FullErr(t, err)
				if what != "commit" {
					require.ErrorContains(t, err, fmt.Sprint(c.Status().MaxZnodeBytes))
					require.ErrorContains(t, err, "another Client")
				}
			}), what)
		}
		w.Accounted(c)
		for _, l := range ls {
			require.NoError(t, l.Err())
		}
		_, err := ls[0].Commit(t.Context(), zkrecipes.OpCreate("/persistent", nil, 0, nil))
		require.NoError(t, err, "it adds nothing to the session")
		require.NoError(t, ls[1].Release())
		ls[1] = recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lk99"))
		recipetest.FullErr(t, recipetest.UseOnce(t.Context(), "mutex", c, "/lk01"))
		for _, l := range ls {
			require.NoError(t, l.Release())
		}
		w.Accounted(c)
		require.Zero(t, c.Status().ZnodeBytes)
	})
}

func TestAFullSessionGivesBackAllThatItHolds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{MaxBuffer: 3000})
		ctx := harness.Within(t, time.Hour)
		writer := recipetest.Held(t, zkrecipes.NewRWLock(c, "/rw").Lock)
		term := recipetest.Campaigns(t, zkrecipes.NewElection(c, "/el"), "v")
		slots := recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/sem", 5), 3)
		q := zkrecipes.NewQueue(c, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1})
		recipetest.PutOn(t, q, "0", "1", "2", "3")
		items := []*zkrecipes.Item{recipetest.TakeOn(t, q), recipetest.TakeOn(t, q), recipetest.TakeOn(t, q)}
		for i := 0; ; i++ {
			l, err := zkrecipes.NewMutex(c, fmt.Sprintf("/m%d", i)).Lock(ctx)
			if err != nil {
				recipetest.FullErr(t, err)
				break
			}
			defer func() { require.NoError(t, l.Release()) }()
			recipetest.LockLater(t, zkrecipes.NewMutex(w.Stranger(nil), l.Path()))
		}
		full := c.Status().ZnodeBytes
		_, err := q.Take(ctx)
		recipetest.FullErr(t, err)

		require.NoError(t, writer.Downgrade(ctx))
		require.Equal(t, full, c.Status().ZnodeBytes, "a downgrade adds nothing")
		recipetest.FullErr(t, items[0].Ack(ctx, zkrecipes.OpCreate("/"+strings.Repeat("x", 1000), nil, zk.FlagEphemeral, nil)))
		require.NoError(t, items[0].Ack(ctx, zkrecipes.OpCreate("/done", nil, 0, nil)), "although it needs a receipt")
		require.NoError(t, items[1].Ack(ctx))
		require.NoError(t, items[2].Nack(ctx))
		require.NoError(t, slots.Release())
		require.NoError(t, term.Resign())
		require.NoError(t, writer.Release())
		w.Accounted(c)
	})
}

// At the bound, a waiter enters with the room of its place.
func TestAWaiterInAFullSessionTradesItsPlaceForASlot(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		other := w.Stranger(nil)
		taken := recipetest.Acquire(t, zkrecipes.NewSemaphore(other, "/sem", 1), 1)
		c := w.Stranger(w.RoomFor(3))
		a := recipetest.WaitsFor(t, zkrecipes.NewSemaphore(c, "/sem", 1), 1)
		for i := 0; ; i++ {
			if _, err := zkrecipes.NewMutex(c, fmt.Sprintf("/lk%02d", i)).Lock(t.Context()); err != nil {
				recipetest.FullErr(t, err)
				break
			}
		}
		require.NoError(t, taken.Release())
		require.NoError(t, a.Get().Release())
		w.Accounted(c)
	})
}

// What others create does not count, and what the servers refuse is given back.
func TestARefusedCreateIsGivenBack(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		theirs := recipetest.LockOn(t, zkrecipes.NewMutex(other, "/theirs"))
		_, err := theirs.Commit(t.Context(), zkrecipes.OpCreate("/taken", nil, zk.FlagEphemeral, nil))
		require.NoError(t, err)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		before := c.Status()
		for range 3 {
			_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/new", nil, zk.FlagEphemeral, nil), zkrecipes.OpCreate("/taken", nil, zk.FlagEphemeral, nil))
			require.ErrorIs(t, err, zk.ErrNodeExists)
			_, err = l.Commit(t.Context(), zkrecipes.OpCreate("/missing/x-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
			require.ErrorIs(t, err, zk.ErrNoNode)
		}
		require.Equal(t, before, c.Status())
		_, err = l.Commit(t.Context(), zkrecipes.OpCreate("/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil), zkrecipes.OpCreate("/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil), zkrecipes.OpCreate("/e", nil, zk.FlagEphemeral, nil))
		require.NoError(t, err)
		w.Accounted(c)
		_, err = l.Commit(t.Context(), zkrecipes.OpDelete("/e", -1))
		require.NoError(t, err)
		w.Accounted(c)
	})
}

// What may exist counts until the servers tell whether it does.
func TestALostReplyCounts(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"carried out": true, "not carried out": false}, func(t *testing.T, w *recipetest.World, after bool) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/held"))
		held := c.Status().ZnodeBytes
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpJoin}, zktest.Fault{Do: zktest.Refuse, Times: -1})
		a := w.LockLater(c)
		require.Greater(t, c.Status().ZnodeBytes, held, "its outcome is not known")
		w.Back()
		require.NoError(t, a.Get().Release())
		w.Covered(c)
		before := c.Status().ZnodeBytes

		op := zkrecipes.OpCreate("/e", nil, zk.FlagEphemeral, nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(check,create)"})
		_, err := l.Commit(t.Context(), op)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Greater(t, c.Status().ZnodeBytes, before)
		_, err = l.Commit(t.Context(), zkrecipes.OpDelete("/e", -1))
		require.Equal(t, after, err == nil, "%v", err)
		require.Equal(t, after, c.Status().ZnodeBytes == before)
	})
}

func TestASessionThatLosesRepliesNowAndThenDoesNotFillUp(t *testing.T) {
	for _, after := range []bool{true, false} {
		t.Run(fmt.Sprint("after: ", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var log recipetest.Warnings
				o := w.RoomFor(8)
				o.Logger = log.Logger()
				c := w.Stranger(o)
				held := w.LockMany(c, 2)
				for range 50 {
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpJoin})
					require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lk99")).Release())
					time.Sleep(2 * time.Minute)
					w.Covered(c)
				}
				require.Empty(t, log.With("getting full"))
				require.Empty(t, log.With("lost transactions"))
				for _, l := range held {
					require.NoError(t, l.Release())
				}
				w.LockMany(c, 8)
				w.Covered(c)
				recipetest.FullErr(t, recipetest.UseOnce(t.Context(), "mutex", c, "/lk99"))
			})
		})
	}
}

// Whoever deletes a znode of the session's, the account learns it where the client does.
func TestADeletedPlaceIsCountedNoMore(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		a := w.LockLater(c)
		time.Sleep(time.Minute) // the holder's place is watched, too
		raw := w.Bare()
		places := w.Line()
		for i := range places { // the waiter's first: else it may be granted
			require.NoError(t, raw.Delete(w.Path+"/"+places[len(places)-1-i].Name, -1))
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		w.Accounted(c)
		require.Zero(t, c.Status().ZnodeBytes)
	})
}

// Nobody watches what OpCreate has created.
func TestEphemeralZnodesThatOthersDeleteDoNotFillASession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(w.RoomFor(8))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		for i := range 50 {
			path := fmt.Sprintf("%s-%040d", w.Path, i)
			_, err := l.Commit(t.Context(), zkrecipes.OpCreate(path, nil, zk.FlagEphemeral, nil))
			require.NoError(t, err)
			require.NoError(t, w.Bare().Delete(path, -1))
			time.Sleep(time.Minute)
			w.Covered(c)
		}
	})
}

// useAll uses all recipes, and ends with nothing held. Calls may fail.
func useAll(ctx context.Context, a, b *zkrecipes.Client) {
	for _, c := range []*zkrecipes.Client{a, b} {
		for _, recipe := range slices.Sorted(maps.Keys(recipetest.Recipes)) {
			_ = recipetest.UseOnce(ctx, recipe, c, "/"+recipe)
		}
		q := zkrecipes.NewQueue(c, "/queue", nil)
		_, _ = q.PutAll(ctx, []byte("1"), []byte("2"), []byte("3"))
		if it, err := q.Take(ctx); err == nil {
			_ = it.Nack(ctx)
		}
		if it, err := q.Take(ctx); err == nil {
			_ = it.Ack(ctx, zkrecipes.OpCreate("/done", nil, zk.FlagSequence, nil))
		}
		if l, err := zkrecipes.NewRWLock(c, "/rwlock").Lock(ctx); err == nil {
			_ = l.Downgrade(ctx)
			_ = l.Release()
		}
	}
}

// When the reply to each transaction in turn is lost, the account has at least what the servers
// have. Else the next connection would delete it as something that is back.
func TestTheAccountIsWhatTheServersHaveAfterEachRecipe(t *testing.T) {
	used := func(t *testing.T, w *recipetest.World) (a, b *zkrecipes.Client) {
		var log recipetest.Warnings
		a, b = w.Stranger(&zkrecipes.Options{Logger: log.Logger()}), w.Stranger(nil)
		useAll(harness.Within(t, time.Hour), a, b)
		time.Sleep(2 * time.Minute)
		w.Covered(a)
		w.Covered(b)
		require.Empty(t, log.With("lost transactions"))
		return a, b
	}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := used(t, w)
		w.Accounted(a)
		w.Accounted(b)
	})
	for _, op := range []string{"multi", "create2", "delete", "setData", "createContainer"} {
		for _, after := range []bool{true, false} {
			for n, fired := 0, true; fired; n++ {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: op, Skip: n})
					used(t, w)
					fired = w.Met()
				})
			}
		}
	}
}

// A throttled server has carried out nothing, but its answer does not say so.
func TestAnAnswerThatTellsNothingIsNoRefusal(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, After: true, Op: recipetest.OpJoin, Code: jute.ErrOperationTimeout},
			zktest.Fault{Do: zktest.Delay, Op: "sync", For: time.Second})
		a := recipetest.LockLater(t, zkrecipes.NewMutex(c, w.Path))
		synctest.Wait()
		require.Positive(t, c.Status().ZnodeBytes)
		require.NoError(t, a.Get().Release())
		w.Accounted(c)
	})
}

func TestAWarningIsLoggedWhenASessionPassesThreeQuarters(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		o := w.RoomFor(16)
		o.Logger = log.Logger()
		c := w.Stranger(o)
		ls := w.LockMany(c, 12)
		require.Empty(t, log.With("getting full"))
		more := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lk98"))
		require.Len(t, log.With("getting full"), 1)
		for range 3 {
			require.NoError(t, more.Release())
			more = recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lk98"))
		}
		require.Len(t, log.With("getting full"), 1)
		for _, l := range ls {
			require.NoError(t, l.Release())
		}
		w.LockMany(c, 14)
		require.Len(t, log.With("getting full"), 2)
	})
}

func TestATakeClaimsAsManyItemsAsTheSessionHasRoomFor(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{MaxBuffer: 2000})
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, nil)
		for i := range 20 {
			recipetest.PutOn(t, q, fmt.Sprint(i))
		}
		mine := zkrecipes.NewQueue(c, w.Path, nil)
		items, err := mine.TakeN(t.Context(), 20)
		require.NoError(t, err)
		require.Greater(t, len(items), 5)
		taken := len(items)
		for err == nil { // a request has less room than the session
			items, err = mine.TakeN(t.Context(), 20)
			taken += len(items)
		}
		recipetest.FullErr(t, err)
		require.Less(t, taken, 20)
		w.Accounted(c)
	})
}

// Lead goes on when there is room again, as Serve does. Others may lead until then.
func TestLeadWaitsWhileTheSessionIsFull(t *testing.T) {
	for znodes, name := range []string{"no room for a place", "no room for the leader's znode"} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				log := &recipetest.Warnings{}
				place := zkconn.Weight(w.Path+"/_c_"+layout.NoUUID+"-"+string(layout.KindLock), true)
				opts := &zkrecipes.Options{MaxBuffer: (5*place + 9) * 10 / 9}
				opts.Logger = log.Logger()
				r := recipetest.NewTracer(t)
				opts.Trace = r.Trace()
				c := w.Stranger(opts)
				ls := w.LockMany(c, 5-znodes)
				r.Told()
				a := recipetest.Lead(t, zkrecipes.NewElection(c, w.Path), false)
				require.True(t, a.Waiting())
				time.Sleep(time.Minute)
				require.Empty(t, a.Terms.Load())
				require.LessOrEqual(t, w.Requests(func() { time.Sleep(time.Minute) })["getChildren2"], 61, "it does not ask all the time")
				require.Len(t, log.With("session is full; it does not campaign until there is room"), 1)
				require.NoError(t, recipetest.Campaigns(t, zkrecipes.NewElection(w.Stranger(nil), w.Path), "other").Resign())
				require.NoError(t, ls[0].Release())
				require.NoError(t, ls[1].Release())
				time.Sleep(2 * time.Second)
				require.Equal(t, int32(1), a.Terms.Load())
				a.Ret <- nil
				_, err := a.Wait()
				require.NoError(t, err)
				require.Contains(t, r.Told(), "election lead ok")

				recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lk90"))
				recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lk91"))
				a = recipetest.Lead(t, zkrecipes.NewElection(c, w.Path), false)
				time.Sleep(time.Minute)
				require.True(t, a.Waiting())
				a.Cancel(nil)
				_, err = a.Wait()
				require.ErrorIs(t, err, context.Canceled)
				w.Accounted(c)
			})
		})
	}
}

// Serve goes on when there is room again, and does not ask all the time until then.
func TestServeWaitsWhileTheSessionIsFull(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		o := w.RoomFor(6)
		o.Logger = log.Logger()
		c := w.Stranger(o)
		ls := w.LockMany(c, 6)
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, nil)
		recipetest.PutOn(t, q, "0", "1")
		done := make(chan string, 2)
		served := recipetest.ServeLater(t, zkrecipes.NewQueue(c, w.Path, &zkrecipes.QueueOptions{Workers: 4}), func(_ context.Context, it *zkrecipes.Item) error {
			done <- string(it.Data)
			return nil
		})
		require.Less(t, recipetest.Sum(w.Requests(func() { time.Sleep(time.Minute) })), 1000)
		require.True(t, served.Waiting())
		require.Len(t, log.With("session is full"), 1)
		for _, l := range ls[:4] {
			require.NoError(t, l.Release())
		}
		require.ElementsMatch(t, []string{"0", "1"}, []string{<-done, <-done})
	})
}

func TestMaxBufferSetsTheBound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		require.Equal(t, 943_717, w.Stranger(nil).Status().MaxZnodeBytes)
		require.Equal(t, 3_600_000, w.Stranger(&zkrecipes.Options{MaxBuffer: 4_000_000}).Status().MaxZnodeBytes)
		_, err := zkrecipes.Dial(t.Context(), []string{"a"}, &zkrecipes.Options{MaxBuffer: -1})
		require.ErrorContains(t, err, "MaxBuffer")
	})
}
