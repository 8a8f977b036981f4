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
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Input that Barrier and DoubleBarrier reject, and requests that the server
// refuses.

func eachBarrier(t *testing.T, f func(t *testing.T, m recipetest.BarrierCase)) {
	for _, m := range recipetest.BothBarriers {
		t.Run(m.Name, func(t *testing.T) { f(t, m) })
	}
}

func TestB36BarriersReturnNoAuthAtOnce(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		ctx, path, admin := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		restrict := func(path string, perms int32) {
			_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
			require.NoError(t, err)
		}
		c, other := recipetest.Dial(t, nil), recipetest.Dial(t, nil)
		harness.MakeParents(t, admin, zkconn.Parent(path))
		restrict(zkconn.Parent(path), zk.PermRead)
		require.ErrorIs(t, m.Try(ctx, c, path), zk.ErrNoAuth, "the path cannot be created")
		restrict(zkconn.Parent(path), zk.PermAll)

		for _, r := range m.Refused {
			if !r.Alone {
				continue
			}
			if ok, _, _ := admin.Exists(path); !ok {
				_, err := admin.Create(path, []byte("2"), 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
			restrict(path+r.Znode, r.Perms)
			require.ErrorIs(t, m.Try(ctx, c, path), zk.ErrNoAuth, r.What)
			restrict(path+r.Znode, zk.PermAll)
		}

		first := m.Arrives(t, other, path)
		watching(t, other, 1)
		for _, r := range m.Refused {
			if r.Alone {
				continue
			}
			restrict(path+r.Znode, r.Perms)
			err := m.Try(ctx, recipetest.Dial(t, nil), path)
			if r.Says == "" {
				require.ErrorIs(t, err, zk.ErrNoAuth, r.What)
			} else {
				require.ErrorContains(t, err, r.Says, r.What)
			}
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain, r.What)
			restrict(path+r.Znode, zk.PermAll)
			harness.Eventually(t, "one member", func() bool {
				return len(harness.Children(t, admin, path+m.Members)) == 1+m.Others
			})
			require.True(t, first.Waiting(), r.What)
		}
		m.Pass(t, first, m.Arrives(t, c, path))
	})
}

func TestB37BarriersRetryOnABusyServer(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		for name, after := range map[string]bool{"before": false, "after": true} {
			t.Run(name, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
						for _, op := range m.Busy {
							w.Plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
						}
						for range 2 {
							m.Pass(t, m.Arrives(t, w.Stranger(nil), m.Path), m.Arrives(t, w.Stranger(nil), m.Path))
						}
						synctest.Wait()
						if m.Name != "barrier" { // the next member of a Barrier deletes its round
							require.Empty(t, w.Srv.Children(m.Path))
						}
					}
				})
			})
		}
	})
}

func TestB37BarriersReturnQuotaErrorsAtOnce(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		for op, says := range m.Quota {
			t.Run(op, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					var first *harness.Call[recipetest.Arrival]
					if op == recipetest.OpOpenRound || m.Others == 0 { // otherwise the first member would run into the fault
						first = m.Arrives(t, w.Stranger(nil), m.Path)
						synctest.Wait()
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrQuotaExceeded})
					c := w.Stranger(nil)
					err := m.Try(t.Context(), c, m.Path)
					require.ErrorContains(t, err, says)
					require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
					if first == nil {
						first = m.Arrives(t, c, m.Path)
					}
					synctest.Wait()
					require.Len(t, m.Standing(w), 1)
					m.Pass(t, first, m.Arrives(t, w.Stranger(nil), m.Path))
				})
			})
		}
	})
}

func TestB39BarrierErrorsNameTheInvalidPath(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		ctx, c, conn := harness.Within(t, 20*time.Second), recipetest.Dial(t, nil), harness.Raw(t)
		for path, why := range recipetest.BadPaths {
			require.EqualError(t, m.Try(ctx, c, path), why(m.Op))
		}
		path := harness.NewPath(t)
		harness.MakeParents(t, conn, zkconn.Parent(path))
		_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, path := range []string{path, path + "/below"} {
			require.ErrorIs(t, m.Try(ctx, c, path), zk.ErrNoChildrenForEphemerals)
		}
	})
}

func TestB40InvalidBarriersAreRejected(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		var none context.Context
		ctx, c := harness.Within(t, 20*time.Second), recipetest.Dial(t, nil)
		for name, f := range m.Invalid {
			require.ErrorContains(t, f(ctx), "zkrecipes: "+m.Op+` "": not made by its constructor`, name)
		}
		for want, f := range map[string]func(context.Context) (recipetest.Arrival, error){
			`/b: nil client`:                     m.Arrive(nil, "/b", 2),
			`/b: client was not made by Dial`:    m.Arrive(&zkrecipes.Client{}, "/b", 2),
			`/b: a ` + m.Name + ` of 0 members`:  m.Arrive(c, "/b", 0),
			`/b: a ` + m.Name + ` of -1 members`: m.Arrive(c, "/b", -1),
		} {
			_, err := f(ctx)
			require.ErrorContains(t, err, "zkrecipes: "+m.Op+" "+want)
		}
		require.EqualError(t, m.Try(none, c, "/b"), "zkrecipes: "+m.Op+" /b: nil context")
	})
}

func TestB48BarriersRejectZnodesWithOtherData(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		ctx, path, conn, c := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t), recipetest.Dial(t, nil)
		harness.MakeParents(t, conn, path)
		i := 0
		for data, says := range m.Data {
			i++
			path := fmt.Sprint(path, "/", i)
			_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			for _, n := range []int{1, 2} {
				_, err = m.Arrive(c, path, n)(ctx)
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
		m.Pass(t, m.Arrives(t, c, path), m.Arrives(t, recipetest.Dial(t, nil), path))
		data, _, err := conn.Get(path)
		require.NoError(t, err)
		if m.Name == "barrier" {
			require.Equal(t, "2", string(data))
		}
	})
}

func TestB52BarriersRejectAnIdentityTooLargeForARequest(t *testing.T) {
	eachBarrier(t, func(t *testing.T, m recipetest.BarrierCase) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c := w.Stranger(&zkrecipes.Options{Identity: strings.Repeat("x", 1<<20)})
			requests := w.Requests(func() {
				err := m.Try(t.Context(), c, m.Path)
				require.ErrorContains(t, err, "servers accept 1048575")
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			})
			require.Zero(t, requests[m.Busy[0]], "no join")
			require.Empty(t, m.Standing(w))
			require.Equal(t, 1, w.Srv.Counts().Requests["connect"], "the connection is still the first")
		})
	})
}
