package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Input that Barrier and DoubleBarrier reject, and requests that the server
// refuses.

// arrival is the result of a member that was admitted.
type arrival struct {
	index int                         // for a Barrier
	leave func(context.Context) error // for a DoubleBarrier, else nil
}

// barrierCase is one of the two kinds of barrier.
type barrierCase struct {
	name    string
	op      string // the operation, as errors name it
	path    string // of the barrier that tests in bubbles use
	members string // parent of the members' znodes, relative to path
	others  int    // other children of that parent
	arrive  func(c *Client, path string, n int) func(context.Context) (arrival, error)

	invalid map[string]func(context.Context) error // zero and nil values
	busy    []string                               // the requests that a busy server rejects
	quota   map[string]string                      // by request, the error if it exceeds the quota
	data    map[string]string                      // by data that the znode at path already holds, the error
	refused []refusal
}

// refusal is a missing permission.
type refusal struct {
	znode string // relative to the path
	perms int32  // the permissions that are left
	alone bool   // before the first member has joined
	what  string // the step that fails
	says  string // the error, if it is not zk.ErrNoAuth
}

var bothBarriers = []barrierCase{
	{
		name: "barrier", op: "wait", path: "/b", members: "/round", others: 1,
		arrive: func(c *Client, path string, n int) func(context.Context) (arrival, error) {
			return func(ctx context.Context) (arrival, error) {
				index, err := NewBarrier(c, path, n).Wait(ctx)
				return arrival{index: index}, err
			}
		},
		invalid: map[string]func(context.Context) error{
			"nil":  func(ctx context.Context) error { _, err := (*Barrier)(nil).Wait(ctx); return err },
			"zero": func(ctx context.Context) error { _, err := new(Barrier).Wait(ctx); return err },
		},
		busy: []string{opJoinRound, opLeaveRound, opMakeRound, opDeleteRound, opOpenRound, "createContainer", "getData", "getChildren2", "sync"},
		quota: map[string]string{
			opJoinRound: "quota exceeded", opMakeRound: "quota exceeded", opOpenRound: "quota exceeded",
			"createContainer": "-125", // go-zookeeper has no name for this code
		},
		data: otherData("mine", "-2", "0", "2 ", "zkrecipes/1 mutex", "99999999999999999999"),
		refused: []refusal{
			{what: "reading", alone: true, perms: 0},
			{what: "creating the round", alone: true, perms: zk.PermRead},
			{what: "joining", znode: "/round", perms: zk.PermAll &^ zk.PermCreate},
			{what: "counting", znode: "/round", perms: zk.PermAll &^ zk.PermWrite},
			{what: "listing", znode: "/round", perms: zk.PermAll &^ zk.PermRead},
			{what: "opening", znode: "/round/ready", perms: zk.PermAll &^ zk.PermWrite},
		},
	},
	{
		name: "double barrier", op: "enter", path: "/d",
		arrive: func(c *Client, path string, n int) func(context.Context) (arrival, error) {
			return func(ctx context.Context) (arrival, error) {
				v, err := NewDoubleBarrier(c, path, n).Enter(ctx)
				if err != nil {
					if v != nil {
						panic("Enter returned a visit and an error")
					}
					return arrival{}, err
				}
				return arrival{leave: v.Leave}, v.Err()
			}
		},
		invalid: map[string]func(context.Context) error{
			"nil":  func(ctx context.Context) error { _, err := (*DoubleBarrier)(nil).Enter(ctx); return err },
			"zero": func(ctx context.Context) error { _, err := new(DoubleBarrier).Enter(ctx); return err },
		},
		busy:  []string{opEnter, opOpenAll, opLastLeaves, "multi(delete)", "createContainer", "getData", "exists", "getChildren2", "sync"},
		quota: map[string]string{opEnter: "quota exceeded"},
		data: map[string]string{
			"mine": "path holds other data", "2": "path holds the size of a semaphore or barrier",
		},
		refused: []refusal{
			{what: "joining", perms: zk.PermAll &^ zk.PermCreate},
			{what: "listing", perms: zk.PermAll &^ zk.PermRead},
			{what: "writing", perms: zk.PermAll &^ zk.PermWrite, says: "the znode may not be written"},
		},
	},
}

// otherData returns, for data that is not a number of members, the errors of a
// Barrier.
func otherData(all ...string) map[string]string {
	says := map[string]string{}
	for _, data := range all {
		says[data] = fmt.Sprintf("path does not hold a barrier's number of members: %q", data)
	}
	return says
}

func eachBarrier(t *testing.T, f func(t *testing.T, m barrierCase)) {
	for _, m := range bothBarriers {
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// arrives starts a member of a barrier of two, in the background.
func (m barrierCase) arrives(t testing.TB, c *Client, path string) *harness.Call[arrival] {
	return harness.Go(t, m.arrive(c, path, 2))
}

// try returns the error of a member of a barrier of two.
func (m barrierCase) try(ctx context.Context, c *Client, path string) error {
	_, err := m.arrive(c, path, 2)(ctx)
	return err
}

// standing returns the members of the barrier that tests in bubbles use.
func (m barrierCase) standing(w *world) []string {
	return slices.DeleteFunc(w.srv.Children(m.path+m.members), func(name string) bool { return name == "ready" })
}

// pass waits until the members of one barrier are admitted, and then makes them
// leave.
func (m barrierCase) pass(t testing.TB, members ...*harness.Call[arrival]) {
	t.Helper()
	var indexes []int
	var leaving []*harness.Call[struct{}]
	for _, a := range members {
		got := a.Get()
		if got.leave != nil {
			leaving = append(leaving, harness.GoErr(t, got.leave))
		} else {
			indexes = append(indexes, got.index)
		}
	}
	for _, l := range leaving {
		l.Get()
	}
	slices.Sort(indexes)
	for i, index := range indexes {
		require.Equal(t, i, index)
	}
}

func TestB36BarriersReturnNoAuthAtOnce(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		ctx, path, admin := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		restrict := func(path string, perms int32) {
			_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
			require.NoError(t, err)
		}
		c, other := dial(t, nil), dial(t, nil)
		harness.MakeParents(t, admin, zkconn.Parent(path))
		restrict(zkconn.Parent(path), zk.PermRead)
		require.ErrorIs(t, m.try(ctx, c, path), zk.ErrNoAuth, "the path cannot be created")
		restrict(zkconn.Parent(path), zk.PermAll)

		for _, r := range m.refused {
			if !r.alone {
				continue
			}
			if ok, _, _ := admin.Exists(path); !ok {
				_, err := admin.Create(path, []byte("2"), 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
			restrict(path+r.znode, r.perms)
			require.ErrorIs(t, m.try(ctx, c, path), zk.ErrNoAuth, r.what)
			restrict(path+r.znode, zk.PermAll)
		}

		first := m.arrives(t, other, path)
		watching(t, other, 1)
		for _, r := range m.refused {
			if r.alone {
				continue
			}
			restrict(path+r.znode, r.perms)
			err := m.try(ctx, dial(t, nil), path)
			if r.says == "" {
				require.ErrorIs(t, err, zk.ErrNoAuth, r.what)
			} else {
				require.ErrorContains(t, err, r.says, r.what)
			}
			require.NotErrorIs(t, err, ErrUncertain, r.what)
			restrict(path+r.znode, zk.PermAll)
			harness.Eventually(t, "one member", func() bool {
				return len(harness.Children(t, admin, path+m.members)) == 1+m.others
			})
			require.True(t, first.Waiting(), r.what)
		}
		m.pass(t, first, m.arrives(t, c, path))
	})
}

func TestB37BarriersRetryOnABusyServer(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		for name, after := range map[string]bool{"before": false, "after": true} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
						for _, op := range m.busy {
							w.plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
						}
						for range 2 {
							m.pass(t, m.arrives(t, w.stranger(nil), m.path), m.arrives(t, w.stranger(nil), m.path))
						}
						synctest.Wait()
						if m.name != "barrier" { // the next member of a Barrier deletes its round
							require.Empty(t, w.srv.Children(m.path))
						}
					}
				})
			})
		}
	})
}

func TestB37BarriersReturnQuotaErrorsAtOnce(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		for op, says := range m.quota {
			t.Run(op, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					var first *harness.Call[arrival]
					if op == opOpenRound || m.others == 0 { // otherwise the first member would run into the fault
						first = m.arrives(t, w.stranger(nil), m.path)
						synctest.Wait()
					}
					w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrQuotaExceeded})
					c := w.stranger(nil)
					err := m.try(t.Context(), c, m.path)
					require.ErrorContains(t, err, says)
					require.NotErrorIs(t, err, ErrUncertain)
					if first == nil {
						first = m.arrives(t, c, m.path)
					}
					synctest.Wait()
					require.Len(t, m.standing(w), 1)
					m.pass(t, first, m.arrives(t, w.stranger(nil), m.path))
				})
			})
		}
	})
}

func TestB39BarrierErrorsNameTheInvalidPath(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		ctx, c, conn := harness.Within(t, 20*time.Second), dial(t, nil), harness.Raw(t)
		for path, why := range badPaths {
			require.EqualError(t, m.try(ctx, c, path), why(m.op))
		}
		path := harness.NewPath(t)
		harness.MakeParents(t, conn, zkconn.Parent(path))
		_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, path := range []string{path, path + "/below"} {
			require.ErrorIs(t, m.try(ctx, c, path), zk.ErrNoChildrenForEphemerals)
		}
	})
}

func TestB40InvalidBarriersAreRejected(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		var none context.Context
		ctx, c := harness.Within(t, 20*time.Second), dial(t, nil)
		for name, f := range m.invalid {
			require.ErrorContains(t, f(ctx), "zkrecipes: "+m.op+` "": not made by its constructor`, name)
		}
		for want, f := range map[string]func(context.Context) (arrival, error){
			`/b: nil client`:                     m.arrive(nil, "/b", 2),
			`/b: client was not made by Dial`:    m.arrive(&Client{}, "/b", 2),
			`/b: a ` + m.name + ` of 0 members`:  m.arrive(c, "/b", 0),
			`/b: a ` + m.name + ` of -1 members`: m.arrive(c, "/b", -1),
		} {
			_, err := f(ctx)
			require.ErrorContains(t, err, "zkrecipes: "+m.op+" "+want)
		}
		require.EqualError(t, m.try(none, c, "/b"), "zkrecipes: "+m.op+" /b: nil context")
	})
}

func TestB48BarriersRejectZnodesWithOtherData(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		ctx, path, conn, c := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t), dial(t, nil)
		harness.MakeParents(t, conn, path)
		i := 0
		for data, says := range m.data {
			i++
			path := fmt.Sprint(path, "/", i)
			_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			for _, n := range []int{1, 2} {
				_, err = m.arrive(c, path, n)(ctx)
				require.ErrorContains(t, err, says)
			}
			got, stat, err := conn.Get(path)
			require.NoError(t, err)
			require.Equal(t, data, string(got))
			require.Zero(t, stat.Version)
			require.Empty(t, harness.Children(t, conn, path))
		}
		// An empty znode can be used. It was usually created as a parent.
		path += "/empty"
		harness.MakeParents(t, conn, path)
		m.pass(t, m.arrives(t, c, path), m.arrives(t, dial(t, nil), path))
		data, _, err := conn.Get(path)
		require.NoError(t, err)
		if m.name == "barrier" {
			require.Equal(t, "2", string(data))
		}
	})
}

func TestB52BarriersRejectAnIdentityTooLargeForARequest(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m barrierCase) {
		inBubble(t, func(t *testing.T, w *world) {
			c := w.stranger(&Options{Identity: strings.Repeat("x", 1<<20)})
			requests := w.requests(func() {
				err := m.try(t.Context(), c, m.path)
				require.ErrorContains(t, err, "servers accept 1048575")
				require.NotErrorIs(t, err, ErrUncertain)
			})
			require.Zero(t, requests[m.busy[0]], "no join")
			require.Empty(t, m.standing(w))
			require.Equal(t, 1, w.srv.Counts().Requests["connect"], "the connection is still the first")
		})
	})
}
