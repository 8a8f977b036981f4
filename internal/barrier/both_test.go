package barrier_test

import (
	"errors"
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
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What a Barrier and a DoubleBarrier have in common.

// The table of faults is recipetest.Faults.
func TestBarriersUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.BarrierDrivers()...)
}

func TestSpuriousWakeUpsLetNobodyThrough(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		link := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		a := k.arrivesIn(w, c)
		time.Sleep(5 * time.Second) // by now it watches its own znode, too
		synctest.Wait()
		paths := k.members(w)
		for _, path := range k.watched {
			paths = append(paths, k.Path+path)
		}
		require.ElementsMatch(t, paths, w.SessionOf(c).Watches)
		for range 3 {
			for _, path := range paths {
				for _, event := range []int32{jute.EventCreated, jute.EventDataChanged, jute.EventChildrenChanged, jute.EventDeleted} {
					if event == jute.EventChildrenChanged && path == recipetest.SignalOf2 {
						continue // it is believed, unless the connection was lost in between
					}
					link.Deliver(event, path)
					synctest.Wait()
					require.True(t, a.Waiting())
				}
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.True(t, a.Waiting())
			require.LessOrEqual(t, len(w.SessionOf(c).Watches), len(paths))
		}
		k.passes(w, a, k.arrives(w))
	})
}

// The search for the join fails at first, too.
func TestJoinOfABarrierWhoseReplyIsLostIsFound(t *testing.T) {
	for _, first := range []bool{true, false} {
		each(t, kinds, func(t *testing.T, w *world, k kind) {
			c, other := w.Stranger(nil), w.Stranger(nil)
			var partner arriving
			join, joins := k.join, 1
			switch {
			case !first:
				partner = k.arrivesIn(w, other)
				if k.join == k.open {
					joins = 2
				}
			case k.Name == barrierKind.Name:
				join = recipetest.OpMakeRound
			}
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: join}, zktest.Fault{Do: zktest.Drop, Op: "sync", Times: 2})
			var a arriving
			requests := w.Requests(func() { a = k.arrivesIn(w, c); time.Sleep(time.Second) })
			require.Equal(t, joins, requests[join], "the join is found, not repeated")
			if first {
				require.Len(t, k.members(w), 1)
				partner = k.arrivesIn(w, other)
			}
			k.passes(w, a, partner)
		})
	}
}

// A session that servers answer but do not serve is given up. Its member must be gone then: beside
// the next one of the same process, it would open a barrier of two.
func TestAMemberOfASessionThatWasGivenUpDoesNotCount(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		c := w.Stranger(nil)
		first := k.arrivesIn(w, c)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		_, err := first.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLost)

		again := k.arrivesIn(w, c)
		time.Sleep(recipetest.DefaultSessionTimeout / 2) // in which a member of the session before would stand
		require.True(t, again.Waiting(), "a barrier of 2 has opened for one member")
		require.Equal(t, 1, strings.Count(w.Srv.Tree(), "ephemeral="), "the next member is there")
	})
}

func TestBarrierWhosePathWasReapedIsCreatedAgain(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		noNode := zktest.Fault{Do: zktest.Answer, Op: recipetest.OpMakeRound, Code: jute.ErrNoNode, Times: 5}
		for range 3 {
			k.passes(w, k.arrivesIn(w, c), k.arrivesIn(w, d))
			recipetest.RemoveTree(t, w.Bare(), k.Path)
			k.passes(w, k.arrivesIn(w, c), k.arrivesIn(w, d))
			w.Plan.Add(noNode) // as if a Barrier's path was reaped each time before the round is created
		}
		if k.Name == barrierKind.Name {
			noNode.Times = -1
			w.Plan.Add(noNode)
			require.ErrorIs(t, k.Try(t.Context(), c, k.Path), zkconn.ErrContended, "the number of retries is bounded")
		}
	})
}

// Children whose names are not those of members are not counted, and nobody waits for them
// to leave. The server does not delete an opened round that has such a child.
func TestForeignChildrenOfABarrierAreNotCounted(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		a := k.arrives(w)
		junk := []string{
			"x", "member", "member-", "member-12", "_c_x", "ünï-member-000000000x", "readyy", "Ready",
			"1f1e2d3c-4b5a-4678-9abc-def01234567", "1f1e2d3c-4b5a-4678-9abc-def0123456789", "1f1e2d3c-4b5a-4678-9abcxdef012345678",
			"0f1e2d3c4b5a46789abcdef01234567", "0f1e2d3c4b5a46789abcdef0123456789", "0F1E2D3C4B5A46789ABCDEF012345678", strings.Repeat("é", 16),
		}
		if k.Name == barrierKind.Name { // other recipes' and libraries'
			junk = append(junk, "lock-0000000001", "_c_"+recipetest.CuratorUUID(0)+"-__READ__0000000001", recipetest.CuratorUUID(1))
		}
		for _, name := range junk {
			w.Write(k.Path+"/"+name, "")
			w.Write(k.Path+k.Members+"/"+name, "")
		}
		synctest.Wait()
		require.True(t, a.Waiting())
		k.Pass(t, a, k.arrives(w))
		recipetest.MembersLeft()
		if k.Name == barrierKind.Name {
			require.ErrorContains(t, recipetest.Fails(t, k.arrives(w)), "stands in the round")
			for _, name := range junk {
				require.NoError(t, w.Bare().Delete(k.Path+k.Members+"/"+name, -1))
			}
			k.Pass(t, k.arrives(w), k.arrives(w))
			return
		}
		require.ElementsMatch(t, junk, w.Srv.Children(k.Path))
		// A lock's place is not ignored: it shows that another recipe uses the path.
		_, err := w.Bare().Create(k.Path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.ErrorContains(t, recipetest.Fails(t, k.arrives(w)), "another recipe uses this path")
	})
}

func TestBarrierWhoseCounterIsExhaustedIsAnError(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		c := w.Stranger(nil)
		a := k.arrivesIn(w, c)
		for _, next := range []int32{line.MaxNumber + 1, 1<<31 - 1, -5} { // past the limit, at its end, negative
			require.NoError(t, w.Srv.SetCounter(k.Path+k.Members, next))
			recipetest.Fails(t, k.arrivesIn(w, c), zkrecipes.ErrExhausted)
			synctest.Wait()
			require.True(t, a.Waiting())
			require.Len(t, k.members(w), 1)
		}
	})
}

// The last member is cancelled while it lists the members, or opens. It gets through, or it
// is gone, and that is certain.
func TestLastMemberThatIsCancelledIsThroughOrGone(t *testing.T) {
	each(t, kinds, func(t *testing.T, w *world, k kind) {
		for _, after := range []bool{false, true} {
			for _, late := range k.opening(zktest.Delay) {
				reason, partner := errors.New("enough"), k.arrives(w)
				late.For, late.After = zkconn.Grace/2, after
				w.Plan.Add(late)
				a := k.arrives(w)
				a.Cancel(reason)
				time.Sleep(5 * time.Second)
				if _, err := a.Wait(); err == nil {
					k.passes(w, a, partner)
					continue
				}
				recipetest.Fails(t, a, reason)
				if partner.Waiting() {
					require.Len(t, k.members(w), 1)
					k.passes(w, partner, k.arrives(w))
				} else { // it had opened the barrier
					require.Equal(t, doubleKind.Name, k.Name)
					k.passes(w, partner)
				}
			}
		}
	})
}

func TestOpeningWhoseReplyIsLostHappensOnce(t *testing.T) {
	for _, op := range []string{recipetest.OpOpenRound, recipetest.OpOpenAll, recipetest.OpReplace} {
		k := doubleKind
		if op == recipetest.OpOpenRound {
			k = barrierKind
		}
		for _, fault := range []zktest.Fault{
			{Do: zktest.Drop}, {Do: zktest.Drop, After: true},
			{Do: zktest.Answer, Code: jute.ErrConnectionLoss}, {Do: zktest.Answer, Code: jute.ErrConnectionLoss, After: true},
		} {
			fault.Op, fault.Times = op, 2
			t.Run(fmt.Sprint(fault), func(t *testing.T) {
				o := k.observer()
				inBubble(t, func(t *testing.T, w *world) {
					k.passes(w, k.arrives(w), k.arrives(w))
					if op == recipetest.OpReplace { // a ready that is left from a crash
						w.Write("/d/ready", "")
					}
					o.Openings()
					a := k.arrives(w)
					w.Plan.Add(fault)
					k.passes(w, a, k.arrives(w))
					require.True(t, w.Met())
					require.Equal(t, []int{2}, o.Openings(), "once")
				}, o.Option())
			})
		}
	}
}

// observer sees the openings.
func (k kind) observer() *recipetest.Observer {
	return &recipetest.Observer{Dir: k.Path + k.Members, Created: k.Name == doubleKind.Name}
}
