//go:build unix

package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// raw is a client whose requests are other ones than those of the page: it only writes.
type raw struct {
	t    *testing.T
	conn *zk.Conn
	name string
}

func (s *served) raw(name string) *raw {
	s.t.Helper()
	return &raw{s.t, harness.RawTo(s.t, []string{s.srv.Addr()}), name}
}

func (r *raw) create(path, data string, flags int32) string {
	r.t.Helper()
	path, err := r.conn.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	require.NoError(r.t, err)
	return path
}

// join puts a place into the line of a lock.
func (r *raw) join(line string) (path string) {
	r.t.Helper()
	return r.create(line+"/_c_00000000-0000-4000-8000-000000000000-lock-", r.name, zk.FlagEphemeral|zk.FlagSequence)
}

func (r *raw) leave(path string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.Delete(path, -1))
}

// lineOf makes a lock with one place in its line.
func (s *served) lineOf(path, name string) (by *raw, place string) {
	s.t.Helper()
	by = s.raw(name)
	by.create(path, "", 0)
	return by, by.join(path)
}

// rarely has only one walk, so that all later requests are those of watches.
func rarely(o *Options) { o.Refresh = time.Hour }

// identities returns who holds, with a star, and who waits.
func (b *browser) identities() string {
	var all []string
	for _, p := range b.line.Places {
		if p.Held {
			p.Identity += "*"
		}
		all = append(all, p.Identity)
	}
	return strings.Join(all, " ")
}

func (b *browser) sees(identities string) {
	b.t.Helper()
	b.until(identities, func() bool { return b.identities() == identities })
}

// requests returns what was sent meanwhile, without heartbeats.
func (s *served) requests(f func()) map[string]int {
	before := s.srv.Counts()
	f()
	sent := s.srv.Counts().Sub(before).Requests
	delete(sent, "ping")
	return sent
}

func TestAChangeIsReadOnceForAllBrowsers(t *testing.T) {
	s := serveOn(t, rarely)
	a, first := s.lineOf("/l", "a")
	b := s.raw("b")
	s.again(rarely)
	var browsers []*browser
	for range 10 {
		browsers = append(browsers, s.browse("/l"))
	}
	for _, b := range browsers {
		b.sees("a*")
	}
	require.Equal(t, map[string]int{"create": 1, "getChildren2": 1, "getData": 1}, s.requests(func() {
		b.join("/l")
		for _, b := range browsers {
			b.sees("a* b")
		}
	}))
	require.Equal(t, map[string]int{"delete": 1, "getChildren2": 1}, s.requests(func() {
		a.leave(first)
		for _, b := range browsers {
			b.sees("b*")
		}
	}))
	browsers[0].until("a watch", func() bool { return browsers[0].status.Watches == 1 })
	require.Empty(t, s.requests(func() { time.Sleep(time.Second) }), "nothing happens")
}

// Many changes of a line that nobody shows are one look at a time, and the last one is seen.
func TestChangesAddUpWhileALineIsNotLookedAt(t *testing.T) {
	s := serveOn(t, nil)
	a, _ := s.lineOf("/l", "a")
	b := s.browse("/another")
	b.until("a row", func() bool { return b.rows["/l"].Holders == 1 })
	began := time.Now()
	sent := s.requests(func() {
		for range 100 {
			a.leave(a.join("/l"))
		}
		for range 4 {
			a.join("/l")
		}
		b.until("all", func() bool { return b.rows["/l"].Waiters == 4 })
	})
	walks := int(time.Since(began)/(100*time.Millisecond)) + 1
	looks := int(time.Since(began)/gap) + 2
	require.LessOrEqual(t, sent["getChildren2"], looks+2*walks)
	require.LessOrEqual(t, b.events, int(time.Since(began)/publishGap)+10)
}

func TestTheWatchSeesWhatContendersSee(t *testing.T) {
	s := serveOn(t, nil)
	one, two := s.dial("one"), s.dial("two")
	ctx := t.Context()
	recipetest.LockOn(t, zkrecipes.NewMutex(one, "/mutex"))
	_, err := zkrecipes.NewRWLock(one, "/rwlock").RLock(ctx)
	require.NoError(t, err)
	_, err = zkrecipes.NewRWLock(two, "/rwlock").RLock(ctx)
	require.NoError(t, err)
	_, err = zkrecipes.NewSemaphore(one, "/semaphore", 3).AcquireN(ctx, 2)
	require.NoError(t, err)
	_, err = zkrecipes.NewElection(one, "/election").Campaign(ctx, nil)
	require.NoError(t, err)
	recipetest.LockLater(t, zkrecipes.NewMutex(two, "/mutex"))
	harness.Go(t, zkrecipes.NewRWLock(two, "/rwlock").Lock)
	harness.Go(t, func(ctx context.Context) (*zkrecipes.SlotLease, error) {
		return zkrecipes.NewSemaphore(two, "/semaphore", 3).AcquireN(ctx, 2)
	})
	harness.Go(t, func(ctx context.Context) (*zkrecipes.Term, error) {
		return zkrecipes.NewElection(two, "/election").Campaign(ctx, nil)
	})
	for path, n := range map[string]int{"/mutex": 2, "/rwlock": 3, "/semaphore": 3, "/election": 2} {
		b := s.browse(path)
		var want []string
		b.until("places of "+path, func() bool {
			u, err := view.Find(ctx, two, path)
			require.NoError(t, err)
			l, err := view.Read(ctx, two, u)
			require.NoError(t, err)
			want = nil
			for _, p := range l.Places {
				want = append(want, fmt.Sprintf("%s %s %s %v %v %d", p.Name, p.Identity, p.Session, p.Held, p.Shared, p.Since.UnixMilli()))
			}
			var got []string
			for _, p := range b.line.Places {
				got = append(got, fmt.Sprintf("%s %s %s %v %v %d", p.Place, p.Identity, p.Session, p.Held, p.Shared, p.Since))
			}
			return len(want) == n && slices.Equal(want, got)
		})
		require.Equal(t, n, b.rows[path].Holders+b.rows[path].Waiters)
	}
}

// The lines of a circle were listed at different times. If a place has gone since, the circle
// was perhaps never closed.
func TestACircleWhosePlaceHasGoneIsNotConfirmed(t *testing.T) {
	s := serveOn(t, nil)
	_, x := s.lineOf("/x", "a")
	a, y := s.lineOf("/y", "a")
	h := newHub(s.client, Options{Requests: 100})
	require.True(t, h.areThere(t.Context(), []string{x, y}))
	a.leave(y)
	require.False(t, h.areThere(t.Context(), []string{x, y}))
}

func TestACircleRestsOnThoseWhoHoldAndThoseWhoWait(t *testing.T) {
	place := func(path string, s view.Session, held bool) view.Place {
		return view.Place{Name: path[3:], Path: path, Session: s, Held: held}
	}
	g := view.NewGraph([]view.Line{
		{Path: "/x", Recipe: "mutex", Places: []view.Place{place("/x/1", 1, true), place("/x/2", 2, false), place("/x/3", 3, false)}},
		{Path: "/y", Recipe: "mutex", Places: []view.Place{place("/y/1", 2, true), place("/y/2", 1, false)}},
	})
	require.Len(t, g.Deadlocks, 1)
	require.Equal(t, []string{"/x/1", "/x/2", "/y/1", "/y/2"}, suspects(g, g.Deadlocks[0]))
	r := reduce(g)
	require.Len(t, r.Edges, 2)
	require.Equal(t, []node{{1, "", 1, []string{"/x"}}, {2, "", 0, []string{"/y"}}}, r.Nodes, "3 only waits, and is counted")
}

func TestTheGraphIsBounded(t *testing.T) {
	var lines []view.Line
	for i := range 300 { // each waits for the next one, and others for it
		l := view.Line{Path: fmt.Sprint("/", i), Recipe: "mutex", Places: []view.Place{
			{Name: "1", Session: view.Session(i + 2), Held: true}, {Name: "2", Session: view.Session(i + 1)}, {Name: "3", Session: view.Session(1000 + i)},
		}}
		lines = append(lines, l)
	}
	r := reduce(view.NewGraph(lines))
	require.Len(t, r.Nodes, mostNodes)
	require.Equal(t, 300-mostNodes, r.Hidden)
	require.Empty(t, reduce(view.NewGraph(nil)).Nodes)
}

func TestALineThatMayNotBeReadSaysSo(t *testing.T) {
	s := serveOn(t, nil)
	a, _ := s.lineOf("/l", "a")
	b := s.browse("/l")
	b.sees("a*")
	_, err := a.conn.SetACL("/l", zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	require.NoError(t, err)
	a.join("/l")
	b.until("failure", func() bool { return strings.Contains(b.rows["/l"].Failed, "not authenticated") })
	b.until("skipped", func() bool { return b.status.Skipped == 1 && b.status.Watches == 0 })
	_, err = a.conn.SetACL("/l", zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	b.sees("a* a") // by a listing: the servers have dropped the watch without an event
	require.Empty(t, b.rows["/l"].Failed)
}

func TestALineThatIsDeletedAndMadeAgainIsWatched(t *testing.T) {
	s := serveOn(t, nil)
	a, p := s.lineOf("/l", "a")
	b := s.browse("/l")
	b.sees("a*")
	a.leave(p)
	a.leave("/l")
	b.sees("")
	a.create("/l", "", 0)
	a.join("/l")
	b.sees("a*")
}

func TestThereAreOnlySoManyLines(t *testing.T) {
	s := serveOn(t, func(o *Options) { o.Lines = 2 })
	for _, path := range []string{"/k", "/l", "/m"} {
		s.lineOf(path, "a")
	}
	b := s.browse("")
	b.until("two", func() bool { return len(b.rows) == 2 && b.status.Left == 1 })
	b.until("watches", func() bool { return b.status.Watches == 2 })
}

func TestALineThatHasNotExistedForLongIsForgotten(t *testing.T) {
	h := newHub(nil, Options{Requests: 100})
	stopped := 0
	add := func(path string, last time.Time) {
		h.lines[path] = &followed{line: line{path: path, recipe: zkrecipes.RecipeMutex, last: last}, stop: func() { stopped++ }}
	}
	h.walked = begin()
	add("/old", begin().Add(-forgetting-time.Second))
	add("/young", begin().Add(-forgetting+time.Second))
	add("/there", begin().Add(-time.Hour))
	h.forget(map[string]bool{"/there": true})
	require.Len(t, h.lines, 2)
	require.Equal(t, 1, stopped)
	require.Equal(t, begin(), h.lines["/there"].last)
	m, _, _ := h.since(0, map[string]bool{"/old": true}, "", false)
	require.Equal(t, []string{"/old"}, m.Gone)
}

// A browser that comes after a while must not see what the last one saw.
func TestADeadlockIsShownUntilItHasEnded(t *testing.T) {
	var one *zkrecipes.Client
	inBubble(t, Options{Root: "/", Refresh: time.Hour, Requests: 80, Lines: 10}, func(w *world) {
		one = w.deadlock("/x", "/y")
	}, func(w *world) {
		graph := func() (m message, edition int) {
			m, edition, _ = w.hub.since(0, map[string]bool{}, "/x", false)
			return m, edition
		}
		w.after(time.Minute, "a deadlock", hasDeadlock)
		m, edition := graph()
		require.Regexp(w.t, `"deadlocks":\[{"sentence":".*waits for /[xy], which (one|two) .*,"paths":\["/[xy]","/[xy]"\]}\]`, string(m.Graph))
		require.Equal(w.t, 2, strings.Count(string(m.Graph), `"red":true`))
		require.Equal(w.t, 2, strings.Count(fmt.Sprintf("%s", m.Rows), `"deadlock":true`))
		w.hide()
		require.NoError(w.t, one.Close())
		time.Sleep(time.Minute)
		_, later := graph()
		require.Equal(w.t, edition, later, "nothing is rendered for nobody")
		w.show("/x")
		m, _ = graph()
		require.Contains(w.t, string(m.Graph), `"deadlocks":[]`)
		require.NotContains(w.t, fmt.Sprintf("%s", m.Rows), "deadlock")
		require.Regexp(w.t, `"places":\[{.*"identity":"two".*}\]`, string(m.Line))
		require.NotContains(w.t, string(m.Line), `"identity":"one"`)
	})
}

func TestAPageWithoutRecipesHasAGraph(t *testing.T) {
	h := newHub(nil, Options{Requests: 100})
	_, ok := h.show("")
	require.True(t, ok)
	m, _, _ := h.since(0, map[string]bool{}, "", false)
	require.NotEmpty(t, m.Graph, "the browser may have that of another zkr")
}

// No watch tells that a barrier has gone.
func TestMembersOfABarrierThatHasGoneAreNotShown(t *testing.T) {
	s := serveOn(t, nil)
	h := newHub(s.client, Options{Requests: 100})
	f := &followed{line: line{path: "/b", recipe: zkrecipes.RecipeBarrier, polled: polled{places: make([]*place, 2)}}}
	h.lines["/b"], h.shown["/b"] = f, 1
	h.pollOne(t.Context(), zkrecipes.Usage{Path: "/b", Recipe: zkrecipes.RecipeBarrier})
	require.Empty(t, f.polled.places)
}

// A browser that shows a long line must not have thousands of znodes read at once.
func TestPlacesWithoutAWatchAreReadIfTheyAreFew(t *testing.T) {
	s := serveOn(t, rarely)
	a := s.raw("a")
	_, err := zkrecipes.NewCounter(s.client, "/c").Add(t.Context(), 1)
	require.NoError(t, err)
	a.create("/c/line", "", 0)
	join := func(n int) {
		ops := make([]zkrecipes.Op, n)
		for i := range ops {
			ops[i] = zkrecipes.OpCreate("/c/line/_c_00000000-0000-4000-8000-000000000000-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, nil)
		}
		_, err := s.client.Commit(t.Context(), ops...)
		require.NoError(t, err)
	}
	h := newHub(s.client, Options{Requests: 100_000})
	h.lines["/c"], h.shown["/c"] = &followed{line: line{path: "/c", recipe: zkrecipes.RecipeCounter}}, 1
	for _, c := range []struct{ joined, read, more int }{{mostPlaces, mostPlaces, 0}, {1, 0, mostPlaces + 1}} {
		join(c.joined)
		now, err := h.read(t.Context(), zkrecipes.Usage{Path: "/c", Recipe: zkrecipes.RecipeCounter})
		require.NoError(t, err)
		require.Len(t, now.places, c.read)
		require.Equal(t, c.more, now.more)
	}
}

// Both directories of a semaphore have a watch. When one fails, the line is followed anew.
func TestAWatchThatIsOverIsNotBelieved(t *testing.T) {
	h := newHub(nil, Options{Requests: 100})
	f := &followed{line: line{path: "/l", recipe: zkrecipes.RecipeMutex, listings: map[string]listing{}}}
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	seen := zkrecipes.Children{Names: locks(1), Stat: &zk.Stat{Czxid: 7}}
	_, ok := h.observed(ctx, f, "", seen, nil)
	require.True(t, ok)
	require.Len(t, f.places, 1)
	h.failed(f, zk.ErrNoAuth)
	_, ok = h.observed(ctx, f, "", seen, nil)
	require.False(t, ok)
	require.Empty(t, f.places)
}

func TestAQueueIsShownWithItsConsumersAndDeadLetters(t *testing.T) {
	s := serveOn(t, nil)
	c := s.dial("consumer")
	q := zkrecipes.NewQueue(c, "/q", nil)
	_, err := q.PutAll(t.Context(), []byte("secret"), []byte("secret"))
	require.NoError(t, err)
	_, err = q.Take(t.Context())
	require.NoError(t, err)
	_, err = q.DeadLetters().Put(t.Context(), []byte("secret"))
	require.NoError(t, err)
	b := s.browse("/q")
	b.until("items", func() bool { return len(b.line.Items) == 2 && b.rows["/q"].Dead == 1 })
	require.Equal(t, "consumer", b.line.Items[0].Consumer)
	require.NotZero(t, b.line.Items[0].Taken)
	require.Empty(t, b.line.Items[1].Consumer)
	require.Equal(t, row{Path: "/q", Recipe: "queue", Holders: 1, Len: 2, Dead: 1, Held: b.rows["/q"].Held, Item: b.rows["/q"].Item}, b.rows["/q"])
	require.NotContains(t, fmt.Sprint(b.line), "secret", "what the items say is nobody's business")
}

// A walk that looks at so many znodes only says nothing of a line that it has not come to.
func TestALineThatAWalkLeavesOutCanBeRead(t *testing.T) {
	s := serveOn(t, rarely)
	a := s.raw("a")
	a.create("/team", "", 0)
	a.create("/team/l", "", 0)
	h := newHub(s.client, Options{Requests: 100})
	f := &followed{line: line{path: "/team/l", recipe: zkrecipes.RecipeMutex}, stop: func() {}}
	h.lines["/team/l"] = f
	seen := h.walkBelow(t.Context(), "/team", &zkrecipes.RecipesOptions{Znodes: 1}, h.firsts)
	require.Equal(t, 1, seen.skipped)
	require.Empty(t, f.failed)
}

func TestLinesThatAreGoneDoNotAddUpWithoutABrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(nil, Options{Requests: 100})
		for i := range 100 {
			path := fmt.Sprint("/", i)
			h.lines[path] = &followed{line: line{path: path, recipe: zkrecipes.RecipeMutex}, stop: func() {}}
			h.drop(path)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.publish(ctx) }()
		time.Sleep(2 * cellTime)
		stop()
		<-done
		require.Empty(t, h.changed)
	})
}

func TestWhatABrowserShowsIsPolledFirst(t *testing.T) {
	h := newHub(nil, Options{Requests: 100})
	for i := range 100 {
		path := fmt.Sprint("/", i)
		h.lines[path] = &followed{line: line{path: path, recipe: zkrecipes.RecipeQueue, usage: zkrecipes.Usage{Path: path}}}
	}
	h.shown["/77"] = 1
	due := map[string]time.Time{}
	require.Equal(t, "/77", h.toPoll(due).Path)
	require.NotEqual(t, "/77", h.toPoll(due).Path)
	due["/77"] = due["/77"].Add(-shownPoll)
	require.Equal(t, "/77", h.toPoll(due).Path, "it is due again, and the others have not had their turn")
	for range 99 {
		h.toPoll(due)
	}
	require.Len(t, due, 100, "all have had their turn")
}

func TestAllMembersThatHaveGoneAreCounted(t *testing.T) {
	h := newHub(nil, Options{Requests: 100})
	f := &followed{line: line{path: "/g", recipe: zkrecipes.RecipeGroup}}
	for range mostGone + 5 {
		f.gone = append(f.gone, &place{goneAt: begin()})
	}
	r := h.newRow(f, begin())
	require.Len(t, r.Gone, mostGone)
	require.Equal(t, mostGone+5, r.Missed)
}
