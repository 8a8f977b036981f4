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
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The end of a session must not be larger than what servers read.

func TestAFullSessionRefusesAnotherPlaceAndSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(w.roomFor(4))
		ls := w.lockMany(c, 4)
		ctx := harness.Within(t, time.Hour)
		for what, f := range map[string]func() error{
			"lock":     func() error { _, err := NewMutex(c, "/lk99").Lock(ctx); return err },
			"wait":     func() error { _, err := NewMutex(c, "/lk00").Lock(ctx); return err },
			"try lock": func() error { _, err := NewMutex(c, "/lk99").TryLock(ctx); return err },
			"read":     func() error { _, err := NewRWLock(c, "/lk99").RLock(ctx); return err },
			"acquire":  func() error { _, err := NewSemaphore(c, "/sem99", 2).AcquireN(ctx, 2); return err },
			"campaign": func() error { _, err := NewElection(c, "/el99").Campaign(ctx, nil); return err },
			"barrier":  func() error { _, err := NewBarrier(c, "/bar99", 2).Wait(ctx); return err },
			"enter":    func() error { _, err := NewDoubleBarrier(c, "/dbl99", 2).Enter(ctx); return err },
			"commit": func() error {
				_, err := ls[0].Commit(ctx, OpCreate("/lk00-"+line.NoUUID+line.NoUUID, nil, zk.FlagEphemeral, nil))
				return err
			},
		} {
			require.Empty(t, w.requests(func() { fullErr(t, f()) }), what)
		}
		_, err := NewMutex(c, "/lk99").Lock(ctx)
		require.ErrorContains(t, err, fmt.Sprint(c.Status().MaxZnodeBytes))
		require.ErrorContains(t, err, "another Client")
		w.accounted(c)

		for _, l := range ls {
			require.NoError(t, l.Err())
		}
		_, err = ls[0].Commit(ctx, OpCreate("/persistent", nil, 0, nil))
		require.NoError(t, err, "it adds nothing to the session")
		require.NoError(t, ls[1].Release())
		ls[1] = lockOn(t, NewMutex(c, "/lk99"))
		_, err = NewMutex(c, "/lk01").Lock(ctx)
		fullErr(t, err)
		for _, l := range ls {
			require.NoError(t, l.Release())
		}
		w.accounted(c)
		require.Zero(t, load(c).Bytes)
	})
}

func TestAFullSessionGivesBackAllThatItHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{MaxBuffer: 3000})
		ctx := harness.Within(t, time.Hour)
		writer := held(t, NewRWLock(c, "/rw").Lock)
		term := campaigns(t, NewElection(c, "/el"), "v")
		slots := acquire(t, NewSemaphore(c, "/sem", 5), 3)
		q := NewQueue(c, "/q", &QueueOptions{MaxAttempts: 1})
		putOn(t, q, "0", "1", "2", "3")
		items := []*Item{takeOn(t, q), takeOn(t, q), takeOn(t, q)}
		other := w.stranger(nil)
		var next []*harness.Call[*Lease]
		for i := 0; ; i++ {
			l, err := NewMutex(c, fmt.Sprintf("/m%d", i)).Lock(ctx)
			if err != nil {
				fullErr(t, err)
				break
			}
			next = append(next, lockLater(t, NewMutex(other, l.Path())))
			if i%2 == 0 {
				defer func() { require.NoError(t, l.Release()) }()
				next = next[:len(next)-1]
			}
		}
		full := load(c).Bytes
		_, err := q.Take(ctx)
		fullErr(t, err)

		require.NoError(t, NewRWLock(c, "/rw").Downgrade(ctx, writer))
		require.Equal(t, full, load(c).Bytes, "a downgrade adds nothing")
		require.NoError(t, items[0].Ack(ctx, OpCreate("/done", nil, 0, nil)), "although it needs a receipt")
		require.NoError(t, items[1].Ack(ctx))
		require.NoError(t, items[2].Nack(ctx))
		require.NoError(t, slots.Release())
		require.NoError(t, term.Resign())
		require.NoError(t, writer.Release())
		w.accounted(c)
		_ = next
	})
}

// At the bound, a waiter enters with the room of its place.
func TestAWaiterInAFullSessionTradesItsPlaceForASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		other := w.stranger(nil)
		taken := acquire(t, NewSemaphore(other, "/sem", 1), 1)
		c := w.stranger(w.roomFor(3))
		a := waitsFor(t, NewSemaphore(c, "/sem", 1), 1)
		for i := 0; ; i++ {
			if _, err := NewMutex(c, fmt.Sprintf("/lk%02d", i)).Lock(t.Context()); err != nil {
				fullErr(t, err)
				break
			}
		}
		require.NoError(t, taken.Release())
		require.NoError(t, a.Get().Release())
		w.accounted(c)
	})
}

// What others create does not count, and what the servers refuse is given back.
func TestARefusedCreateIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.stranger(nil), w.stranger(nil)
		theirs := lockOn(t, NewMutex(other, "/theirs"))
		_, err := theirs.Commit(t.Context(), OpCreate("/taken", nil, zk.FlagEphemeral, nil))
		require.NoError(t, err)
		l := lockOn(t, NewMutex(c, w.path))
		before := load(c)
		for range 3 {
			_, err := l.Commit(t.Context(), OpCreate("/new", nil, zk.FlagEphemeral, nil), OpCreate("/taken", nil, zk.FlagEphemeral, nil))
			require.ErrorIs(t, err, zk.ErrNodeExists)
			_, err = l.Commit(t.Context(), OpCreate("/missing/x-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
			require.ErrorIs(t, err, zk.ErrNoNode)
		}
		require.Equal(t, before, load(c))
		_, err = l.Commit(t.Context(), OpCreate("/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil), OpCreate("/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil), OpCreate("/e", nil, zk.FlagEphemeral, nil))
		require.NoError(t, err)
		w.accounted(c)
		_, err = l.Commit(t.Context(), OpDelete("/n-0000000004", -1), OpDelete("/e", -1))
		if err != nil { // another number
			_, err = l.Commit(t.Context(), OpDelete("/e", -1))
		}
		require.NoError(t, err)
		w.accounted(c)
	})
}

// What may exist counts until it is known whether it does.
func TestALostReplyCountsUntilItIsResolved(t *testing.T) {
	for name, after := range map[string]bool{"carried out": true, "not carried out": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client(nil)
				l := lockOn(t, NewMutex(c, "/held"))
				w.accounted(c)
				held := load(c).Bytes
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opJoin}, zktest.Fault{Do: zktest.Refuse, Times: -1})
				a := w.lockLater(c)
				require.Greater(t, load(c).Bytes, held, "its outcome is not known")
				w.back()
				require.NoError(t, a.Get().Release())
				w.accounted(c)

				op := OpCreate("/e", nil, zk.FlagEphemeral, nil)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(check,create)"})
				_, err := l.Commit(t.Context(), op)
				require.ErrorIs(t, err, ErrUncertain)
				require.Greater(t, load(c).Bytes, held)
				_, err = l.Commit(t.Context(), OpDelete("/e", -1))
				require.Equal(t, after, err == nil, "%v", err)
				w.accounted(c)
				require.Equal(t, held, load(c).Bytes)
			})
		})
	}
}

// Whoever deletes a znode of the session's, the account learns it where the client does.
func TestADeletedPlaceIsCountedNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := lockOn(t, NewMutex(c, w.path))
		a := w.lockLater(c)
		time.Sleep(time.Minute) // the holder's place is watched, too
		raw := w.bare()
		places := w.line()
		for i := range places { // the waiter's first: else it may be granted
			require.NoError(t, raw.Delete(w.path+"/"+places[len(places)-1-i].Name, -1))
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), ErrLost)
		w.accounted(c)
		require.Zero(t, load(c).Bytes)
	})
}

// Nobody watches what OpCreate has created.
func TestAnEphemeralZnodeThatOthersDeleteCountsUntilACommitFindsItGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := lockOn(t, NewMutex(c, w.path))
		before := load(c)
		for _, op := range []Op{OpDelete("/e", -1), OpSet("/e", nil, -1), OpCheck("/e", -1)} {
			_, err := l.Commit(t.Context(), OpCreate("/e", nil, zk.FlagEphemeral, nil))
			require.NoError(t, err)
			full := load(c)
			require.NoError(t, w.bare().Delete("/e", -1))
			require.Equal(t, full, load(c))
			_, err = l.Commit(t.Context(), op)
			require.ErrorIs(t, err, zk.ErrNoNode)
			require.Equal(t, before, load(c))
		}
		w.accounted(c)
	})
}

// eachRecipe are uses of all recipes that end with nothing held.
func eachRecipe(ctx context.Context, t *testing.T, a, b *Client) {
	l := lockOn(t, NewMutex(a, "/m"))
	waiter := lockLater(t, NewMutex(b, "/m"))
	synctest.Wait()
	if l.Err() == nil {
		_ = l.Release()
	}
	require.NoError(t, waiter.Get().Release())
	if l, err := NewMutex(a, "/kept", KeepFor(time.Minute)).Lock(ctx); err == nil {
		_ = l.Release()
	}
	if l, err := NewMutex(a, "/m").TryLock(ctx); err == nil {
		_ = l.Release()
	}
	rw := NewRWLock(a, "/rw")
	if l, err := rw.Lock(ctx); err == nil {
		_ = rw.Downgrade(ctx, l)
		_ = l.Release()
	}
	x := NewSemaphore(a, "/sem", 2)
	if l, err := x.AcquireN(ctx, 2); err == nil {
		second := acquireLater(t, NewSemaphore(b, "/sem", 2), 2)
		synctest.Wait()
		_ = l.Release()
		if l, err := second.Wait(); err == nil {
			_ = l.Release()
		}
	}
	if term, err := NewElection(a, "/el").Campaign(ctx, nil); err == nil {
		_ = term.Resign()
	}
	others := harness.Go(t, func(ctx context.Context) (int, error) { return NewBarrier(b, "/bar", 2).Wait(ctx) })
	_, _ = NewBarrier(a, "/bar", 2).Wait(ctx)
	_, _ = others.Wait()
	visit := harness.Go(t, func(ctx context.Context) (*Visit, error) { return NewDoubleBarrier(b, "/dbl", 2).Enter(ctx) })
	if v, err := NewDoubleBarrier(a, "/dbl", 2).Enter(ctx); err == nil {
		go func() { _ = v.Leave(ctx) }()
	}
	if v, err := visit.Wait(); err == nil {
		_ = v.Leave(ctx)
	}
	for _, c := range []*Client{a, b} {
		q := NewQueue(c, "/q", &QueueOptions{MaxLen: 10})
		for _, data := range []string{"0", "1", "2"} {
			_, _ = q.Put(ctx, []byte(data))
		}
		_, _ = q.PutAll(ctx, []byte("3"), []byte("4"))
		if it, err := q.Take(ctx); err == nil {
			_ = it.Nack(ctx)
		}
		if it, err := q.TryTake(ctx); err == nil {
			_ = it.Ack(ctx)
		}
		if it, err := q.Take(ctx); err == nil {
			_ = it.Ack(ctx, OpCreate("/done", nil, zk.FlagSequence, nil))
		}
		serving, stop := context.WithTimeout(ctx, time.Second)
		_ = q.Serve(serving, func(context.Context, *Item) error { return nil })
		stop()
	}
}

func TestTheAccountIsWhatTheServersHaveAfterEachRecipe(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.stranger(nil), w.stranger(nil)
		eachRecipe(harness.Within(t, time.Hour), t, a, b)
		time.Sleep(time.Hour)
		w.accounted(a)
		w.accounted(b)
		require.Positive(t, load(a).Bytes, "receipts are kept for the next put")
	})
}

// The same when the reply to each transaction in turn is lost.
func TestTheAccountIsWhatTheServersHaveAfterEachLostReply(t *testing.T) {
	for _, after := range []bool{true, false} {
		for n, fired := 0, true; fired; n++ {
			inBubble(t, func(t *testing.T, w *world) {
				a, b := w.stranger(nil), w.stranger(nil)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi", Skip: n})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				eachRecipe(ctx, t, a, b)
				fired = w.met()
				time.Sleep(time.Hour)
				w.accounted(a)
				w.accounted(b)
			})
		}
	}
}

// A throttled server has carried out nothing, but its answer does not say so.
func TestAnAnswerThatTellsNothingIsNoRefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.plan.Add(zktest.Fault{Do: zktest.Answer, After: true, Op: opJoin, Code: jute.ErrOperationTimeout},
			zktest.Fault{Do: zktest.Delay, Op: "sync", For: time.Second})
		a := lockLater(t, NewMutex(c, w.path))
		synctest.Wait()
		require.Positive(t, load(c).Bytes)
		require.NoError(t, a.Get().Release())
		w.accounted(c)
	})
}

func TestAWarningIsLoggedWhenASessionPassesThreeQuarters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var log warnings
		o := w.roomFor(16)
		o.Logger = log.logger()
		c := w.stranger(o)
		ls := w.lockMany(c, 12)
		require.Empty(t, log.with("getting full"))
		more := lockOn(t, NewMutex(c, "/lk98"))
		require.Len(t, log.with("getting full"), 1)
		for range 3 {
			require.NoError(t, more.Release())
			more = lockOn(t, NewMutex(c, "/lk98"))
		}
		require.Len(t, log.with("getting full"), 1)
		for _, l := range ls {
			require.NoError(t, l.Release())
		}
		w.lockMany(c, 14)
		require.Len(t, log.with("getting full"), 2)
	})
}

func TestATakeClaimsAsManyItemsAsTheSessionHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{MaxBuffer: 2000})
		q := NewQueue(w.stranger(nil), w.path, nil)
		for i := range 20 {
			putOn(t, q, fmt.Sprint(i))
		}
		mine := NewQueue(c, w.path, nil)
		items, err := mine.TakeN(t.Context(), 20)
		require.NoError(t, err)
		require.Greater(t, len(items), 5)
		require.Less(t, len(items), 20)
		_, err = mine.TakeN(t.Context(), 20)
		fullErr(t, err)
		w.accounted(c)
	})
}

// Lead goes on when there is room again, as Serve does. Others may lead until then.
func TestLeadWaitsWhileTheSessionIsFull(t *testing.T) {
	for znodes, name := range []string{"no room for a place", "no room for the leader's znode"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				log := &warnings{}
				place := zkconn.Weight(w.path+"/_c_"+line.NoUUID+"-"+string(line.KindLock), true)
				opts := &Options{MaxBuffer: (5*place + 9) * 10 / 9}
				opts.Logger = log.logger()
				r := newTracer(t)
				opts.Trace = r.trace()
				c := w.stranger(opts)
				ls := w.lockMany(c, 5-znodes)
				r.told()
				a := lead(t, NewElection(c, w.path), false)
				require.True(t, a.Waiting())
				time.Sleep(time.Minute)
				require.Empty(t, a.terms.Load())
				require.LessOrEqual(t, w.requests(func() { time.Sleep(time.Minute) })["getChildren2"], 61, "it does not ask all the time")
				require.Len(t, log.with("session is full; it does not campaign until there is room"), 1)
				require.NoError(t, campaigns(t, NewElection(w.stranger(nil), w.path), "other").Resign())
				require.NoError(t, ls[0].Release())
				require.NoError(t, ls[1].Release())
				time.Sleep(2 * time.Second)
				require.Equal(t, int32(1), a.terms.Load())
				a.ret <- nil
				_, err := a.Wait()
				require.NoError(t, err)
				require.Contains(t, r.told(), "election lead ok")

				lockOn(t, NewMutex(c, "/lk90"))
				lockOn(t, NewMutex(c, "/lk91"))
				a = lead(t, NewElection(c, w.path), false)
				time.Sleep(time.Minute)
				require.True(t, a.Waiting())
				a.Cancel(nil)
				_, err = a.Wait()
				require.ErrorIs(t, err, context.Canceled)
				w.accounted(c)
			})
		})
	}
}

// Serve goes on when there is room again, and does not ask all the time until then.
func TestServeWaitsWhileTheSessionIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var log warnings
		o := w.roomFor(6)
		o.Logger = log.logger()
		c := w.stranger(o)
		ls := w.lockMany(c, 6)
		q := NewQueue(w.stranger(nil), w.path, nil)
		putOn(t, q, "0", "1")
		done := make(chan string, 2)
		served := harness.Go(t, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, NewQueue(c, w.path, &QueueOptions{Workers: 4}).Serve(ctx, func(_ context.Context, it *Item) error {
				done <- string(it.Data)
				return nil
			})
		})
		n := 0
		for _, count := range w.requests(func() { time.Sleep(time.Minute) }) {
			n += count
		}
		require.Less(t, n, 1000)
		require.True(t, served.Waiting())
		require.Len(t, log.with("session is full"), 1)
		for _, l := range ls[:4] {
			require.NoError(t, l.Release())
		}
		require.ElementsMatch(t, []string{"0", "1"}, []string{<-done, <-done})
	})
}

func TestMaxBufferSetsTheBound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		require.Equal(t, 943_717, w.stranger(nil).Status().MaxZnodeBytes)
		require.Equal(t, 3_600_000, w.stranger(&Options{MaxBuffer: 4_000_000}).Status().MaxZnodeBytes)
		_, err := Dial(t.Context(), []string{"a"}, &Options{MaxBuffer: -1})
		require.ErrorContains(t, err, "MaxBuffer")
	})
}
