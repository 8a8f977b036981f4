package barrier_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Input that Barrier and DoubleBarrier reject, and requests that the server refuses.

// restricts returns a function by which an operator sets the permissions of all others.
func (w *world) restricts() func(path string, perms int32) {
	admin := w.Bare()
	require.NoError(w.T, admin.AddAuth("digest", []byte("owner:x")))
	return func(path string, perms int32) {
		w.T.Helper()
		_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
		require.NoError(w.T, err)
	}
}

func TestBarriersReturnNoAuthAtOnce(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		ctx, restrict, conn := t.Context(), w.restricts(), w.Bare()
		c, other := w.Stranger(nil), w.Stranger(nil)
		w.Write("/below", "")
		restrict("/below", zk.PermRead)
		require.ErrorIs(t, k.Try(ctx, c, "/below/path"), zk.ErrNoAuth, "the path cannot be created")

		var first arriving
		for _, r := range k.Refused {
			switch ok, _, _ := conn.Exists(k.Path); {
			case r.Alone && !ok:
				w.Write(k.Path, "2")
			case !r.Alone && first == nil:
				first = k.arrivesIn(w, other)
			}
			restrict(k.Path+r.Znode, r.Perms)
			err := k.Try(ctx, w.Stranger(nil), k.Path)
			if r.Says == "" {
				require.ErrorIs(t, err, zk.ErrNoAuth, r.What)
			} else {
				require.ErrorContains(t, err, r.Says, r.What)
			}
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain, r.What)
			restrict(k.Path+r.Znode, zk.PermAll)
			if first != nil {
				synctest.Wait()
				require.Len(t, k.members(w), 1, r.What)
				require.True(t, first.Waiting(), r.What)
			}
		}
		k.passes(w, first, k.arrivesIn(w, c))
	})
}

func TestBarriersOfNoMembersAreRejected(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		for _, n := range []int{0, -1} {
			_, err := k.Arrive(w.Stranger(nil), "/b", n)(t.Context())
			require.ErrorContains(t, err, fmt.Sprintf("zkrecipes: %s /b: n is %d members: must be at least 1", k.Op, n))
		}
	})
}

func TestAVisitThatIsNoneAndANilContextAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, v := range []*zkrecipes.Visit{nil, {}} {
			require.EqualError(t, v.Leave(t.Context()), `zkrecipes: leave "": nothing is held: this is a zero value, which this library has not returned`)
		}
		v := w.visits(1)[0]
		var none context.Context
		require.Panics(t, func() { v.Context(none) })
		w.allLeave(v)
	})
}

func TestBarriersRejectZnodesWithOtherData(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		conn, c := w.Bare(), w.Stranger(nil)
		for data, says := range k.Data {
			w.Write("/other", data)
			for _, n := range []int{1, 2} {
				_, err := k.Arrive(c, "/other", n)(t.Context())
				require.ErrorContains(t, err, says)
			}
			got, stat, err := conn.Get("/other")
			require.NoError(t, err)
			require.Equal(t, data, string(got))
			require.Zero(t, stat.Version)
			require.Empty(t, w.Srv.Children("/other"))
			recipetest.RemoveTree(t, conn, "/other")
		}
		// An empty znode can be used. It was usually created as a parent.
		w.Write(k.Path, "")
		k.passes(w, k.arrivesIn(w, c), k.arrives(w))
		if k.Name == barrierKind.Name {
			require.Equal(t, "2", w.Text(k.Path))
		}
	})
}

func TestBarriersRejectAnIdentityTooLargeForARequest(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		c := w.Stranger(&zkrecipes.Options{Identity: strings.Repeat("x", 1<<20)})
		requests := w.Requests(func() {
			require.ErrorContains(t, recipetest.Fails(t, k.arrivesIn(w, c)), "servers accept 1048575")
		})
		require.Zero(t, requests[k.join], "no join")
		require.Empty(t, k.members(w))
		require.Equal(t, 1, w.Srv.Counts().Requests["connect"], "the connection is still the first")
	})
}

// The transaction that opens a round names all its members. If that many members
// make it too large, Wait returns an error before it sends anything.
func TestBarrierWithMoreMembersThanATransactionCanNameIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.Stranger(nil)
		core, most := w.NewCore().Client, 0
		for barrier.New(core, "/b", most+1).OpeningSize() <= jute.MaxFrame {
			most++
		}
		require.Greater(t, most, 9000)
		requests := w.Requests(func() {
			for _, n := range []int{most + 1, 1 << 20, 1 << 40, int(^uint(0) >> 1), int(^uint(0)>>1)/111 + 1} {
				_, err := zkrecipes.NewBarrier(c, "/b", n).Wait(t.Context())
				require.ErrorContains(t, err, fmt.Sprintf("a barrier of %d members: request of", n))
				require.ErrorContains(t, err, "servers accept 1048575")
			}
		})
		require.Empty(t, requests)
		b := barrier.New(core, "/b", most)
		require.NoError(t, b.Check())

		// openingSize is an upper bound, tight to within one member.
		name := "_c_" + layout.NewUUID() + "-" + string(barrier.MemberKindOf(most))
		var numbers []int32
		ops := []any{nil, b.Raise(b.Line.Client.ACL), &zk.CheckVersionRequest{Path: recipetest.ReadyOf2}, &zk.CheckVersionRequest{Path: "/b", Version: -1}}
		for i := range most { // every other number, so that no two make a range; ten digits each
			number := 1_000_000_000 + int32(2*i)
			numbers = append(numbers, number)
			ops = append(ops, &zk.CheckVersionRequest{Path: fmt.Sprintf("%s/%s%d", recipetest.RoundOf2, name, number), Version: -1})
		}
		ops[0] = &zk.SetDataRequest{Path: recipetest.ReadyOf2, Data: layout.AppendRanges(nil, numbers)}
		size := zkconn.MultiSize(ops)
		require.LessOrEqual(t, size, b.OpeningSize())
		require.Greater(t, size, barrier.New(core, "/b", most-1).OpeningSize())
	})
}

// The data is kept also if it is written between the client's read and the first join.
func TestDataPutOnAnEmptyZnodeBeforeABarrierClaimsItIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Write("/b", "")
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "setData", For: time.Second})
		a := w.waits(2)
		w.sizeIs("mine")
		require.ErrorContains(t, recipetest.Fails(t, a), `number of members: "mine"`)
		require.Equal(t, "mine", w.Text("/b"))
	})
}
