package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What users of a queue rely on.

func TestA21ItemsComeOutInTheOrderInWhichTheyWerePut(t *testing.T) {
	t.Parallel()
	q := NewQueue(dial(t, nil), harness.NewPath(t), nil)
	const n = 1000
	ids := putOn(t, q, names(n)...)
	for i := range n {
		it := takeOn(t, q)
		require.Equal(t, fmt.Sprint(i), string(it.Data))
		require.Equal(t, ids[i], it.ID)
		require.Equal(t, 1, it.Attempt)
		require.NoError(t, it.Err())
		ackOn(t, it)
	}
	require.Empty(t, drain(t, q))
}

// The items of each producer come out in the order in which it put them.
func TestA21ItemsOfManyProducersComeOutInEachOnesOrder(t *testing.T) {
	t.Parallel()
	path := harness.NewPath(t)
	const producers, n = 5, 200
	var wg sync.WaitGroup
	for p := range producers {
		q := NewQueue(dial(t, nil), path, nil)
		wg.Go(func() {
			for i := range n {
				if _, err := q.Put(harness.Within(t, 60*time.Second), fmt.Appendf(nil, "%d %d", p, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	q := NewQueue(dial(t, nil), path, nil)
	last := map[int]int{}
	for range producers * n {
		it := takeOn(t, q)
		var p, i int
		_, err := fmt.Sscanf(string(it.Data), "%d %d", &p, &i)
		require.NoError(t, err)
		require.Equal(t, last[p], i, "of producer %d", p)
		last[p]++
		ackOn(t, it)
	}
	wg.Wait()
	require.Empty(t, drain(t, q))
}

func TestRealA21FourConsumersGetEachItemOnce(t *testing.T) {
	t.Parallel()
	path := harness.NewPath(t)
	const n = 1000
	got := make(chan string, 2*n)
	ctx, cancel := context.WithCancel(harness.Within(t, 60*time.Second))
	var consumers, producers sync.WaitGroup
	for range 4 {
		q := NewQueue(dial(t, nil), path, nil)
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
		q := NewQueue(dial(t, nil), path, nil)
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
	atRest(t, harness.Raw(t), path)
}

func TestA21TakeFromAnEmptyQueueWaitsAndWakesEachTime(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	other := r.other()
	for i := range 5 {
		a := takeLater(t, r.q)
		lineUp(t, r.raw, r.path+"/line", 1, r.c)
		require.True(t, a.Waiting())
		id := putOn(t, other, fmt.Sprint(i))[0]
		it := a.Get()
		require.Equal(t, id, it.ID)
		require.Equal(t, fmt.Sprint(i), string(it.Data))
		ackOn(t, it)
	}
	atRest(t, r.raw, r.path)
}

func TestA21TakeWithADeadlineReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.warm()
	ctx, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
	defer cancel()
	_, err := r.q.Take(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "zkrecipes: take from "+r.path+": context deadline exceeded")
	harness.Eventually(t, "an empty line", func() bool { return len(harness.Children(t, r.raw, r.path+"/line")) == 0 })

	a := takeLater(t, r.q)
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	why := errors.New("enough")
	a.Cancel(why)
	_, err = a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	harness.Eventually(t, "an empty line", func() bool { return len(harness.Children(t, r.raw, r.path+"/line")) == 0 })
	putOn(t, r.q, "next")
	ackOn(t, takeOn(t, r.q))
}

func TestRealA21ItemOfADeadConsumerGoesToAnotherInItsOldPosition(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	other := r.other()
	ids := putOn(t, other, "0", "1", "2")
	dying := takeOn(t, r.q)
	require.Equal(t, ids[0], dying.ID)
	second := takeOn(t, other)
	require.Equal(t, ids[1], second.ID)

	r.p.Expire()
	again := takeOn(t, other)
	require.Equal(t, ids[0], again.ID, "before the last one")
	require.Equal(t, "0", string(again.Data))
	require.Equal(t, 2, again.Attempt)
	require.Greater(t, again.Token(), dying.Token())
	require.Greater(t, again.Token(), second.Token())
	ackOn(t, again)
	ackOn(t, second)
	require.Equal(t, []string{"2"}, drain(t, other))
	harness.Eventually(t, "lost", func() bool { return dying.Err() != nil })
	require.ErrorIs(t, dying.Ack(r.ctx), ErrLost)
}

func TestA21NackedItemIsRedeliveredFirstAndItsAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	ids := putOn(t, r.q, "0", "1")
	before := time.Now()
	for attempt := 1; attempt <= 5; attempt++ {
		it := takeOn(t, r.q)
		require.Equal(t, ids[0], it.ID)
		require.Equal(t, attempt, it.Attempt)
		require.True(t, it.ValidUntil().After(before))
		work := it.Context(r.ctx)
		require.NoError(t, work.Err())
		nackOn(t, it)
		require.ErrorIs(t, context.Cause(work), ErrReleased)
		require.Zero(t, it.ValidUntil())
		require.NoError(t, it.Nack(r.ctx), "the same as the first Nack")
		require.ErrorIs(t, it.Ack(r.ctx), ErrReleased)
	}
	it := takeOn(t, r.q)
	require.Equal(t, 6, it.Attempt)
	ackOn(t, it)
	require.ErrorIs(t, it.Ack(r.ctx), ErrReleased)
	require.ErrorIs(t, it.Nack(r.ctx), ErrReleased)
	require.Equal(t, []string{"1"}, drain(t, r.q))
}

// A redelivery does not write to the item.
func TestA21NamesOfItemsDoNotGrowOverRedelivery(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, &QueueOptions{MaxAttempts: -1})
	putOn(t, r.q, "x")
	before := tree(t, r.raw, r.path+"/s")
	_, stat, err := r.raw.Get(r.path + "/s" + before[1])
	require.NoError(t, err)
	for range 50 {
		nackOn(t, takeOn(t, r.q))
	}
	require.Equal(t, before, tree(t, r.raw, r.path+"/s"))
	_, now, err := r.raw.Get(r.path + "/s" + before[1])
	require.NoError(t, err)
	require.Equal(t, stat.Mzxid, now.Mzxid)
	it := takeOn(t, r.q)
	require.Equal(t, 51, it.Attempt)
	ackOn(t, it)
}

func TestA21AckAfterTheClaimIsLostIsAnError(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	putOn(t, r.other(), "x")
	it := takeOn(t, r.q)
	work := it.Context(r.ctx)
	r.p.Expire()
	require.ErrorIs(t, harness.Cause(t, work), ErrLost)
	require.ErrorIs(t, it.Err(), ErrLost)
	require.ErrorIs(t, it.Ack(r.ctx), ErrLost)
	require.ErrorIs(t, it.Ack(r.ctx, OpCreate(r.path+"-x", nil, 0, nil)), ErrLost)
	require.ErrorIs(t, it.Nack(r.ctx), ErrLost)
	require.Equal(t, []string{"x"}, drain(t, r.q), "in the next session")
	_, stat, err := r.raw.Exists(r.path + "-x")
	require.NoError(t, err)
	require.Zero(t, stat.Czxid)
}

func TestRealA21BatchKeepsItsOrderAndIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	other := r.other()
	ids, err := r.q.PutAll(r.ctx, []byte("0"), []byte("1"), []byte("2"))
	require.NoError(t, err)
	require.Len(t, ids, 3)
	ids, err = r.q.PutAll(r.ctx)
	require.NoError(t, err)
	require.Empty(t, ids)
	require.NotNil(t, ids)

	// Concurrent batches of two do not interleave.
	var wg sync.WaitGroup
	for i := range 50 {
		for p, q := range []*Queue{r.q, other} {
			wg.Go(func() {
				_, err := q.PutAll(r.ctx, fmt.Appendf(nil, "%d/%d a", p, i), fmt.Appendf(nil, "%d/%d b", p, i))
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	all := drain(t, other)
	require.Equal(t, []string{"0", "1", "2"}, all[:3])
	require.Len(t, all, 203)
	for i := 3; i < len(all); i += 2 {
		require.Equal(t, strings.TrimSuffix(all[i], "a")+"b", all[i+1])
	}

	// A batch that is too large as a whole is not put at all.
	half := make([]byte, 600_000)
	_, err = r.q.PutAll(r.ctx, half, half)
	require.ErrorContains(t, err, "servers accept 1048575")
	n, err := r.q.Len(r.ctx)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestA21PeekLenAndItemsShowWhatThereIs(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.q.itemQueue.SegmentSize = 4
	_, err := r.q.Peek(r.ctx)
	require.ErrorIs(t, err, ErrEmpty)
	require.EqualError(t, err, "zkrecipes: peek into "+r.path+": no item is free: nobody uses this path: zk: node does not exist")
	_, err = r.q.Len(r.ctx)
	require.ErrorIs(t, err, ErrUnused)
	for _, err := range r.q.Items(r.ctx) {
		require.ErrorIs(t, err, ErrUnused)
	}
	exists, _, err := r.raw.Exists(r.path)
	require.NoError(t, err)
	require.False(t, exists, "reading creates no znodes")

	ids := putOn(t, r.q, names(20)...)
	first := takeOn(t, r.q)
	nackOn(t, takeOn(t, r.q))
	n, err := r.q.Len(r.ctx)
	require.NoError(t, err)
	require.Equal(t, 20, n)
	e, err := r.q.Peek(r.ctx)
	require.NoError(t, err)
	require.Equal(t, ids[1], e.ID)
	require.Equal(t, Entry{ID: ids[1], Data: []byte("1"), Attempts: 1, Since: e.Since}, e)
	require.WithinDuration(t, time.Now(), e.Since, time.Minute)

	var all []Entry
	for e, err := range r.q.Items(r.ctx) {
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
	for e := range r.q.Items(r.ctx) { // the loop may end early
		require.Equal(t, first.ID, e.ID)
		break
	}
	ackOn(t, first)
	require.Len(t, drain(t, r.q), 19)
	require.Len(t, harness.Children(t, r.raw, r.path+"/s"), 2, "the open segment, and a sealed one that the next take deletes")
}

// Items begins with the oldest item, so an item that hangs comes first, with its consumer.
func TestItemsShowWhoHasAnItemAndSinceWhen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(&Options{Identity: "worker-7"})), w.queue(w.stranger(nil))
		ids := putOn(t, q, "hangs", "free")
		put := time.Now()
		time.Sleep(time.Hour)
		it := takeOn(t, q)
		taken := time.Now()
		time.Sleep(time.Hour)
		var all []Entry
		for e, err := range other.Items(t.Context()) {
			require.NoError(t, err)
			all = append(all, e)
		}
		require.Len(t, all, 2)
		require.WithinDuration(t, put, all[0].Since, time.Minute)
		require.WithinDuration(t, taken, all[0].TakenSince, time.Minute)
		require.Equal(t, Entry{
			ID: ids[0], Data: []byte("hangs"), Attempts: 1, Since: all[0].Since,
			Taken: true, Consumer: "worker-7", Session: sessionID(clientOf(q.itemQueue.Client)), TakenSince: all[0].TakenSince,
		}, all[0])
		require.Equal(t, Entry{ID: ids[1], Data: []byte("free"), Since: all[1].Since}, all[1])
		found, err := other.Find(t.Context(), ids[0])
		require.NoError(t, err)
		require.Equal(t, all[0], found)

		// It is given back while it is read.
		w.plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, Op: "getData", Path: w.path + "/s/0000000000/" + it.takenItem.Claim.Name})
		a := harness.Go(t, func(ctx context.Context) (Entry, error) { return other.Find(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		nackOn(t, it)
		e := a.Get()
		require.Len(t, w.plan.Fired(), 1)
		require.Equal(t, Entry{ID: ids[0], Data: []byte("hangs"), Attempts: 1, Since: all[0].Since}, e)
	})
}

// Whether an item of a Put that was uncertain is there takes listings, whatever the backlog.
func TestFindReadsNoOtherItem(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.q.itemQueue.SegmentSize = 4
	ids := putOn(t, r.q, names(20)...)
	r.p.Reset()
	e, err := r.q.Find(r.ctx, ids[17])
	require.NoError(t, err)
	require.Equal(t, Entry{ID: ids[17], Data: []byte("17"), Since: e.Since}, e)
	require.Equal(t, map[string]int{"sync": 1, "getChildren2": 6, "getData": 1}, r.p.Count())
	it := takeOn(t, r.q)
	r.p.Reset()
	e, err = r.q.Find(r.ctx, it.ID)
	require.NoError(t, err)
	require.True(t, e.Taken)
	require.Equal(t, map[string]int{"sync": 1, "getChildren2": 2, "getData": 2}, r.p.Count())
	ackOn(t, it)
	_, err = r.q.Find(r.ctx, it.ID)
	require.ErrorIs(t, err, ErrItemGone)
	require.EqualError(t, err, "zkrecipes: find an item of "+r.path+": no such item")
	_, err = NewQueue(r.c, r.path+"-none", nil).Find(r.ctx, it.ID)
	require.ErrorIs(t, err, ErrItemGone)
}

// A client is cut off until its session has expired. Its Take continues in the next
// session.
func TestA21TakerRecoversFromALongPartitionAndSeesNewItems(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.c = dialTo(t, []string{r.p.Addr()}, &Options{SessionTimeout: 1500 * time.Millisecond})
	r.q = NewQueue(r.c, r.path, nil)
	a := takeLater(t, r.q)
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	old := sessionID(r.c)
	r.p.Refuse(true)
	r.p.Drop()
	harness.Eventually(t, "the end of the session", func() bool { return len(harness.Children(t, r.raw, r.path+"/line")) == 0 })
	id := putOn(t, r.other(), "new")[0]
	require.True(t, a.Waiting())
	r.p.Refuse(false)
	it := a.Get()
	require.Equal(t, id, it.ID)
	require.NotEqual(t, old, sessionID(r.c))
	ackOn(t, it)
}

func TestA21ItemsOverTheSizeLimitAreNotSent(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.warm()
	session := sessionID(r.c)
	it := func() *Item { putOn(t, r.q, "x"); return takeOn(t, r.q) }()
	r.p.Reset()
	_, err := r.q.Put(r.ctx, make([]byte, 1<<20))
	require.ErrorContains(t, err, "servers accept 1048575 (jute.maxbuffer)")
	small := NewQueue(r.c, r.path, &QueueOptions{MaxItemBytes: 10})
	_, err = small.Put(r.ctx, make([]byte, 11))
	require.EqualError(t, err, "zkrecipes: put into "+r.path+": item of 11 bytes: QueueOptions.MaxItemBytes is 10")
	_, err = small.PutAll(r.ctx, make([]byte, 10), make([]byte, 11))
	require.ErrorContains(t, err, "MaxItemBytes")
	require.Empty(t, r.p.Count())
	require.NoError(t, it.Err())
	ackOn(t, it)
	require.Equal(t, session, sessionID(r.c))
	putOn(t, r.q, "survives")
	require.Equal(t, []string{"survives"}, drain(t, r.q))
}

// The item's own context ends with the claim, but Ack and Nack accept it.
func TestA21AckAndNackAcceptTheItemsOwnContext(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, &QueueOptions{MaxAttempts: -1})
	for range 100 {
		putOn(t, r.q, "x")
		it := takeOn(t, r.q)
		require.NoError(t, it.Nack(it.Context(r.ctx)))
		require.ErrorIs(t, it.Err(), ErrReleased)
		it = takeOn(t, r.q)
		require.NoError(t, it.Ack(it.Context(r.ctx)))
		require.ErrorIs(t, it.Err(), ErrReleased)
	}
	require.Empty(t, drain(t, r.q))
}
