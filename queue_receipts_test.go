package zkrecipes

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The receipts that a session keeps for its next puts.

// putAtOnce puts that many items at the same time, so that each needs a receipt of its
// own.
func (w *world) putAtOnce(q *Queue, n int) {
	w.t.Helper()
	putOn(w.t, q, "first use")
	w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi", Path: w.receiptsOf(clientOf(q.itemQueue.Client)), For: time.Second})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { putOn(w.t, q, fmt.Sprint(i)) })
	}
	wg.Wait()
	w.plan.Stop()
}

// An operator deletes the receipts, or the queue with them. No call fails for that,
// however many there were.
func TestB86CallsGoOnWhenAllReceiptsWereDeleted(t *testing.T) {
	calls := map[string]func(t *testing.T, q *Queue){
		"Put": func(t *testing.T, q *Queue) { putOn(t, q, "x") },
		"AckPut": func(t *testing.T, q *Queue) {
			_, err := takeOn(t, q).AckPut(t.Context(), NewQueue(clientOf(q.itemQueue.Client), "/other", nil), [][]byte{[]byte("moved")})
			require.NoError(t, err)
		},
		"Purge": func(t *testing.T, q *Queue) {
			_, err := q.Purge(t.Context())
			require.NoError(t, err)
		},
	}
	for what, call := range calls {
		for _, deleted := range []string{"/puts", ""} {
			if deleted == "" && what == "AckPut" {
				continue // there is no item to be taken
			}
			t.Run(what+" without "+deleted, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q := w.queue(w.stranger(nil))
					w.putAtOnce(q, 3*zkconn.MaxTries)
					require.Greater(t, len(w.srv.Children(w.path+"/puts")), zkconn.MaxTries)
					removeTree(t, w.bare(), w.path+deleted)
					call(t, q)
					call(t, q)
				})
			})
		}
	}
}

// Receipts that were needed for a moment only do not stay until the session ends.
func TestA21ReceiptsOfManyPutsAtOnceAreDeletedSaveForSome(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		w.putAtOnce(q, 100)
		time.Sleep(time.Second)
		require.Len(t, w.srv.Children(w.path+"/puts"), 32)
		putOn(t, q, "x")
		require.Len(t, w.srv.Children(w.path+"/puts"), 32)
	})
}
