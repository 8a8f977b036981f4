package line_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Before ZooKeeper 3.9 a place lists the line in any case. So where others wait, it is created alone: the
// join does not write the line's data.

// crowd is a line of a server before 3.9, in which three places of conn stand. c has seen that, and that
// events bear no zxid.
type crowd struct {
	*recipetest.World
	c     *zkrecipes.Client
	conn  *zk.Conn
	paths []string
}

func inACrowd(t *testing.T, f func(t *testing.T, w *crowd)) {
	t.Helper()
	recipetest.InBubble(t, func(t *testing.T, world *recipetest.World) {
		w := &crowd{World: world, c: world.Client(nil), conn: world.Bare()}
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		a := w.LockLater(w.c)
		released(t, l, a)
		w.paths = w.Stand(w.conn, layout.KindLock, 3)
		_, err := zkrecipes.NewMutex(w.c, w.Path).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		f(t, w)
	}, zktest.Emulate(zktest.ZooKeeper38))
}

// joins has c join, by these requests and those of its wait.
func (w *crowd) joins(join ...string) *harness.Call[*zkrecipes.Lease] {
	w.T.Helper()
	want := map[string]int{"getChildren2": 1, "getChildren": 1} // the listing, and the watch on the predecessor
	for _, op := range join {
		want[op]++
	}
	var a *harness.Call[*zkrecipes.Lease]
	got := w.Requests(func() { a = w.LockLater(w.c) })
	require.True(w.T, a.Waiting())
	require.Equal(w.T, want, got)
	return a
}

func (w *crowd) leave() {
	w.T.Helper()
	for _, path := range w.paths {
		require.NoError(w.T, w.conn.Delete(path, -1))
	}
}

func TestACrowdedLineIsJoinedByACreateAlone(t *testing.T) {
	inACrowd(t, func(t *testing.T, w *crowd) {
		_, before, err := w.conn.Get(w.Path)
		require.NoError(t, err)
		first, second := w.joins("create2"), w.joins("create2")
		_, after, err := w.conn.Get(w.Path)
		require.NoError(t, err)
		require.Equal(t, before.Version, after.Version)
		w.leave()
		l := first.Get()
		w.Stands(l)
		_, place, err := w.conn.Exists(l.Check().Path)
		require.NoError(t, err)
		require.EqualValues(t, place.Czxid<<8, l.Token())
		released(t, l, second)
	})
}

func TestAJoinOfACrowdedLineWhoseReplyIsLostTakesOnePlace(t *testing.T) {
	for _, after := range []bool{false, true} {
		inACrowd(t, func(t *testing.T, w *crowd) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "create2"})
			a := w.LockLater(w.c)
			time.Sleep(time.Minute)
			require.True(t, a.Waiting())
			require.Len(t, w.Line(), 4)
			w.leave()
			released(t, a.Get())
			require.Empty(t, w.Line())
		})
	}
}

// Its numbers end: a place beyond the limit is withdrawn, and its caller waits aside.
func TestACrowdedLineWhoseNumbersAreUsedUpBeginsAnew(t *testing.T) {
	inACrowd(t, func(t *testing.T, w *crowd) {
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		var a *harness.Call[*zkrecipes.Lease]
		require.Equal(t, 1, w.Requests(func() { a = w.LockLater(w.c) })["create2"])
		require.Len(t, w.Line(), 3)
		w.leave()
		l := a.Get()
		require.Less(t, w.Line()[0].Number, int32(5))
		released(t, l)
	})
}

// Somebody has given the line another list, or has made it anew, while c knows the old one.
func TestAJoinOfACrowdedLineNoticesThatTheLineIsAnother(t *testing.T) {
	list := []zk.ACL{{Perms: zk.PermAll &^ zk.PermAdmin, Scheme: "world", ID: "anyone"}}
	for name, change := range map[string]func(t *testing.T, w *crowd) error{
		"another list": func(_ *testing.T, w *crowd) error {
			_, err := w.conn.SetACL(w.Path, list, -1)
			return err
		},
		"made anew": func(t *testing.T, w *crowd) error {
			data, _, err := w.conn.Get(w.Path)
			require.NoError(t, err)
			w.leave()
			require.NoError(t, w.conn.Delete(w.Path, -1))
			_, err = w.conn.CreateContainer(w.Path, data, zk.FlagContainer, list)
			w.paths = w.Stand(w.conn, layout.KindLock, 3)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inACrowd(t, func(t *testing.T, w *crowd) {
				require.NoError(t, change(t, w))
				first := w.joins("create2")
				second := w.joins("getData", "getACL", "create2")
				acl, _, err := w.conn.GetACL(w.Path + "/" + w.Line()[4].Name)
				require.NoError(t, err)
				require.Equal(t, list, acl)
				w.leave()
				released(t, first.Get(), second)
			})
		})
	}
}

// Its data are not this library's any more, so the line is not its to delete.
func TestACrowdedLineWhoseDataAUserHasReplacedStays(t *testing.T) {
	inACrowd(t, func(t *testing.T, w *crowd) {
		a := w.joins("create2")
		_, err := w.conn.Set(w.Path, []byte("mine"), -1)
		require.NoError(t, err)
		w.leave()
		released(t, a.Get())
		time.Sleep(5 * time.Minute)
		data, _, err := w.conn.Get(w.Path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data))
	})
}
