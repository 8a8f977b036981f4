package zkrecipes

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// costRow is a row of a table of docs/costs.md: its first three cells, and a use that costs so
// much. The other rows are counted in the tests that the document names.
type costRow struct {
	call, requests, commits string

	prepare func(t *testing.T, w *costWorld)
	use     func(t *testing.T, w *costWorld)

	wantRequests, wantCommits int
}

// costWorld has a client that has used the paths before, and another one.
type costWorld struct {
	*world
	c, other *Client
	lease    *Lease
	term     *Term
	leader   Contender
	id       ItemID
	item     *Item
}

func (w *costWorld) do(t *testing.T, c *Client, path string) {
	t.Helper()
	require.NoError(t, NewMutex(c, path).Do(t.Context(), nothing))
}

func (w *costWorld) q() *Queue { return NewQueue(w.c, "/q", nil) }

var costRows = []costRow{
	{"Lock and Release, free", "2", "2", nil, func(t *testing.T, w *costWorld) { w.do(t, w.c, "/line") }, 2, 2},
	{
		"... this client's first use of an existing line, or its first for 30 s", "3", "2",
		nil, func(t *testing.T, w *costWorld) { w.do(t, w.other, "/line") }, 3, 2,
	},
	{
		"... of a line that does not exist", "4 (+2 for each missing parent)", "3 (+1 for each missing parent)",
		nil, func(t *testing.T, w *costWorld) { w.do(t, w.c, "/new") }, 4, 3,
	},
	{"TryLock and Release, free", "3", "2", nil, func(t *testing.T, w *costWorld) {
		require.NoError(t, held(t, NewMutex(w.c, "/line").TryLock).Release())
	}, 3, 2},
	{"`LockAll`", "the sum of its locks'", "", func(t *testing.T, w *costWorld) {
		w.do(t, w.c, "/line2")
	}, func(t *testing.T, w *costWorld) {
		require.NoError(t, lockAll(t, mutexes(w.c, "/line", "/line2")...).Release())
	}, 4, 4},
	{"`Lease.Commit`", "1", "1", holdsLine, func(t *testing.T, w *costWorld) {
		_, err := w.lease.Commit(t.Context())
		require.NoError(t, err)
	}, 1, 1},
	{"`Lease.Get`, `Lease.Children`", "1", "0", holdsLine, func(t *testing.T, w *costWorld) {
		_, _, err := w.lease.Get(t.Context(), "/line")
		require.NoError(t, err)
	}, 1, 0},
	{"`Lease.Get`, `Lease.Children`", "1", "0", holdsLine, func(t *testing.T, w *costWorld) {
		_, _, err := w.lease.Children(t.Context(), "/line")
		require.NoError(t, err)
	}, 1, 0},
	{"`Contenders`", "2, and 1 for each place", "0", holdsLine, func(t *testing.T, w *costWorld) {
		_, err := NewMutex(w.c, "/line").Contenders(t.Context())
		require.NoError(t, err)
	}, 3, 0},
	{
		"`Holders`", "1, and 1 for each slot that is taken; 2 if no slot was taken for a while", "0",
		func(t *testing.T, w *costWorld) { acquire(t, NewSemaphore(w.other, "/s", 3), 2) }, func(t *testing.T, w *costWorld) {
			_, err := NewSemaphore(w.c, "/s", 3).Holders(t.Context())
			require.NoError(t, err)
		}, 3, 0,
	},
	{
		"`Holders`", "1, and 1 for each slot that is taken; 2 if no slot was taken for a while", "0",
		func(t *testing.T, w *costWorld) {
			releaseSlots(t, acquire(t, NewSemaphore(w.other, "/s", 3), 2))
			time.Sleep(time.Minute)
		}, func(t *testing.T, w *costWorld) {
			_, err := NewSemaphore(w.c, "/s", 3).Holders(t.Context())
			require.NoError(t, err)
		}, 2, 0,
	},
	{"`Resize`", "3", "1", func(t *testing.T, w *costWorld) {
		releaseSlots(t, acquire(t, NewSemaphore(w.c, "/s", 3), 2))
	}, func(t *testing.T, w *costWorld) {
		require.NoError(t, NewSemaphore(w.c, "/s", 3).Resize(t.Context(), 4))
	}, 3, 1},
	{"`Size`", "1", "0", func(t *testing.T, w *costWorld) {
		releaseSlots(t, acquire(t, NewSemaphore(w.c, "/s", 3), 2))
	}, func(t *testing.T, w *costWorld) {
		_, err := NewSemaphore(w.c, "/s", 0).Size(t.Context())
		require.NoError(t, err)
	}, 1, 0},
	{"`Evict` of the leader", "5", "1", leads, func(t *testing.T, w *costWorld) {
		c := w.leader
		_, err := w.other.Evict(t.Context(), c, &EvictOptions{Holder: true})
		require.NoError(t, err)
	}, 5, 1},
	{"Add, Set, all calls of a Client that wait together", "1", "1", counts, func(t *testing.T, w *costWorld) {
		counts(t, w)
	}, 1, 1},
	{"CompareAndSet, it swaps", "1", "1", counts, func(t *testing.T, w *costWorld) {
		_, err := NewCounter(w.c, "/counter").CompareAndSet(t.Context(), 1, 2)
		require.NoError(t, err)
	}, 1, 1},
	{"Get of a counter", "2", "0", counts, func(t *testing.T, w *costWorld) {
		_, err := NewCounter(w.c, "/counter").Get(t.Context())
		require.NoError(t, err)
	}, 2, 0},
	{"Campaign and Resign, free", "3", "3", leads, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.term.Resign())
		w.term = campaigns(t, NewElection(w.c, "/e"), "v")
	}, 3, 3},
	{"Proclaim", "1", "1", leads, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.term.Proclaim(t.Context(), []byte("w")))
	}, 1, 1},
	{"Put", "1", "1, and one more for each hundred items", hasItems, func(t *testing.T, w *costWorld) {
		putOn(t, w.q(), "c")
	}, 1, 1},
	{"PutAll", "1", "1, and one more for each hundred items", hasItems, func(t *testing.T, w *costWorld) {
		_, err := w.q().PutAll(t.Context(), []byte("c"), []byte("d"))
		require.NoError(t, err)
	}, 1, 1},
	{"Nack, AckPut", "1", "1", takesItem, func(t *testing.T, w *costWorld) { nackOn(t, w.item) }, 1, 1},
	{"Nack, AckPut", "1", "1", takesItem, func(t *testing.T, w *costWorld) {
		_, err := w.item.AckPut(t.Context(), w.q(), [][]byte{[]byte("d")})
		require.NoError(t, err)
	}, 1, 1},
	{"Len", "1, and 1 for each segment", "0", hasItems, func(t *testing.T, w *costWorld) {
		_, err := w.q().Len(t.Context())
		require.NoError(t, err)
	}, 2, 0},
	{"Items", "1, 1 for each segment, 1 for each item, and 1 more for each item that is taken", "0", hasItems, func(t *testing.T, w *costWorld) {
		for _, err := range w.q().Items(t.Context()) {
			require.NoError(t, err)
		}
	}, 4, 0},
	{"Peek", "3, and 1 for each further segment up to the item's", "0", hasItems, func(t *testing.T, w *costWorld) {
		_, err := w.q().Peek(t.Context())
		require.NoError(t, err)
	}, 3, 0},
	{"Remove", "3, and 1 for each segment up to the item's; 1 more if the item was the last one of a segment", "1, or 2", func(t *testing.T, w *costWorld) {
		removesFirst(t, w)
		w.id = putOn(t, w.q(), "a")[0]
	}, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.q().Remove(t.Context(), w.id))
	}, 4, 1},
	{"Redrive", "2, 1 for each segment of dead letters, 2 for each letter, and 1 for each segment that it empties", "1 for each letter, and 1 for each segment that it empties", func(t *testing.T, w *costWorld) {
		hasLetters(t, w)
		redrives(t, w) // the session's first
	}, redrives, 5, 1},
	{"TryTake, an item is free", "3", "1", func(t *testing.T, w *costWorld) {
		takesItem(t, w)
		nackOn(t, w.item)
	}, func(t *testing.T, w *costWorld) {
		_, err := w.q().TryTake(t.Context())
		require.NoError(t, err)
	}, 3, 1},
	{"Purge", "2, 2 for each segment, and 1 for each that it empties", "1 for each segment, and 1 for each that it empties", func(t *testing.T, w *costWorld) {
		hasItems(t, w)
		removesFirst(t, w)
	}, func(t *testing.T, w *costWorld) {
		n, err := w.q().Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
	}, 4, 1},
	{"Close", "the deletions of what is held, and 1", "", holdsLine, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.c.Close())
	}, 2, 2},
}

func holdsLine(t *testing.T, w *costWorld) { w.lease = lockOn(t, NewMutex(w.c, "/line")) }
func leads(t *testing.T, w *costWorld) {
	w.term = campaigns(t, NewElection(w.c, "/e"), "v")
	w.leader = leaderOf(t, NewElection(w.other, "/e"))
}

func counts(t *testing.T, w *costWorld)   { count(t, NewCounter(w.c, "/counter"), 1) }
func hasItems(t *testing.T, w *costWorld) { putOn(t, w.q(), "a", "b") }

// removesFirst removes an item, which costs more the first time in a session.
func removesFirst(t *testing.T, w *costWorld) {
	require.NoError(t, w.q().Remove(t.Context(), putOn(t, w.q(), "z")[0]))
}

// hasLetters makes two dead letters.
func hasLetters(t *testing.T, w *costWorld) {
	q := NewQueue(w.other, "/q", &QueueOptions{MaxAttempts: 1})
	putOn(t, q, "a", "b")
	first, second := takeOn(t, q), takeOn(t, q)
	nackOn(t, first)
	nackOn(t, second)
	_, err := q.TryTake(t.Context())
	require.ErrorIs(t, err, ErrEmpty)
}

func redrives(t *testing.T, w *costWorld) {
	n, err := w.q().Redrive(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func takesItem(t *testing.T, w *costWorld) {
	hasItems(t, w)
	ackOn(t, takeOn(t, w.q())) // the session's first
	w.item = takeOn(t, w.q())
	_, err := w.item.lease.Commit(context.Background())
	require.NoError(t, err)
}

func TestCostsAreAsTheDocumentSays(t *testing.T) {
	text, err := os.ReadFile("docs/costs.md")
	require.NoError(t, err)
	for _, row := range costRows {
		t.Run(row.call, func(t *testing.T) {
			cells := "| " + row.call + " | " + row.requests + " |"
			if row.call != "Close" { // of a table without commits
				cells += strings.TrimRight(" "+row.commits, " ") + " |"
			}
			require.Contains(t, string(text), "\n"+cells)
			inBubble(t, func(t *testing.T, w *world) {
				cw := &costWorld{world: w, c: w.client(nil), other: w.stranger(nil)}
				if row.prepare != nil {
					row.prepare(t, cw)
				}
				synctest.Wait()
				requests, commits := 0, 0
				for op, n := range w.requests(func() { row.use(t, cw) }) {
					requests += n
					if !strings.HasPrefix(op, "get") && op != "exists" && op != "sync" {
						commits += n
					}
				}
				require.Equal(t, []int{row.wantRequests, row.wantCommits}, []int{requests, commits})
			})
		})
	}
}
