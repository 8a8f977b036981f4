package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What users of a queue rely on.

func TestA21ItemsComeOutInTheOrderInWhichTheyWerePut(t *testing.T) {
	t.Parallel()
	q := zkrecipes.NewQueue(recipetest.Dial(t, nil), harness.NewPath(t), nil)
	const n = 1000
	ids := recipetest.PutOn(t, q, recipetest.Names(n)...)
	for i := range n {
		it := recipetest.TakeOn(t, q)
		require.Equal(t, fmt.Sprint(i), string(it.Data))
		require.Equal(t, ids[i], it.ID)
		require.Equal(t, 1, it.Attempt)
		require.NoError(t, it.Err())
		recipetest.AckOn(t, it)
	}
	require.Empty(t, recipetest.Drain(t, q))
}

// The items of each producer come out in the order in which it put them.
func TestA21ItemsOfManyProducersComeOutInEachOnesOrder(t *testing.T) {
	t.Parallel()
	path := harness.NewPath(t)
	const producers, n = 5, 200
	var wg sync.WaitGroup
	for p := range producers {
		q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
		wg.Go(func() {
			for i := range n {
				if _, err := q.Put(harness.Within(t, 60*time.Second), fmt.Appendf(nil, "%d %d", p, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
	last := map[int]int{}
	for range producers * n {
		it := recipetest.TakeOn(t, q)
		var p, i int
		_, err := fmt.Sscanf(string(it.Data), "%d %d", &p, &i)
		require.NoError(t, err)
		require.Equal(t, last[p], i, "of producer %d", p)
		last[p]++
		recipetest.AckOn(t, it)
	}
	wg.Wait()
	require.Empty(t, recipetest.Drain(t, q))
}

func TestRealA21FourConsumersGetEachItemOnce(t *testing.T) {
	t.Parallel()
	path := harness.NewPath(t)
	const n = 1000
	got := make(chan string, 2*n)
	ctx, cancel := context.WithCancel(harness.Within(t, 60*time.Second))
	var consumers, producers sync.WaitGroup
	for range 4 {
		q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
		consumers.Go(func() {
			for {
				it, err := q.Take(ctx)
				if err != nil {
					return
				}
				got <- string(it.Data)
				if err := it.Ack(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for p := range 2 {
		q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
		producers.Go(func() {
			for i := range n / 2 {
				if _, err := q.Put(ctx, fmt.Append(nil, p, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	producers.Wait()
	all := map[string]int{}
	for range n {
		select {
		case data := <-got:
			all[data]++
		case <-ctx.Done():
			require.FailNow(t, "items missing", len(all))
		}
	}
	cancel()
	consumers.Wait()
	require.Len(t, all, n)
	require.Empty(t, got)
	recipetest.AtRest(t, harness.Raw(t), path)
}

func TestA21TakeFromAnEmptyQueueWaitsAndWakesEachTime(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	other := r.Other()
	for i := range 5 {
		a := recipetest.TakeLater(t, r.Q)
		recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
		require.True(t, a.Waiting())
		id := recipetest.PutOn(t, other, fmt.Sprint(i))[0]
		it := a.Get()
		require.Equal(t, id, it.ID)
		require.Equal(t, fmt.Sprint(i), string(it.Data))
		recipetest.AckOn(t, it)
	}
	recipetest.AtRest(t, r.Raw, r.Path)
}

func TestA21TakeWithADeadlineReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	r.Warm()
	ctx, cancel := context.WithTimeout(r.Ctx, 100*time.Millisecond)
	defer cancel()
	_, err := r.Q.Take(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "zkrecipes: take from "+r.Path+": context deadline exceeded")
	harness.Eventually(t, "an empty line", func() bool { return len(harness.Children(t, r.Raw, r.Path+"/line")) == 0 })

	a := recipetest.TakeLater(t, r.Q)
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	why := errors.New("enough")
	a.Cancel(why)
	_, err = a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	harness.Eventually(t, "an empty line", func() bool { return len(harness.Children(t, r.Raw, r.Path+"/line")) == 0 })
	recipetest.PutOn(t, r.Q, "next")
	recipetest.AckOn(t, recipetest.TakeOn(t, r.Q))
}

func TestRealA21ItemOfADeadConsumerGoesToAnotherInItsOldPosition(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	other := r.Other()
	ids := recipetest.PutOn(t, other, "0", "1", "2")
	dying := recipetest.TakeOn(t, r.Q)
	require.Equal(t, ids[0], dying.ID)
	second := recipetest.TakeOn(t, other)
	require.Equal(t, ids[1], second.ID)

	r.P.Expire()
	again := recipetest.TakeOn(t, other)
	require.Equal(t, ids[0], again.ID, "before the last one")
	require.Equal(t, "0", string(again.Data))
	require.Equal(t, 2, again.Attempt)
	require.Greater(t, again.Token(), dying.Token())
	require.Greater(t, again.Token(), second.Token())
	recipetest.AckOn(t, again)
	recipetest.AckOn(t, second)
	require.Equal(t, []string{"2"}, recipetest.Drain(t, other))
	harness.Eventually(t, "lost", func() bool { return dying.Err() != nil })
	require.ErrorIs(t, dying.Ack(r.Ctx), zkrecipes.ErrLost)
}

func TestA21NackedItemIsRedeliveredFirstAndItsAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	ids := recipetest.PutOn(t, r.Q, "0", "1")
	before := time.Now()
	for attempt := 1; attempt <= 5; attempt++ {
		it := recipetest.TakeOn(t, r.Q)
		require.Equal(t, ids[0], it.ID)
		require.Equal(t, attempt, it.Attempt)
		require.True(t, it.ValidUntil().After(before))
		work := it.Context(r.Ctx)
		require.NoError(t, work.Err())
		recipetest.NackOn(t, it)
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
		require.Zero(t, it.ValidUntil())
		require.NoError(t, it.Nack(r.Ctx), "the same as the first Nack")
		require.ErrorIs(t, it.Ack(r.Ctx), zkrecipes.ErrReleased)
	}
	it := recipetest.TakeOn(t, r.Q)
	require.Equal(t, 6, it.Attempt)
	recipetest.AckOn(t, it)
	require.ErrorIs(t, it.Ack(r.Ctx), zkrecipes.ErrReleased)
	require.ErrorIs(t, it.Nack(r.Ctx), zkrecipes.ErrReleased)
	require.Equal(t, []string{"1"}, recipetest.Drain(t, r.Q))
}

// A redelivery does not write to the item.
func TestA21NamesOfItemsDoNotGrowOverRedelivery(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxAttempts: -1})
	recipetest.PutOn(t, r.Q, "x")
	before := recipetest.Tree(t, r.Raw, r.Path+"/s")
	_, stat, err := r.Raw.Get(r.Path + "/s" + before[1])
	require.NoError(t, err)
	for range 50 {
		recipetest.NackOn(t, recipetest.TakeOn(t, r.Q))
	}
	require.Equal(t, before, recipetest.Tree(t, r.Raw, r.Path+"/s"))
	_, now, err := r.Raw.Get(r.Path + "/s" + before[1])
	require.NoError(t, err)
	require.Equal(t, stat.Mzxid, now.Mzxid)
	it := recipetest.TakeOn(t, r.Q)
	require.Equal(t, 51, it.Attempt)
	recipetest.AckOn(t, it)
}

func TestA21AckAfterTheClaimIsLostIsAnError(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Other(), "x")
	it := recipetest.TakeOn(t, r.Q)
	work := it.Context(r.Ctx)
	r.P.Expire()
	require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
	require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
	require.ErrorIs(t, it.Ack(r.Ctx), zkrecipes.ErrLost)
	require.ErrorIs(t, it.Ack(r.Ctx, zkrecipes.OpCreate(r.Path+"-x", nil, 0, nil)), zkrecipes.ErrLost)
	require.ErrorIs(t, it.Nack(r.Ctx), zkrecipes.ErrLost)
	require.Equal(t, []string{"x"}, recipetest.Drain(t, r.Q), "in the next session")
	_, stat, err := r.Raw.Exists(r.Path + "-x")
	require.NoError(t, err)
	require.Zero(t, stat.Czxid)
}

func TestRealA21BatchKeepsItsOrderAndIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	other := r.Other()
	ids, err := r.Q.PutAll(r.Ctx, []byte("0"), []byte("1"), []byte("2"))
	require.NoError(t, err)
	require.Len(t, ids, 3)
	ids, err = r.Q.PutAll(r.Ctx)
	require.NoError(t, err)
	require.Empty(t, ids)
	require.NotNil(t, ids)

	// Concurrent batches of two do not interleave.
	var wg sync.WaitGroup
	for i := range 50 {
		for p, q := range []*zkrecipes.Queue{r.Q, other} {
			wg.Go(func() {
				_, err := q.PutAll(r.Ctx, fmt.Appendf(nil, "%d/%d a", p, i), fmt.Appendf(nil, "%d/%d b", p, i))
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	all := recipetest.Drain(t, other)
	require.Equal(t, []string{"0", "1", "2"}, all[:3])
	require.Len(t, all, 203)
	for i := 3; i < len(all); i += 2 {
		require.Equal(t, strings.TrimSuffix(all[i], "a")+"b", all[i+1])
	}

	// A batch that is too large as a whole is not put at all.
	half := make([]byte, 600_000)
	_, err = r.Q.PutAll(r.Ctx, half, half)
	require.ErrorContains(t, err, "servers accept 1048575")
	n, err := r.Q.Len(r.Ctx)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestA21PeekLenAndItemsShowWhatThereIs(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	recipetest.QueueOf(r.Q).SegmentSize = 4
	_, err := r.Q.Peek(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrEmpty)
	require.EqualError(t, err, "zkrecipes: peek into "+r.Path+": no item is free: nobody uses this path: zk: node does not exist")
	_, err = r.Q.Len(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrUnused)
	for _, err := range r.Q.Items(r.Ctx) {
		require.ErrorIs(t, err, zkrecipes.ErrUnused)
	}
	exists, _, err := r.Raw.Exists(r.Path)
	require.NoError(t, err)
	require.False(t, exists, "reading creates no znodes")

	ids := recipetest.PutOn(t, r.Q, recipetest.Names(20)...)
	first := recipetest.TakeOn(t, r.Q)
	recipetest.NackOn(t, recipetest.TakeOn(t, r.Q))
	n, err := r.Q.Len(r.Ctx)
	require.NoError(t, err)
	require.Equal(t, 20, n)
	e, err := r.Q.Peek(r.Ctx)
	require.NoError(t, err)
	require.Equal(t, ids[1], e.ID)
	require.Equal(t, zkrecipes.Entry{ID: ids[1], Data: []byte("1"), Attempts: 1, Since: e.Since}, e)
	require.WithinDuration(t, time.Now(), e.Since, time.Minute)

	var all []zkrecipes.Entry
	for e, err := range r.Q.Items(r.Ctx) {
		require.NoError(t, err)
		all = append(all, e)
	}
	require.Len(t, all, 20)
	for i, e := range all {
		require.Equal(t, ids[i], e.ID)
		require.Equal(t, fmt.Sprint(i), string(e.Data))
		require.Equal(t, i == 0, e.Taken)
		require.Equal(t, map[int]int{0: 1, 1: 1}[i], e.Attempts)
	}
	for e := range r.Q.Items(r.Ctx) { // the loop may end early
		require.Equal(t, first.ID, e.ID)
		break
	}
	recipetest.AckOn(t, first)
	require.Len(t, recipetest.Drain(t, r.Q), 19)
	require.Len(t, harness.Children(t, r.Raw, r.Path+"/s"), 2, "the open segment, and a sealed one that the next take deletes")
}

// Items begins with the oldest item, so an item that hangs comes first, with its consumer.
func TestItemsShowWhoHasAnItemAndSinceWhen(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(&zkrecipes.Options{Identity: "worker-7"})), w.Queue(w.Stranger(nil))
		ids := recipetest.PutOn(t, q, "hangs", "free")
		put := time.Now()
		time.Sleep(time.Hour)
		it := recipetest.TakeOn(t, q)
		taken := time.Now()
		time.Sleep(time.Hour)
		var all []zkrecipes.Entry
		for e, err := range other.Items(t.Context()) {
			require.NoError(t, err)
			all = append(all, e)
		}
		require.Len(t, all, 2)
		require.WithinDuration(t, put, all[0].Since, time.Minute)
		require.WithinDuration(t, taken, all[0].TakenSince, time.Minute)
		require.Equal(t, zkrecipes.Entry{
			ID: ids[0], Data: []byte("hangs"), Attempts: 1, Since: all[0].Since,
			Taken: true, Consumer: "worker-7", Session: recipetest.SessionID(recipetest.ClientOf(recipetest.QueueOf(q).Client)), TakenSince: all[0].TakenSince,
		}, all[0])
		require.Equal(t, zkrecipes.Entry{ID: ids[1], Data: []byte("free"), Since: all[1].Since}, all[1])
		found, err := other.Find(t.Context(), ids[0])
		require.NoError(t, err)
		require.Equal(t, all[0], found)

		// It is given back while it is read.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, Op: "getData", Path: w.Path + "/s/0000000000/" + recipetest.TakenOf(it).Claim.Name})
		a := harness.Go(t, func(ctx context.Context) (zkrecipes.Entry, error) { return other.Find(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		recipetest.NackOn(t, it)
		e := a.Get()
		require.Len(t, w.Plan.Fired(), 1)
		require.Equal(t, zkrecipes.Entry{ID: ids[0], Data: []byte("hangs"), Attempts: 1, Since: all[0].Since}, e)
	})
}

// Whether an item of a Put that was uncertain is there takes listings, whatever the backlog.
func TestFindReadsNoOtherItem(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	recipetest.QueueOf(r.Q).SegmentSize = 4
	ids := recipetest.PutOn(t, r.Q, recipetest.Names(20)...)
	r.P.Reset()
	e, err := r.Q.Find(r.Ctx, ids[17])
	require.NoError(t, err)
	require.Equal(t, zkrecipes.Entry{ID: ids[17], Data: []byte("17"), Since: e.Since}, e)
	require.Equal(t, 1, r.P.CountOf("getData"))
	it := recipetest.TakeOn(t, r.Q)
	r.P.Reset()
	e, err = r.Q.Find(r.Ctx, it.ID)
	require.NoError(t, err)
	require.True(t, e.Taken)
	require.Equal(t, 2, r.P.CountOf("getData"), "the item, and its claim")
	recipetest.AckOn(t, it)
	_, err = r.Q.Find(r.Ctx, it.ID)
	require.ErrorIs(t, err, zkrecipes.ErrItemGone)
	require.EqualError(t, err, "zkrecipes: find an item of "+r.Path+": no such item")
	_, err = zkrecipes.NewQueue(r.C, r.Path+"-none", nil).Find(r.Ctx, it.ID)
	require.ErrorIs(t, err, zkrecipes.ErrItemGone)
}

// A client is cut off until its session has expired. Its Take continues in the next
// session.
func TestA21TakerRecoversFromALongPartitionAndSeesNewItems(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	r.C = recipetest.DialTo(t, []string{r.P.Addr()}, &zkrecipes.Options{SessionTimeout: 1500 * time.Millisecond})
	r.Q = zkrecipes.NewQueue(r.C, r.Path, nil)
	a := recipetest.TakeLater(t, r.Q)
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	old := recipetest.SessionID(r.C)
	r.P.Refuse(true)
	r.P.Drop()
	harness.Eventually(t, "the end of the session", func() bool { return len(harness.Children(t, r.Raw, r.Path+"/line")) == 0 })
	id := recipetest.PutOn(t, r.Other(), "new")[0]
	require.True(t, a.Waiting())
	r.P.Refuse(false)
	it := a.Get()
	require.Equal(t, id, it.ID)
	require.NotEqual(t, old, recipetest.SessionID(r.C))
	recipetest.AckOn(t, it)
}

func TestA21ItemsOverTheSizeLimitAreNotSent(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	r.Warm()
	session := recipetest.SessionID(r.C)
	it := func() *zkrecipes.Item { recipetest.PutOn(t, r.Q, "x"); return recipetest.TakeOn(t, r.Q) }()
	r.P.Reset()
	_, err := r.Q.Put(r.Ctx, make([]byte, 1<<20))
	require.ErrorContains(t, err, "servers accept 1048575 (jute.maxbuffer)")
	small := zkrecipes.NewQueue(r.C, r.Path, &zkrecipes.QueueOptions{MaxItemBytes: 10})
	_, err = small.Put(r.Ctx, make([]byte, 11))
	require.EqualError(t, err, "zkrecipes: put into "+r.Path+": item of 11 bytes: QueueOptions.MaxItemBytes is 10")
	_, err = small.PutAll(r.Ctx, make([]byte, 10), make([]byte, 11))
	require.ErrorContains(t, err, "MaxItemBytes")
	require.Empty(t, r.P.Count())
	require.NoError(t, it.Err())
	recipetest.AckOn(t, it)
	require.Equal(t, session, recipetest.SessionID(r.C))
	recipetest.PutOn(t, r.Q, "survives")
	require.Equal(t, []string{"survives"}, recipetest.Drain(t, r.Q))
}

// The item's own context ends with the claim, but Ack and Nack accept it.
func TestA21AckAndNackAcceptTheItemsOwnContext(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxAttempts: -1})
	for range 100 {
		recipetest.PutOn(t, r.Q, "x")
		it := recipetest.TakeOn(t, r.Q)
		require.NoError(t, it.Nack(it.Context(r.Ctx)))
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
		it = recipetest.TakeOn(t, r.Q)
		require.NoError(t, it.Ack(it.Context(r.Ctx)))
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
	}
	require.Empty(t, recipetest.Drain(t, r.Q))
}
