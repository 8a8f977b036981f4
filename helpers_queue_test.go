package zkrecipes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// queueRig is a queue, a client that is connected through a proxy, and a plain
// connection to look at the znodes.
type queueRig struct {
	t    *testing.T
	ctx  context.Context
	path string
	p    *harness.Proxy
	c    *Client
	q    *Queue
	raw  *zk.Conn
}

func newQueueRig(t *testing.T, opts *QueueOptions) *queueRig {
	t.Helper()
	r := &queueRig{t: t, ctx: harness.Within(t, 60*time.Second), path: harness.NewPath(t), p: harness.NewProxy(t, harness.Server()), raw: harness.Raw(t)}
	r.c = dialTo(t, []string{r.p.Addr()}, nil)
	r.q = NewQueue(r.c, r.path, opts)
	return r
}

// other returns the same queue for another client.
func (r *queueRig) other() *Queue {
	r.t.Helper()
	return NewQueue(dial(r.t, nil), r.path, (*QueueOptions)(&r.q.itemQueue.Opts))
}

// warm uses the queue once. A first use takes more requests.
func (r *queueRig) warm() {
	r.t.Helper()
	warm(r.t, r.q)
}

func warm(t testing.TB, q *Queue) {
	t.Helper()
	putOn(t, q, "warm")
	ackOn(t, takeOn(t, q))
}

// takeOn takes an item. It fails the test on an error.
func takeOn(t testing.TB, q *Queue) *Item {
	t.Helper()
	it, err := q.Take(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	return it
}

func putOn(t testing.TB, q *Queue, items ...string) (ids []ItemID) {
	t.Helper()
	for _, data := range items {
		id, err := q.Put(harness.Within(t, 20*time.Second), []byte(data))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func ackOn(t testing.TB, it *Item) {
	t.Helper()
	require.NoError(t, it.Ack(harness.Within(t, 20*time.Second)))
	require.ErrorIs(t, it.Err(), ErrReleased)
}

func nackOn(t testing.TB, it *Item) {
	t.Helper()
	require.NoError(t, it.Nack(harness.Within(t, 20*time.Second)))
	require.ErrorIs(t, it.Err(), ErrReleased)
}

// drain takes and acks all items and returns their data.
func drain(t testing.TB, q *Queue) (all []string) {
	t.Helper()
	for {
		n, err := q.Len(harness.Within(t, 20*time.Second))
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		it := takeOn(t, q)
		all = append(all, string(it.Data))
		ackOn(t, it)
	}
}

func takeLater(t testing.TB, q *Queue) *harness.Call[*Item] { return harness.Go(t, q.Take) }

func putLater(t testing.TB, q *Queue, data string) *harness.Call[ItemID] {
	return harness.Go(t, func(ctx context.Context) (ItemID, error) { return q.Put(ctx, []byte(data)) })
}

func ackLater(t testing.TB, it *Item, ops ...Op) *harness.Call[struct{}] {
	return harness.GoErr(t, func(ctx context.Context) error { return it.Ack(ctx, ops...) })
}

// lineUp waits until there are n places in the line with that path and the given
// clients are asleep.
func lineUp(t testing.TB, conn *zk.Conn, line string, n int, clients ...*Client) {
	t.Helper()
	harness.Eventually(t, "places in "+line, func() bool { return len(harness.Children(t, conn, line)) == n })
	for _, c := range clients {
		asleep(t, c)
	}
}

// asleep waits until a client has armed its watches and no request is under way.
func asleep(t testing.TB, c *Client) {
	t.Helper()
	harness.Eventually(t, "a sleeping client", func() bool {
		s, _ := c.client.Session()
		return len(s.Inspect().Watches) >= 2 && idle(c)
	})
}

// tree lists all znodes below a path, relative to it, sorted.
func tree(t testing.TB, conn *zk.Conn, path string) (all []string) {
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

// atRest waits until a queue has no znodes but those of an empty queue.
func atRest(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	var left []string
	harness.Eventually(t, "an empty queue", func() bool {
		left = nil
		segments := 0
		for _, name := range tree(t, conn, path) {
			switch {
			case name == "/line", name == "/room", name == "/puts", name == "/s":
			case strings.HasPrefix(name, "/puts/"): // stays until its session ends
			case strings.HasPrefix(name, "/s/") && strings.Count(name, "/") == 2:
				segments++
			default:
				left = append(left, name)
			}
		}
		return len(left) == 0 && segments <= 2 // a sealed segment is deleted by the next take
	})
}

// removeTree deletes a tree in one transaction, as zkCli's deleteall does.
func removeTree(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	harness.Eventually(t, "deleted "+path, func() bool {
		all := tree(t, conn, path)
		slices.Reverse(all) // children sort after their parents
		var ops []any
		for _, name := range append(all, "") {
			ops = append(ops, &zk.DeleteRequest{Path: path + name, Version: -1})
		}
		_, err := conn.Multi(ops...)
		return err == nil
	})
}

// queue returns the world's queue for a client.
func (w *world) queue(c *Client) *Queue { return NewQueue(c, w.path, nil) }

// flags returns the flags of all claims in the queue's segments.
func (w *world) flags() (all []string) {
	for _, seg := range w.srv.Children(w.path + "/s") {
		for _, name := range w.srv.Children(w.path + "/s/" + seg) {
			if strings.Contains(name, ".") {
				all = append(all, name)
			}
		}
	}
	return all
}

// items returns the paths of the items, in order.
func (w *world) items() (all []string) {
	for _, seg := range w.srv.Children(w.path + "/s") {
		for _, node := range queuelog.Entries(w.srv.Children(w.path + "/s/" + seg)) {
			all = append(all, w.path+"/s/"+seg+"/"+node.Name)
		}
	}
	return all
}

func (w *world) takeLater(q *Queue) *harness.Call[*Item] {
	l := takeLater(w.t, q)
	synctest.Wait()
	return l
}

var errHandler = errors.New("handler's error")

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// crowd is a set of clients of an in-process server. It counts what each client
// writes, so that a test can tell which clients a change wakes.
type crowd struct {
	w      *world
	writes []*atomic.Int64
}

func (cr *crowd) client() *Client {
	writes := new(atomic.Int64)
	cr.writes = append(cr.writes, writes)
	return cr.w.stranger(&Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := cr.w.srv.DialContext(ctx, network, addr)
		return countingConn{nc, writes}, err
	}})
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

// Write counts everything but pings.
func (o countingConn) Write(b []byte) (int, error) {
	if len(b) != 12 || int32(binary.BigEndian.Uint32(b[4:])) != jute.XidPing {
		o.writes.Add(1)
	}
	return o.Conn.Write(b)
}

// woken runs f, waits until all clients sleep again, and returns how many of them
// have written something.
func (cr *crowd) woken(f func()) (n int) {
	synctest.Wait()
	before := make([]int64, len(cr.writes))
	for i, writes := range cr.writes {
		before[i] = writes.Load()
	}
	f()
	synctest.Wait()
	for i, writes := range cr.writes {
		if writes.Load() != before[i] {
			n++
		}
	}
	return n
}

// nameLength is the length of an item's name.
const nameLength = queuelog.IDLength + 10
