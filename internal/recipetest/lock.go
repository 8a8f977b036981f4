package recipetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// GivesNoNumbers uses a recipe again and again, by new sessions each time.
func (w *World) GivesNoNumbers(opts *zkrecipes.Options, cycle func(t *testing.T, a, b *zkrecipes.Client, path string)) {
	w.T.Helper()
	round := func() {
		a, b := w.Stranger(opts), w.Stranger(opts)
		cycle(w.T, a, b, w.Path)
		require.NoError(w.T, a.Close())
		require.NoError(w.T, b.Close())
	}
	round()
	known, given := w.Srv.ACLs(), w.Srv.Counts().NewACLs
	for range 3 {
		round()
	}
	require.Equal(w.T, known, w.Srv.ACLs(), "distinct lists")
	require.Equal(w.T, given, w.Srv.Counts().NewACLs, "numbers given")
}

// OwnPath returns a path whose parent does not exist, in a znode that is everybody's.
func OwnPath(t *testing.T) string {
	t.Helper()
	root := harness.NewPath(t)
	harness.MakeParents(t, harness.Raw(t), root)
	return root + "/owned/recipe"
}

// Has reports whether there is a znode.
func (w *World) Has(path string) bool {
	parent := cmp.Or(zkconn.Parent(path), "/")
	return slices.Contains(w.Srv.Children(parent), path[strings.LastIndexByte(path, '/')+1:])
}

// MakeLocks makes locks below dir that have been used: a model and n copies, 0000 and so on.
func MakeLocks(t testing.TB, c *zkrecipes.Client, dir string, n int) {
	t.Helper()
	require.NoError(t, zkrecipes.NewMutex(c, dir+"/model").Do(t.Context(), Nothing))
	data, _, err := c.Get(t.Context(), dir+"/model")
	require.NoError(t, err)
	ops := make([]zkrecipes.Op, n)
	for i := range ops {
		ops[i] = zkrecipes.OpCreate(fmt.Sprintf("%s/%04d", dir, i), data, 0, nil)
	}
	for part := range slices.Chunk(ops, 200) {
		_, err := c.Commit(t.Context(), part...)
		require.NoError(t, err)
	}
}

// Busy reports whether the server has got a request of that operation.
func (w *World) Busy(op string) bool { return w.Srv.Counts().Requests[op] > 0 }

const (
	OpMakeContainer = "multi(createContainer,create,delete)" // and a child that it has for a moment

	OpJoin    = "multi(create,setData)"
	OpRelease = "multi(setData,delete)"
)

// DefaultSessionTimeout is what a Client without Options.SessionTimeout requests.
const DefaultSessionTimeout = 10 * time.Second

// LongSession is a session timeout so long that no holder here watches its own place:
// it would after a tenth of the timeout.
const LongSession = 20 * time.Minute

const OpDowngrade = "multi(create,delete)"

// HeldHeap returns the bytes that are in use.
func HeldHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one has finalized
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Stand creates n places with names like this library's and returns their paths.
func (w *World) Stand(conn *zk.Conn, k layout.Kind, n int) (paths []string) {
	w.T.Helper()
	for chunk := range slices.Chunk(make([]struct{}, n), 500) {
		var ops []any
		for range chunk {
			ops = append(ops, &zk.CreateRequest{
				Path: w.Path + "/_c_" + layout.NewUUID() + "-" + string(k), Acl: zk.WorldACL(zk.PermAll),
				Flags: zk.FlagEphemeral | zk.FlagSequence,
			})
		}
		rs, err := conn.Multi(ops...)
		require.NoError(w.T, err)
		for _, r := range rs {
			paths = append(paths, r.String)
		}
	}
	return paths
}

// Leaves cancels the attempt and requires that it returns that cause.
func Leaves(t *testing.T, a *harness.Call[*zkrecipes.Lease]) {
	t.Helper()
	require.True(t, a.Waiting())
	why := errors.New("enough")
	a.Cancel(why)
	l, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.Nil(t, l)
}

func Mutexes(c *zkrecipes.Client, paths ...string) (ms []*zkrecipes.Mutex) {
	for _, path := range paths {
		ms = append(ms, zkrecipes.NewMutex(c, path))
	}
	return ms
}

// LockAll locks all and fails the test if it cannot.
func LockAll(t testing.TB, ms ...*zkrecipes.Mutex) *zkrecipes.Leases {
	t.Helper()
	ls, err := zkrecipes.LockAll(harness.Within(t, time.Minute), ms...)
	require.NoError(t, err)
	return ls
}

// LockAllLater locks all in the background, and returns once the call sleeps.
func LockAllLater(t testing.TB, ms ...*zkrecipes.Mutex) *harness.Call[*zkrecipes.Leases] {
	return settled(harness.Go(t, func(ctx context.Context) (*zkrecipes.Leases, error) { return zkrecipes.LockAll(ctx, ms...) }))
}

// IsFree requires that nobody is in these lines.
func (w *ElectionWorld) IsFree(paths ...string) {
	w.T.Helper()
	synctest.Wait()
	for _, path := range paths {
		require.Empty(w.T, w.Srv.Children(path), path)
	}
}

// LoseChildEvents returns Options whose connections lose the events of children.
func (w *World) LoseChildEvents() *zkrecipes.Options {
	return &zkrecipes.Options{Dialer: harness.EditReplies(w.Srv.DialContext, func(op string, record []byte) []byte {
		if op != "event" || jute.NewDecoder(record).Int32() != jute.EventChildrenChanged {
			return record
		}
		elsewhere := jute.AppendInt32(jute.AppendInt32(nil, jute.EventChildrenChanged), 3)
		return jute.AppendString(elsewhere, "/elsewhere")
	})}
}

const KeepFor = 2 * time.Second

// Kept returns a Mutex of a new Client that keeps its lock for keepFor.
func (w *World) Kept(opts *zkrecipes.Options) *zkrecipes.Mutex {
	w.T.Helper()
	c := w.Client(opts)
	return uses(w, zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(KeepFor)), c)
}

// Keep takes and releases a Mutex that keeps its lock, and returns the token.
func (w *World) Keep(m *zkrecipes.Mutex) zkrecipes.Token {
	w.T.Helper()
	l := LockOn(w.T, m)
	require.NoError(w.T, l.Release())
	require.Len(w.T, w.Line(), 1, "kept")
	return l.Token()
}

// Waits calls m.Lock and returns once the call sleeps, or holds the lock.
func (w *World) Waits(m *zkrecipes.Mutex) *harness.Call[*zkrecipes.Lease] {
	return settled(LockLater(w.T, m))
}

// NewToken returns the token of the n-th exclusive grant of the place with that czxid.
func NewToken(czxid int64, n int) zkrecipes.Token { return zkrecipes.Token(hold.TokenOf(czxid, n)) }

// OpReadRelease is the request with which a reader leaves.
const OpReadRelease = "delete"

const OpDelete = "delete" // of a place without a signal, or of a line

// AtLimit sets the line's counter so that the next place is beyond the limit.
func (w *SideWorld) AtLimit() {
	w.T.Helper()
	require.NoError(w.T, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
}

// Aside calls Lock in c, and requires that the call waits and leaves the line as it was.
func (w *SideWorld) Aside(c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
	w.T.Helper()
	before := w.Line()
	a := w.Waits(c)
	require.True(w.T, a.Waiting())
	require.Equal(w.T, before, w.Line(), "no place is left")
	return a
}

// Served requires that the calls get the lock, one after the other where they exclude
// each other, with numbers from the line's beginning. All leases are released.
func (w *SideWorld) Served(calls ...*harness.Call[*zkrecipes.Lease]) {
	w.T.Helper()
	for len(calls) > 0 {
		synctest.Wait()
		var waiting []*harness.Call[*zkrecipes.Lease]
		for _, a := range calls {
			if a.Waiting() {
				waiting = append(waiting, a)
				continue
			}
			l := a.Get()
			w.Stands(l)
			m, _ := layout.ParsePlace(l.Check().Path[len(w.Path)+1:], layout.LockKinds)
			require.Less(w.T, m.Number, int32(100))
			require.NoError(w.T, l.Release())
		}
		require.Less(w.T, len(waiting), len(calls), "nobody is granted")
		calls = waiting
	}
}

// OnPath uses another line, below a znode of its own.
func (w *SideWorld) OnPath(path string) *zk.Conn {
	w.T.Helper()
	conn := w.Bare()
	_, err := conn.Create(zkconn.Parent(path), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	w.Path = path
	return conn
}

// guesser is a client that takes every line for long, behind a link.
type guesser struct {
	*World
	C    *zkrecipes.Client
	Link *harness.Link
}

func (w *World) Guesser() *guesser {
	w.T.Helper()
	g := &guesser{World: w, Link: harness.NewLink(w.Srv)}
	g.C = w.Tuned(&zkrecipes.Options{Dialer: g.Link.Dial}, func(c *tuning.Constants) { c.LongLine = 0 })
	require.NoError(w.T, zkrecipes.NewMutex(g.C, w.Path).Do(w.T.Context(), Nothing)) // looks at the line
	return g
}

// MayLag has a server keep the replicas that a Lag needs which is added later.
func MayLag() zktest.Option {
	return zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Lag, Skip: 1 << 30, Behind: 1, For: time.Second}))
}

// Behind makes a lagging replica serve all but the first connections. It receives
// the last n transactions only after a few seconds.
func Behind(first, n int) zktest.Option {
	return zktest.WithPlan(zktest.NewPlan(
		zktest.Fault{Do: zktest.Lag, Skip: first, Times: -1, Behind: n, For: 5 * time.Second}))
}

// RefuseSearch loses the reply to the next join, and refuses the following listings of
// the line, so many times.
func (w *World) RefuseSearch(listings int) {
	w.Plan.Add(
		zktest.Fault{Do: zktest.Drop, After: true, Op: OpJoin, Path: w.Path},
		zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getChildren2", Path: w.Path, Times: listings})
}
