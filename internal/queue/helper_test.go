package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// part is which znodes of a claim an operator deletes, and whether the item goes with them.
type part struct{ flag, claim, item bool }

var parts = map[string]part{"flag": {flag: true}, "claim": {claim: true}, "flag and claim": {flag: true, claim: true}}

// remove deletes that part of the only claim. It does so in one transaction: consumers delete a claim
// without a flag.
func (p part) remove(t testing.TB, w *recipetest.World, conn *zk.Conn) {
	t.Helper()
	if p == (part{}) {
		return
	}
	var ops []any
	if p.flag {
		ops = append(ops, &zk.DeleteRequest{Path: w.Segment(0) + "/" + w.Flags()[0], Version: -1})
	}
	if p.claim {
		ops = append(ops, &zk.DeleteRequest{Path: w.Items()[0] + queuelog.ClaimName, Version: -1})
	}
	if p.item {
		ops = append(ops, &zk.DeleteRequest{Path: w.Items()[0], Version: -1})
	}
	_, err := conn.Multi(ops...)
	require.NoError(t, err)
}

// beforeAndAfter runs f in worlds of their own: for a fault that comes before a request is
// carried out, and for one that comes after it.
func beforeAndAfter(t *testing.T, f func(t *testing.T, w *recipetest.World, after bool)) {
	recipetest.EachInBubble(t, map[string]bool{"after=false": false, "after=true": true}, f)
}

// engine returns a queue as it is below the API.
func engine(c recipetest.Core, path string, opts queue.Options) *queue.Queue {
	return queue.New(c.Client, path, opts, queue.Hooks{
		Acquire: func(ctx context.Context, _, _ string) (context.Context, func(*hold.Grant, error)) {
			return ctx, func(*hold.Grant, error) {}
		},
		Logged: func(id string) any { return id },
	})
}

// strict returns the world's queue with a bound of attempts, for a new client.
func strict(w *recipetest.World, attempts int) *zkrecipes.Queue {
	return w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{MaxAttempts: attempts})
}

// entries returns what a queue shows of its items.
func entries(t testing.TB, q *zkrecipes.Queue) (all []zkrecipes.Entry) {
	t.Helper()
	for e, err := range q.Items(harness.Within(t, 2*time.Minute)) {
		if errors.Is(err, zkrecipes.ErrUnused) { // an operator has deleted it
			return nil
		}
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// listed returns the data of all items.
func listed(t testing.TB, q *zkrecipes.Queue) (all []string) {
	t.Helper()
	for _, e := range entries(t, q) {
		all = append(all, string(e.Data))
	}
	return all
}

func bytesOf(items ...string) (all [][]byte) {
	for _, item := range items {
		all = append(all, []byte(item))
	}
	return all
}

func purge(t testing.TB, q *zkrecipes.Queue) int {
	t.Helper()
	n, err := q.Purge(t.Context())
	require.NoError(t, err)
	return n
}

func redrive(t testing.TB, q *zkrecipes.Queue, most int) int {
	t.Helper()
	n, err := q.Redrive(t.Context(), most)
	require.NoError(t, err)
	return n
}

func ackPutOn(t testing.TB, it *zkrecipes.Item, to *zkrecipes.Queue, items ...string) []zkrecipes.ItemID {
	t.Helper()
	ids, err := it.AckPut(harness.Within(t, time.Minute), to, bytesOf(items...))
	require.NoError(t, err)
	require.Len(t, ids, len(items))
	return ids
}

// takeN takes n items.
func takeN(t testing.TB, q *zkrecipes.Queue, n int) []*zkrecipes.Item {
	t.Helper()
	items, err := q.TakeN(harness.Within(t, 2*time.Minute), n)
	require.NoError(t, err)
	return items
}

// stop ends a Serve and returns its error.
func stop(a *harness.Call[struct{}]) error {
	a.Cancel(nil)
	_, err := a.Wait()
	return err
}

// handling is a Serve that notes the data of the items that it hands out. It is for bubbles: its
// handlers do not run at once.
type handling struct {
	*harness.Call[struct{}]
	got []string
}

// serve handles items with f, which may be nil.
func serve(t testing.TB, q *zkrecipes.Queue, f func(*zkrecipes.Item) error) *handling {
	h := &handling{}
	h.Call = recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
		h.got = append(h.got, string(it.Data))
		if f == nil {
			return nil
		}
		return f(it)
	})
	synctest.Wait()
	return h
}

// bury makes dead letters of items whose handler fails with their data, one after the other.
func bury(t *testing.T, q *zkrecipes.Queue, items ...string) (ids []zkrecipes.ItemID) {
	t.Helper()
	a := serve(t, q, func(it *zkrecipes.Item) error { return errors.New("cannot work on " + string(it.Data)) })
	for _, item := range items {
		ids = append(ids, recipetest.PutOn(t, q, item)...)
		time.Sleep(time.Hour)
		synctest.Wait()
	}
	require.NoError(t, stop(a.Call))
	return ids
}

// failures returns what the dead letters of a queue tell.
func failures(t *testing.T, q *zkrecipes.Queue) (all []zkrecipes.Failure) {
	t.Helper()
	for _, e := range entries(t, q.DeadLetters()) {
		all = append(all, e.Failure)
	}
	return all
}

// eachOf is like EachInBubble for cases that need no names.
func eachOf[C any](t *testing.T, cases []C, f func(t *testing.T, w *recipetest.World, c C)) {
	for _, c := range cases {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, w, c) })
		})
	}
}
