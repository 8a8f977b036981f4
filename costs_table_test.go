package zkrecipes_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
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
	*recipetest.World
	c, other *zkrecipes.Client
	lease    *zkrecipes.Lease
	term     *zkrecipes.Term
	leader   zkrecipes.Contender
	id       zkrecipes.ItemID
	item     *zkrecipes.Item
	member   *zkrecipes.Membership
}

func (w *costWorld) do(t *testing.T, c *zkrecipes.Client, path string) {
	t.Helper()
	require.NoError(t, zkrecipes.NewMutex(c, path).Do(t.Context(), recipetest.Nothing))
}

func (w *costWorld) q() *zkrecipes.Queue { return zkrecipes.NewQueue(w.c, "/q", nil) }

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
		require.NoError(t, recipetest.Held(t, zkrecipes.NewMutex(w.c, "/line").TryLock).Release())
	}, 3, 2},
	{"Lock and Release with `LockDelay`, free", "3", "2", doDelayed, doDelayed, 3, 2},
	{"`LockAll`", "the sum of its locks'", "", func(t *testing.T, w *costWorld) {
		w.do(t, w.c, "/line2")
	}, func(t *testing.T, w *costWorld) {
		require.NoError(t, recipetest.LockAll(t, recipetest.Mutexes(w.c, "/line", "/line2")...).Release())
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
		_, err := zkrecipes.NewMutex(w.c, "/line").Contenders(t.Context())
		require.NoError(t, err)
	}, 3, 0},
	{
		"`Holders`", "1, and 1 for each slot that is taken; 2 if no slot was taken for a while", "0",
		func(t *testing.T, w *costWorld) { recipetest.Acquire(t, zkrecipes.NewSemaphore(w.other, "/s", 3), 2) }, func(t *testing.T, w *costWorld) {
			_, err := zkrecipes.NewSemaphore(w.c, "/s", 3).Holders(t.Context())
			require.NoError(t, err)
		}, 3, 0,
	},
	{
		"`Holders`", "1, and 1 for each slot that is taken; 2 if no slot was taken for a while", "0",
		func(t *testing.T, w *costWorld) {
			recipetest.ReleaseSlots(t, recipetest.Acquire(t, zkrecipes.NewSemaphore(w.other, "/s", 3), 2))
			time.Sleep(time.Minute)
		}, func(t *testing.T, w *costWorld) {
			_, err := zkrecipes.NewSemaphore(w.c, "/s", 3).Holders(t.Context())
			require.NoError(t, err)
		}, 2, 0,
	},
	{"`Resize`", "3", "1", func(t *testing.T, w *costWorld) {
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, zkrecipes.NewSemaphore(w.c, "/s", 3), 2))
	}, func(t *testing.T, w *costWorld) {
		require.NoError(t, zkrecipes.NewSemaphore(w.c, "/s", 3).Resize(t.Context(), 4))
	}, 3, 1},
	{"`Size`", "1", "0", func(t *testing.T, w *costWorld) {
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, zkrecipes.NewSemaphore(w.c, "/s", 3), 2))
	}, func(t *testing.T, w *costWorld) {
		_, err := zkrecipes.NewSemaphore(w.c, "/s", 0).Size(t.Context())
		require.NoError(t, err)
	}, 1, 0},
	{"`Evict` of the leader", "5", "1", leads, func(t *testing.T, w *costWorld) {
		c := w.leader
		_, err := w.other.Evict(t.Context(), c, &zkrecipes.EvictOptions{Holder: true})
		require.NoError(t, err)
	}, 5, 1},
	{"Add, Set, all calls of a Client that wait together", "1", "1", counts, func(t *testing.T, w *costWorld) {
		counts(t, w)
	}, 1, 1},
	{"CompareAndSet, it swaps", "1", "1", counts, func(t *testing.T, w *costWorld) {
		_, err := zkrecipes.NewCounter(w.c, "/counter").CompareAndSet(t.Context(), 1, 2)
		require.NoError(t, err)
	}, 1, 1},
	{"Get of a counter", "2", "0", counts, func(t *testing.T, w *costWorld) {
		_, err := zkrecipes.NewCounter(w.c, "/counter").Get(t.Context())
		require.NoError(t, err)
	}, 2, 0},
	{"Campaign and Resign, free", "3", "3", leads, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.term.Resign())
		w.term = recipetest.Campaigns(t, zkrecipes.NewElection(w.c, "/e"), "v")
	}, 3, 3},
	{"Proclaim", "1", "1", leads, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.term.Proclaim(t.Context(), []byte("w")))
	}, 1, 1},
	{"`Client.Get`, `Client.Children`, `Client.Exists`", "1", "0", holdsLine, func(t *testing.T, w *costWorld) {
		_, _, err := w.c.Get(t.Context(), "/line")
		require.NoError(t, err)
	}, 1, 0},
	{"`Client.Get`, `Client.Children`, `Client.Exists`", "1", "0", holdsLine, func(t *testing.T, w *costWorld) {
		_, _, err := w.c.Children(t.Context(), "/line")
		require.NoError(t, err)
	}, 1, 0},
	{"`Client.Get`, `Client.Children`, `Client.Exists`", "1", "0", holdsLine, func(t *testing.T, w *costWorld) {
		_, err := w.c.Exists(t.Context(), "/line")
		require.NoError(t, err)
	}, 1, 0},
	{"`Watch`, `WatchChildren`: to begin, and in each new session", "2; 3 if there is no znode", "0", holdsLine, func(t *testing.T, w *costWorld) {
		for _, err := range w.c.Watch(t.Context(), "/line") {
			require.NoError(t, err)
			break
		}
	}, 2, 0},
	{"`Watch`, `WatchChildren`: to begin, and in each new session", "2; 3 if there is no znode", "0", nil, func(t *testing.T, w *costWorld) {
		for _, err := range w.c.WatchChildren(t.Context(), "/none") {
			require.NoError(t, err)
			break
		}
	}, 3, 0},
	{"`Group.Join`", "2, and the same in each new session", "1", hasMembers, func(t *testing.T, w *costWorld) {
		joinsGroup(t, w.c)
	}, 2, 1},
	{"... if the path does not exist", "2 more, and 2 for each missing parent", "2 more, and 2 for each missing parent", nil, func(t *testing.T, w *costWorld) {
		joinsGroup(t, w.c)
	}, 4, 3},
	{"`Membership.Update`, `Membership.Leave`", "1", "1", hasMembers, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.member.Update(t.Context(), nil))
	}, 1, 1},
	{"`Membership.Update`, `Membership.Leave`", "1", "1", hasMembers, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.member.Leave())
	}, 1, 1},
	{"`Group.Members`", "2, and 1 for each member", "0", hasMembers, func(t *testing.T, w *costWorld) {
		_, err := zkrecipes.NewGroup(w.c, "/g").Members(t.Context())
		require.NoError(t, err)
	}, 3, 0},
	{"`Group.Watch`: to begin, and in each new session", "2, and 1 for each member; 3 if the path does not exist", "0", hasMembers, watchesGroup, 3, 0},
	{"`Group.Watch`: to begin, and in each new session", "2, and 1 for each member; 3 if the path does not exist", "0", nil, watchesGroup, 3, 0},
	{"Put", "1", "1, and one more for each hundred items", hasItems, func(t *testing.T, w *costWorld) {
		recipetest.PutOn(t, w.q(), "c")
	}, 1, 1},
	{"PutAll", "1", "1, and one more for each hundred items", hasItems, func(t *testing.T, w *costWorld) {
		_, err := w.q().PutAll(t.Context(), []byte("c"), []byte("d"))
		require.NoError(t, err)
	}, 1, 1},
	{"Nack, AckPut", "1", "1", takesItem, func(t *testing.T, w *costWorld) { recipetest.NackOn(t, w.item) }, 1, 1},
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
		w.id = recipetest.PutOn(t, w.q(), "a")[0]
	}, func(t *testing.T, w *costWorld) {
		require.NoError(t, w.q().Remove(t.Context(), w.id))
	}, 4, 1},
	{"Redrive", "2, 1 for each segment of dead letters, 2 for each letter, and 1 for each segment that it empties", "1 for each letter, and 1 for each segment that it empties", func(t *testing.T, w *costWorld) {
		hasLetters(t, w)
		redrives(t, w) // the session's first
	}, redrives, 5, 1},
	{"TryTake, an item is free", "3", "1", func(t *testing.T, w *costWorld) {
		takesItem(t, w)
		recipetest.NackOn(t, w.item)
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

func holdsLine(t *testing.T, w *costWorld) {
	w.lease = recipetest.LockOn(t, zkrecipes.NewMutex(w.c, "/line"))
}
func leads(t *testing.T, w *costWorld) {
	w.term = recipetest.Campaigns(t, zkrecipes.NewElection(w.c, "/e"), "v")
	w.leader = leaderOf(t, zkrecipes.NewElection(w.other, "/e"))
}

func counts(t *testing.T, w *costWorld) {
	recipetest.Count(t, zkrecipes.NewCounter(w.c, "/counter"), 1)
}
func hasItems(t *testing.T, w *costWorld) { recipetest.PutOn(t, w.q(), "a", "b") }

// removesFirst removes an item, which costs more the first time in a session.
func removesFirst(t *testing.T, w *costWorld) {
	require.NoError(t, w.q().Remove(t.Context(), recipetest.PutOn(t, w.q(), "z")[0]))
}

// hasLetters makes two dead letters.
func hasLetters(t *testing.T, w *costWorld) {
	q := zkrecipes.NewQueue(w.other, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1})
	recipetest.PutOn(t, q, "a", "b")
	first, second := recipetest.TakeOn(t, q), recipetest.TakeOn(t, q)
	recipetest.NackOn(t, first)
	recipetest.NackOn(t, second)
	_, err := q.TryTake(t.Context())
	require.ErrorIs(t, err, zkrecipes.ErrEmpty)
}

func doDelayed(t *testing.T, w *costWorld) {
	require.NoError(t, zkrecipes.NewMutex(w.c, "/delayed", zkrecipes.LockDelay(time.Second)).Do(t.Context(), recipetest.Nothing))
}

func redrives(t *testing.T, w *costWorld) {
	n, err := w.q().Redrive(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func hasMembers(t *testing.T, w *costWorld) { w.member = joinsGroup(t, w.other) }

func joinsGroup(t *testing.T, c *zkrecipes.Client) *zkrecipes.Membership {
	m, err := zkrecipes.NewGroup(c, "/g").Join(t.Context(), nil)
	require.NoError(t, err)
	return m
}

func watchesGroup(t *testing.T, w *costWorld) {
	for _, err := range zkrecipes.NewGroup(w.c, "/g").Watch(t.Context()) {
		require.NoError(t, err)
		break
	}
}

func takesItem(t *testing.T, w *costWorld) {
	hasItems(t, w)
	recipetest.AckOn(t, recipetest.TakeOn(t, w.q())) // the session's first
	w.item = recipetest.TakeOn(t, w.q())
	_, err := recipetest.LeaseOf(w.item).Commit(context.Background())
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
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				cw := &costWorld{World: w, c: w.Client(nil), other: w.Stranger(nil)}
				if row.prepare != nil {
					row.prepare(t, cw)
				}
				synctest.Wait()
				requests, commits := 0, 0
				for op, n := range w.Requests(func() { row.use(t, cw) }) {
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
