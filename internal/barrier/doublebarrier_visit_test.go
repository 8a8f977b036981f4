package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestA22LateArrivalDoesNotReplaceMembersThatDiedBeforeTheOpening(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 3
		a, b, c, d := w.Stranger(nil), w.Stranger(nil), w.Stranger(nil), w.Stranger(nil)
		recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(a, "/b", n))
		recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(b, "/b", n))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi", Path: "/b/ready", For: time.Second})
		third := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(c, "/b", n)) // has listed three members and is about to open
		require.Len(t, w.Srv.Children("/b"), n)
		require.True(t, w.Srv.Expire(recipetest.SessionID(a)))
		require.True(t, w.Srv.Expire(recipetest.SessionID(b)))
		late := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(d, "/b", n))
		time.Sleep(2 * time.Second) // until the server receives the opening
		synctest.Wait()
		require.True(t, late.Waiting(), "there were never three members at a time")
		require.True(t, third.Waiting())

		last := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", n))
		for _, e := range []*harness.Call[*zkrecipes.Visit]{third, late, last} {
			require.False(t, e.Waiting())
			e.Get()
		}
	}, zktest.TickTime(time.Second))
}

func TestA22ASecondLeaveReturnsWhenTheMemberIsGone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", 2))
		znode := "/b/" + w.Srv.Children("/b")[0]
		other := w.Stranger(nil)
		second := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(other, "/b", 2))
		require.False(t, first.Waiting())
		require.False(t, second.Waiting())

		// For now the server rejects the deletion of its znode.
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -7, Op: "multi", Path: znode, Times: -1})
		require.ErrorIs(t, first.Get().Leave(harness.Within(t, time.Second)), context.DeadlineExceeded)
		require.True(t, w.Srv.Expire(recipetest.SessionID(other)))
		again := make(chan error, 1)
		go func() { again <- first.Get().Leave(harness.Within(t, time.Minute)) }()
		time.Sleep(3 * time.Second)
		require.Empty(t, again, "the znode still exists and would be counted")
		w.Plan.Stop()
		require.NoError(t, <-again)
		require.Empty(t, w.Srv.Children("/b"))
	}, zktest.TickTime(time.Second))
}

func TestA22CancelledEnterAndLeaveReturnWhenTheMemberIsGone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		d := zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", 1)
		enter := func(ctx context.Context) error {
			_, err := zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/c", 2).Enter(ctx)
			return err
		}
		first := recipetest.EnterLater(t, d)
		second := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", 1)) // does not leave
		first.Get()
		second.Get()
		for path, call := range map[string]func(context.Context) error{"/b": first.Get().Leave, "/c": enter} {
			end := make(chan error, 1)
			op := map[string]string{"/b": "multi(delete)", "/c": "multi(delete,setData)"}[path]
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path + "/*", For: time.Second})
			go func() { end <- call(harness.Within(t, 100*time.Millisecond)) }()
			time.Sleep(500 * time.Millisecond)
			members := len(w.Srv.Children(path))
			require.Empty(t, end, "the znode still exists and would be counted")
			require.ErrorIs(t, <-end, context.DeadlineExceeded)
			require.Len(t, w.Srv.Children(path), members-1)
		}
	}, zktest.TickTime(time.Second))
}

func TestA22MemberEvictedFromAReapedDoubleBarrierGetsErrEvicted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		s := recipetest.Live(t, c)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin}) // so that the client lists
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Skip: 1, For: 5 * time.Second})
		e := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(c, "/b", 2))
		time.Sleep(time.Second)
		members := w.Srv.Children("/b")
		require.Len(t, members, 1)
		other := recipetest.Live(t, w.Stranger(nil))
		deleted := other.Multi(t.Context(),
			&zk.DeleteRequest{Path: "/b/" + members[0], Version: -1},
			&zk.DeleteRequest{Path: "/b", Version: -1})
		require.NoError(t, deleted.Err())
		_, err := e.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		require.False(t, s.IsOver())
	}, zktest.TickTime(time.Second))
}

func TestA22LastMemberToLeaveKeepsAReadyCreatedSinceItListed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		others := []*zkrecipes.Client{w.Stranger(nil), w.Stranger(nil)}
		for _, c := range others {
			recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(c, "/b", 3))
		}
		last := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", 3))
		last.Get()
		for _, c := range others {
			require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		}

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(check,delete,delete)", For: time.Second})
		left := make(chan error, 1)
		go func() { left <- last.Get().Leave(harness.Within(t, time.Minute)) }()
		synctest.Wait() // the last member has seen that it is alone
		early := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", 3))
		require.True(t, early.Waiting())
		// The watch of the early member fires. The member checks ready after the leaving
		// member's transaction.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: "/b/ready", Skip: 1, For: 2 * time.Second})
		late := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/b", 3))
		require.False(t, late.Waiting())
		late.Get()
		require.True(t, early.Waiting())
		require.NoError(t, <-left)
		require.True(t, early.Waiting())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.False(t, early.Waiting())
		early.Get()
	}, zktest.TickTime(time.Second))
}
