package zkrecipes

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// A claim of two items was carried out and its reply lost. Then an operator deletes the
// claim of the first. What is left is given back, and both are claimed anew.
func TestB43BatchOfWhichAnOperatorDeletesAPartBeforeItIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.warm()
	putOn(t, r.q, "0", "1")
	op := "multi(create,create,create,create,setData,check)"
	rule := r.p.On(op, 1, harness.DropAfter)
	again := r.p.On(op, 1, harness.Hold)
	a := harness.Go(t, func(ctx context.Context) ([]*Item, error) { return r.q.TakeN(ctx, 2) })
	r.p.Await(rule)
	r.p.Await(again)
	segment := r.path + "/s/0000000000"
	first := queuelog.Entries(harness.Children(t, r.raw, segment))[0].Name
	require.NoError(t, r.raw.Delete(segment+"/"+first+queuelog.ClaimName, -1))
	for _, name := range harness.Children(t, r.raw, segment) {
		if strings.HasPrefix(name, first+".") {
			require.NoError(t, r.raw.Delete(segment+"/"+name, -1))
		}
	}
	again.Release()
	items, err := a.Wait()
	require.NoError(t, err)
	for _, it := range items {
		ackOn(t, it)
	}
	drain(t, r.q)
	atRest(t, r.raw, r.path)
}

// One of three items is claimed, and no flag shows it.
func TestTakeNClaimsNoItemThatIsClaimedWithoutAFlag(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, raw := w.queue(w.stranger(nil)), w.bare()
		putOn(t, q, names(3)...)
		segment := w.path + "/s/0000000000"
		exclusion := segment + "/" + queuelog.Entries(w.srv.Children(segment))[1].Name + queuelog.ClaimName
		_, err := raw.Create(exclusion, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		items, err := q.TakeN(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, items, 2)
		for i, it := range items {
			require.Equal(t, []string{"0", "2"}[i], string(it.Data))
			ackOn(t, it)
		}
		require.NoError(t, raw.Delete(exclusion, -1))
		require.Equal(t, []string{"1"}, drain(t, q))
	})
}

// spoilDeadLetters makes the queue of the dead letters one that cannot be written.
func (w *world) spoilDeadLetters() {
	raw := w.bare()
	_, err := raw.Create(w.path+"-dead", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
	_, err = raw.Create(w.path+"-dead/s", []byte("zkrecipes/9 queue"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
}

func TestNoItemIsDeliveredBeyondItsAttemptsIfTheDeadLettersFail(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		q.itemQueue.Opts.MaxAttempts = 1
		putOn(t, q, "0", "1")
		items, err := q.TakeN(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, items, 2)
		require.Greater(t, items[1].Token(), items[0].Token())
		for _, it := range items {
			nackOn(t, it)
		}
		w.spoilDeadLetters()
		items, err = q.TakeN(t.Context(), 2)
		require.ErrorIs(t, err, ErrPathInUse)
		require.Empty(t, items)
		time.Sleep(time.Minute) // they are given back
		it, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, ErrPathInUse)
		require.Nil(t, it)
	})
}

// Two values of Queue with the same path have other options. An error that concerns
// one is not the other's.
func TestErrorOfOneTakerIsNotAnothers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		strict, lenient := w.queue(c), w.queue(c)
		strict.itemQueue.Opts.MaxAttempts, lenient.itemQueue.Opts.MaxAttempts = 1, -1
		putOn(t, strict, "0")
		nackOn(t, takeOn(t, strict))
		w.spoilDeadLetters()
		held := takeOn(t, lenient)
		a, b := w.takeLater(strict), w.takeLater(lenient)
		nackOn(t, held)
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrPathInUse)
		ackOn(t, b.Get())
	})
}

// One request has room for some of the items only.
func TestTakeNClaimsAsManyItemsAsARequestHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(&Options{Identity: strings.Repeat("i", 12_000)}))
		putOn(t, q, names(95)...)
		var got []string
		for len(got) < 95 {
			items, err := q.TakeN(t.Context(), 95)
			require.NoError(t, err)
			if len(got) == 0 {
				require.Greater(t, len(items), 50)
			}
			for _, it := range items {
				got = append(got, string(it.Data))
				ackOn(t, it)
			}
		}
		require.Equal(t, names(95), got)
	})
}

// A consumer that works for longer than the grace remembers that the head is dead.
func TestB79DeadHeadHoldsUpASlowConsumerOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		dead, link := w.consumerWithLink()
		w.takeLater(dead)
		time.Sleep(time.Second)
		link.Stop()
		putOn(t, w.queue(w.stranger(nil)), names(15)...)
		acked, late, n := time.Now(), 0, 0
		all := make(chan struct{})
		a := serveLater(t, w.queue(w.stranger(nil)), func(context.Context, *Item) error {
			if time.Since(acked) >= queue.Grace {
				late++
			}
			time.Sleep(4 * queue.Grace)
			acked = time.Now()
			if n++; n == 15 {
				close(all)
			}
			return nil
		})
		<-all
		require.NoError(t, stop(a))
		require.Equal(t, 1, late)
		link.Resume()
	})
}

// Serve's context ends while its claim is under way.
func TestServeBeginsNoHandlerOnceItsContextHasEnded(t *testing.T) {
	for d := 10 * time.Millisecond; d < 500*time.Millisecond; d += 20 * time.Millisecond {
		inBubble(t, func(t *testing.T, w *world) {
			q, link := w.consumerWithLink()
			late := false
			a := harness.GoErr(t, func(ctx context.Context) error {
				return q.Serve(ctx, func(context.Context, *Item) error {
					late = ctx.Err() != nil
					return nil
				})
			})
			synctest.Wait()
			time.Sleep(time.Second)
			link.SetLatency(100 * time.Millisecond)
			putOn(t, w.queue(w.stranger(nil)), "x")
			time.Sleep(d)
			require.NoError(t, stop(a))
			require.False(t, late, "%v", d)
		})
	}
}

// The claim ends while the ack that takes a place along is under way: that place is
// deleted, and no worker uses it.
func TestB77PlaceOfAnAckThatFailsIsNotUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, link := w.consumerWithLink()
		items := make(chan *Item, 2)
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			items <- it
			return nil
		})
		synctest.Wait()
		time.Sleep(time.Second)
		link.SetLatency(50 * time.Millisecond)
		producer := w.queue(w.stranger(nil))
		putOn(t, producer, "x")
		it := <-items
		time.Sleep(10 * time.Millisecond)                    // the ack is under way
		it.lease.handle.Grant.End(line.Lost(line.ErrSilent)) // as the session's clock does
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		putOn(t, producer, "y")
		require.Equal(t, "y", string((<-items).Data))
		time.Sleep(time.Second)
		require.NoError(t, stop(a))
	})
}
