package zkrecipes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The requests that watches send, by operation.

// Each reader's client sends one request for each change, and none while nothing changes.
func TestEachWatchReadsOnceForAChange(t *testing.T) {
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
				var readers []*readout
				for range n {
					c := w.stranger(nil)
					require.Equal(t, map[string]int{"sync": 1, "getData": 1, "exists": 1}, w.readsOf(func() {
						readers = append(readers, watchesAt(t, c, w.path))
					}))
				}
				require.Equal(t, map[string]int{"getData": n}, w.readsOf(func() { w.creates(w.path, "1") }))
				require.Equal(t, map[string]int{"getData": n}, w.readsOf(func() { w.sets(w.path, "2") }))
				require.Equal(t, map[string]int{"exists": n}, w.readsOf(func() { w.deletes(w.path) }))
				require.Empty(t, w.readsOf(func() { time.Sleep(time.Hour) }))
				for _, r := range readers {
					require.Equal(t, []string{"none", "1", "2", "none"}, r.texts())
				}
			})
		})
	}
}

func TestEachWatchOfChildrenListsOnceForAChange(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		require.Equal(t, map[string]int{"sync": 1, "getChildren2": 1, "exists": 1}, w.readsOf(func() { listsOf(t, a, w.path) }))
		require.Equal(t, map[string]int{"getChildren2": 1}, w.readsOf(func() { w.creates(w.path, "1") }))
		require.Empty(t, w.readsOf(func() { w.sets(w.path, "2") }))
		require.Equal(t, map[string]int{"getChildren2": 1}, w.readsOf(func() { w.creates(w.path+"/a", "") }))
		require.Equal(t, map[string]int{"getChildren2": 1}, w.readsOf(func() { w.deletes(w.path + "/a") }))
		require.Equal(t, map[string]int{"exists": 1}, w.readsOf(func() { w.deletes(w.path) }))
	})
}

// Readers of one Client share their requests, and the server keeps one watch for them.
func TestWatchesOfOneClientReadTogether(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		require.Equal(t, map[string]int{"sync": 10, "getData": 1}, w.readsOf(func() {
			for range 10 {
				watchesAt(t, a, w.path)
			}
		}))
		require.Equal(t, 1, watchesOf(a))
		require.Equal(t, map[string]int{"getData": 1}, w.readsOf(func() { w.sets(w.path, "2") }))
		require.Equal(t, map[string]int{"exists": 1}, w.readsOf(func() { w.deletes(w.path) }))
	})
}
