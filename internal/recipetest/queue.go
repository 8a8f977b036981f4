package recipetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func Warm(t testing.TB, q *zkrecipes.Queue) {
	t.Helper()
	PutOn(t, q, "warm")
	AckOn(t, TakeOn(t, q))
}

// TakeOn takes an item. It fails the test on an error.
func TakeOn(t testing.TB, q *zkrecipes.Queue) *zkrecipes.Item {
	t.Helper()
	it, err := q.Take(harness.Within(t, 2*time.Minute))
	require.NoError(t, err)
	return it
}

func PutOn(t testing.TB, q *zkrecipes.Queue, items ...string) (ids []zkrecipes.ItemID) {
	t.Helper()
	for _, data := range items {
		id, err := q.Put(harness.Within(t, 2*time.Minute), []byte(data))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func AckOn(t testing.TB, it *zkrecipes.Item) {
	t.Helper()
	require.NoError(t, it.Ack(harness.Within(t, 2*time.Minute)))
	require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
}

func NackOn(t testing.TB, it *zkrecipes.Item) {
	t.Helper()
	require.NoError(t, it.Nack(harness.Within(t, 2*time.Minute)))
	require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
}

// Drain takes and acks all items and returns their data.
func Drain(t testing.TB, q *zkrecipes.Queue) (all []string) {
	t.Helper()
	for {
		n, err := q.Len(harness.Within(t, 2*time.Minute))
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		it := TakeOn(t, q)
		all = append(all, string(it.Data))
		AckOn(t, it)
	}
}

func TakeLater(t testing.TB, q *zkrecipes.Queue) *harness.Call[*zkrecipes.Item] {
	return harness.Go(t, q.Take)
}

func PutLater(t testing.TB, q *zkrecipes.Queue, data string) *harness.Call[zkrecipes.ItemID] {
	return harness.Go(t, func(ctx context.Context) (zkrecipes.ItemID, error) { return q.Put(ctx, []byte(data)) })
}

func AckLater(t testing.TB, it *zkrecipes.Item, ops ...zkrecipes.Op) *harness.Call[struct{}] {
	return harness.GoErr(t, func(ctx context.Context) error { return it.Ack(ctx, ops...) })
}

// Tree lists all znodes below a path, relative to it, sorted.
func Tree(t testing.TB, conn *zk.Conn, path string) (all []string) {
	t.Helper()
	var walk func(string)
	walk = func(at string) {
		for _, name := range harness.Children(t, conn, at) {
			all = append(all, (at + "/" + name)[len(path):])
			walk(at + "/" + name)
		}
	}
	walk(path)
	slices.Sort(all)
	return all
}

// RemoveTree deletes a tree in one transaction, as zkCli's deleteall does.
func RemoveTree(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	harness.Eventually(t, "deleted "+path, func() bool {
		all := Tree(t, conn, path)
		slices.Reverse(all) // children sort after their parents
		var ops []any
		for _, name := range append(all, "") {
			ops = append(ops, &zk.DeleteRequest{Path: path + name, Version: -1})
		}
		_, err := conn.Multi(ops...)
		return err == nil
	})
}

// Queue returns the world's queue for a client.
func (w *World) Queue(c *zkrecipes.Client) *zkrecipes.Queue {
	return w.QueueWith(c, nil)
}

// QueueWith is the world's queue with options.
func (w *World) QueueWith(c *zkrecipes.Client, opts *zkrecipes.QueueOptions) *zkrecipes.Queue {
	return uses(w, zkrecipes.NewQueue(c, w.Path, opts), c)
}

// Flags returns the flags of all claims in the queue's segments.
func (w *World) Flags() (all []string) {
	for _, seg := range w.Srv.Children(w.Path + "/s") {
		for _, name := range w.Srv.Children(w.Path + "/s/" + seg) {
			if strings.Contains(name, ".") {
				all = append(all, name)
			}
		}
	}
	return all
}

// Items returns the paths of the items, in order.
func (w *World) Items() (all []string) {
	for _, seg := range w.Srv.Children(w.Path + "/s") {
		for _, node := range queuelog.Entries(w.Srv.Children(w.Path + "/s/" + seg)) {
			all = append(all, w.Path+"/s/"+seg+"/"+node.Name)
		}
	}
	return all
}

func (w *World) TakeLater(q *zkrecipes.Queue) *harness.Call[*zkrecipes.Item] {
	return settled(TakeLater(w.T, q))
}

var ErrHandler = errors.New("handler's error")

func Names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// Crowd is a set of clients of an in-process server, with what each client writes, so that a test can
// tell which clients a change wakes.
type Crowd struct {
	W    *World
	taps []*harness.Taps
}

func (cr *Crowd) Client() *zkrecipes.Client {
	taps := harness.NewTapsVia(cr.W.Srv.DialContext)
	cr.taps = append(cr.taps, taps)
	return cr.W.Stranger(&zkrecipes.Options{Dialer: taps.Dial})
}

// writes returns how many frames but pings each client has written.
func (cr *Crowd) writes() (all []int) {
	for _, taps := range cr.taps {
		n := -taps.Count("ping")
		for _, tap := range taps.All() {
			n += len(tap.Sent())
		}
		all = append(all, n)
	}
	return all
}

// Woken runs f, waits until all clients sleep again, and returns how many of them
// have written something.
func (cr *Crowd) Woken(f func()) (n int) {
	synctest.Wait()
	before := cr.writes()
	f()
	synctest.Wait()
	for i, writes := range cr.writes() {
		if writes != before[i] {
			n++
		}
	}
	return n
}

const (
	OpReceipt    = "create2"
	OpPut        = "multi(setData,check,create)"
	OpSealing    = "multi(setData,setData,create,create)"
	OpClaim      = "multi(create,create,setData,delete)" // at a turn in the line
	OpClaimAlone = "multi(create,create,setData)"        // without a place in it
	OpAck        = "multi(delete,delete,delete)"
	OpNack       = "multi(delete,delete)"
)

// AckedOn takes and acks an item and returns its data.
func AckedOn(t testing.TB, q *zkrecipes.Queue) string {
	it := TakeOn(t, q)
	AckOn(t, it)
	return string(it.Data)
}

// Rates returns how many items a second consumers take and ack, each a process of one
// worker with that round trip, from a queue with a backlog. overtaken tells for each delivery
// how many earlier items are delivered after it.
func (w *World) Rates(roundTrips ...time.Duration) (perSecond []int, total int, overtaken []int) {
	const seconds = 8
	t := w.T
	producer := w.Queue(w.Stranger(nil))
	for i := range 8 {
		PutAllOn(t, producer, 1000*i, 1000)
	}
	var mu sync.Mutex
	var order []int
	counts := make([]atomic.Int64, len(roundTrips))
	for i, roundTrip := range roundTrips {
		q, link := w.ConsumerWithLink()
		link.SetLatency(roundTrip)
		ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			counts[i].Add(1)
			n, err := strconv.Atoi(string(it.Data))
			mu.Lock()
			defer mu.Unlock()
			order = append(order, n)
			return err
		})
	}
	time.Sleep(time.Second) // all are at work
	counted := w.Srv.Counts()
	before := make([]int64, len(counts))
	for i := range counts {
		before[i] = counts[i].Load()
	}
	time.Sleep(seconds * time.Second)
	items := 0
	for i := range counts {
		n := int(counts[i].Load() - before[i])
		items += n
		perSecond = append(perSecond, n/seconds)
	}
	counted = w.Srv.Counts().Sub(counted)
	requests := 0
	for _, n := range counted.Requests {
		requests += n
	}
	t.Logf("%.2f requests an item, %.2f commits", float64(requests)/float64(items), float64(counted.Transactions)/float64(items))
	require.LessOrEqual(t, requests, 13*items/2)
	require.NotEmpty(t, w.Items(), "there was a backlog all the time")
	mu.Lock()
	defer mu.Unlock()
	return perSecond, items / seconds, overtakes(order)
}

// overtakes returns for each of the numbers how many lower ones come after it, or never.
func overtakes(order []int) (all []int) {
	var done []int // ascending
	for _, n := range order {
		i, _ := slices.BinarySearch(done, n)
		all = append(all, n-i)
		done = slices.Insert(done, i, n)
	}
	slices.Sort(all)
	return all
}

// Foreign creates a persistent znode below an item.
func (w *World) Foreign(conn *zk.Conn, item, name string) string {
	w.T.Helper()
	_, err := conn.Create(item+"/"+name, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	return item + "/" + name
}

// Aside requires that an item, its znode, the mark that it is done and a claim's exclusion
// are all that is left of a queue, that nobody takes it for an item, and that they can be
// deleted. Without the exclusion, a consumer whose server lags could claim the item.
func (w *World) Aside(q *zkrecipes.Queue, item, znode string) {
	t := w.T
	t.Helper()
	require.Empty(t, w.Items())
	n, err := q.Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	conn := w.Bare()
	data, _, err := conn.Get(znode)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
	data, _, err = conn.Get(item)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	for _, path := range []string{znode, item + "/c", item, item + ".done"} {
		require.NoError(t, conn.Delete(path, -1))
	}
	w.OneSegment(q)
}

// Distant returns the queue for a client with a round trip of that duration.
func (w *World) Distant(roundTrip time.Duration, opts *zkrecipes.QueueOptions) *zkrecipes.Queue {
	link := harness.NewLink(w.Srv)
	link.SetLatency(roundTrip)
	return w.QueueWith(w.Stranger(&zkrecipes.Options{Dialer: link.Dial}), opts)
}

// ReceiptsOf matches the receipts of a client's session, as a Fault's Path.
func (w *World) ReceiptsOf(c *zkrecipes.Client) string {
	return fmt.Sprintf("%s/puts/%016x-*", w.Path, uint64(SessionID(c)))
}

// PutAllOn puts the numbers from first on.
func PutAllOn(t testing.TB, q *zkrecipes.Queue, first, n int) []zkrecipes.ItemID {
	t.Helper()
	var items [][]byte
	for i := range n {
		items = append(items, strconv.AppendInt(nil, int64(first+i), 10))
	}
	ids, err := q.PutAll(harness.Within(t, time.Minute), items...)
	require.NoError(t, err)
	return ids
}

// SegmentSizes returns how many items there are in each segment, in order.
func (w *World) SegmentSizes() (sizes []int) {
	for _, seg := range w.Srv.Children(w.Path + "/s") {
		sizes = append(sizes, len(queuelog.Entries(w.Srv.Children(w.Path+"/s/"+seg))))
	}
	return sizes
}

// PutAtOnce puts that many items at the same time, so that each needs a receipt of its
// own.
func (w *World) PutAtOnce(q *zkrecipes.Queue, n int) {
	w.T.Helper()
	PutOn(w.T, q, "first use")
	w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi", Path: w.ReceiptsOf(w.ClientOf(q)), For: time.Second})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { PutOn(w.T, q, fmt.Sprint(i)) })
	}
	wg.Wait()
	w.Plan.Stop()
}

// Sealing returns a Client whose queues have segments of n creates.
func (w *World) Sealing(n int64, opts *zkrecipes.Options) *zkrecipes.Client {
	return w.Tuned(opts, func(c *tuning.Constants) { c.Segment = n })
}

// Small returns the world's queue, with segments of n creates.
func (w *World) Small(n int64, opts *zkrecipes.QueueOptions) *zkrecipes.Queue {
	return w.QueueWith(w.Sealing(n, nil), opts)
}

func (w *World) Segment(n int) string { return fmt.Sprintf("%s/s/%010d", w.Path, n) }

// OneSegment requires that a Take deletes all segments but the open one.
func (w *World) OneSegment(q *zkrecipes.Queue) {
	w.T.Helper()
	a := w.TakeLater(q)
	a.Cancel(nil)
	_, err := a.Wait()
	require.ErrorIs(w.T, err, context.Canceled)
	require.Len(w.T, w.Srv.Children(w.Path+"/s"), 1)
}

// Bounded returns the queue with a bound for a new client.
func (w *World) Bounded(maxLen int) *zkrecipes.Queue {
	return w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{MaxLen: maxLen})
}

// BoundedWithLink is like bounded for a client whose process can be stopped.
func (w *World) BoundedWithLink(maxLen int) (*zkrecipes.Queue, *harness.Link) {
	link := harness.NewLink(w.Srv)
	return zkrecipes.NewQueue(w.Stranger(&zkrecipes.Options{Dialer: link.Dial}), w.Path, &zkrecipes.QueueOptions{MaxLen: maxLen}), link
}

// PutLater puts an item and returns once the call sleeps, or has returned.
func (w *World) PutLater(q *zkrecipes.Queue, data string) *harness.Call[zkrecipes.ItemID] {
	return settled(PutLater(w.T, q, data))
}

// Fills fills the queue, and returns what takes and acks the oldest item.
func (w *World) Fills(n int) (ack func()) {
	taker := w.Queue(w.Stranger(nil))
	PutOn(w.T, taker, Names(n)...)
	return func() { AckedOn(w.T, taker) }
}

// Records collects what is logged.
type Records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *Records) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *Records) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Logged returns options with a Logger, and its records.
func Logged() (*zkrecipes.Options, *Records) {
	l := &Records{}
	return &zkrecipes.Options{Logger: slog.New(slog.NewJSONHandler(l, nil))}, l
}

// Sessions returns the records that name a session: level, message and session.
func (l *Records) Sessions(t *testing.T) (all []string) {
	for line := range strings.Lines(l.String()) {
		var r struct{ Level, Msg, Session string }
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Session != "" {
			all = append(all, r.Level+" "+r.Msg+" "+r.Session)
		}
	}
	return all
}

// ServeLater calls Serve in the background.
func ServeLater(t testing.TB, q *zkrecipes.Queue, handler func(context.Context, *zkrecipes.Item) error) *harness.Call[struct{}] {
	return harness.GoErr(t, func(ctx context.Context) error { return q.Serve(ctx, handler) })
}

// SpoilDeadLetters makes the queue of the dead letters one that cannot be written.
func (w *World) SpoilDeadLetters() {
	raw := w.Bare()
	_, err := raw.Create(w.Path+"-dead", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	_, err = raw.Create(w.Path+"-dead/s", []byte("zkrecipes/9 queue"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
}

// ConsumerWithLink returns a queue for a client whose process can be stopped.
func (w *World) ConsumerWithLink() (*zkrecipes.Queue, *harness.Link) {
	link := harness.NewLink(w.Srv)
	return w.Queue(w.Stranger(&zkrecipes.Options{Dialer: link.Dial})), link
}
