package zkrecipes

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// What a put costs in front of a backlog.

// putCost is what one Put costs the client and an in-process server.
type putCost struct {
	requests map[string]int
	received int // bytes, by the client
	memory   int // bytes, allocated by both
}

func (w *world) costOfBoundedPuts(backlog int) putCost {
	const puts, batch = 40, 100
	link := harness.NewLink(w.srv)
	q := NewQueue(w.stranger(&Options{Dialer: link.Dial}), w.path, &QueueOptions{MaxLen: 1 << 30})
	putOn(w.t, q, "first use of the line")
	unbounded := NewQueue(clientOf(q.itemQueue.Client), w.path, nil)
	for range backlog / batch {
		_, err := unbounded.PutAll(w.t.Context(), make([][]byte, batch)...)
		require.NoError(w.t, err)
	}
	putOn(w.t, q, "the first count reads all segments")
	var before, after runtime.MemStats
	received := link.Received()
	runtime.ReadMemStats(&before)
	requests := w.requests(func() {
		for range puts {
			putOn(w.t, q, "x")
		}
	})
	runtime.ReadMemStats(&after)
	return putCost{requests, (link.Received() - received) / puts, int(after.TotalAlloc-before.TotalAlloc) / puts}
}

func TestBoundedPutCostsTheSameWhateverTheBacklog(t *testing.T) {
	cost := func(backlog int) (c putCost) {
		inBubble(t, func(t *testing.T, w *world) { c = w.costOfBoundedPuts(backlog) })
		t.Logf("backlog %d: %d bytes received and %d bytes allocated for each put, %v", backlog, c.received, c.memory, c.requests)
		return c
	}
	few, many := cost(100), cost(20_000)
	require.Equal(t, few.requests, many.requests)
	require.InEpsilon(t, few.received, many.received, 0.05)
	require.Less(t, float64(many.memory), 1.5*float64(few.memory), "the work of a count")
}
