package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The receipts that a session keeps for its next puts.

// An operator deletes the receipts, or the queue with them. No call fails for that,
// however many there were.
func TestB86CallsGoOnWhenAllReceiptsWereDeleted(t *testing.T) {
	calls := map[string]func(t *testing.T, q *zkrecipes.Queue){
		"Put": func(t *testing.T, q *zkrecipes.Queue) { recipetest.PutOn(t, q, "x") },
		"AckPut": func(t *testing.T, q *zkrecipes.Queue) {
			_, err := recipetest.TakeOn(t, q).AckPut(t.Context(), zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/other", nil), [][]byte{[]byte("moved")})
			require.NoError(t, err)
		},
		"Purge": func(t *testing.T, q *zkrecipes.Queue) {
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
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q := w.Queue(w.Stranger(nil))
					w.PutAtOnce(q, 3*zkconn.MaxTries)
					require.Greater(t, len(w.Srv.Children(w.Path+"/puts")), zkconn.MaxTries)
					recipetest.RemoveTree(t, w.Bare(), w.Path+deleted)
					call(t, q)
					call(t, q)
				})
			})
		}
	}
}

// Receipts that were needed for a moment only do not stay until the session ends.
func TestA21ReceiptsOfManyPutsAtOnceAreDeletedSaveForSome(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		w.PutAtOnce(q, 100)
		time.Sleep(time.Second)
		require.Len(t, w.Srv.Children(w.Path+"/puts"), 32)
		recipetest.PutOn(t, q, "x")
		require.Len(t, w.Srv.Children(w.Path+"/puts"), 32)
	})
}
