package zkrecipes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const opEvictWaiter = "multi(check,delete)"

// anyway evicts holders, too.
var anyway = &zkrecipes.EvictOptions{Holder: true}

// evicts has an operator evict a contender, and requires that it was there, or not.
func evicts(t *testing.T, operator *zkrecipes.Client, c zkrecipes.Contender, opts *zkrecipes.EvictOptions, want bool, says ...any) {
	t.Helper()
	evicted, err := operator.Evict(t.Context(), c, opts)
	require.NoError(t, err)
	require.Equal(t, want, evicted, says...)
}

// spares requires that a contender is not evicted without EvictOptions.Holder.
func spares(t *testing.T, operator *zkrecipes.Client, c zkrecipes.Contender) {
	t.Helper()
	evicted, err := operator.Evict(t.Context(), c, nil)
	require.ErrorIs(t, err, zkrecipes.ErrHolder)
	require.ErrorContains(t, err, c.Path)
	require.False(t, evicted)
}

// line3 is a line of a holder and two waiters, and an operator.
type line3 struct {
	*recipetest.World
	holder        *zkrecipes.Lease
	second, third *harness.Call[*zkrecipes.Lease]
	operator      *zkrecipes.Client
	listed        []zkrecipes.Contender
}

func inLineOfThree(t *testing.T, f func(t *testing.T, w *line3)) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := &line3{World: w, holder: recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))}
		l.second, l.third = w.LockLater(w.Stranger(nil)), w.LockLater(w.Stranger(nil))
		l.operator = w.Stranger(nil)
		l.listed = listed(t, zkrecipes.NewMutex(l.operator, w.Path).Contenders)
		require.Len(t, l.listed, 3)
		f(t, l)
	})
}

func TestAHolderIsEvictedOnlyIfAskedFor(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		spares(t, w.operator, w.listed[0])
		w.Stands(w.holder)
		evicts(t, w.operator, w.listed[0], anyway, true)
		next := w.second.Get()
		require.Greater(t, next.Token(), w.holder.Token())
		time.Sleep(time.Second)
		require.NoError(t, next.Release())
		require.NoError(t, w.third.Get().Release())
		require.ErrorIs(t, w.holder.Release(), zkrecipes.ErrLost)
	})
}

// The holder releases while the eviction of the waiter is under way.
func TestAWaiterThatHoldsMeanwhileIsNotEvicted(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: opEvictWaiter, For: time.Second})
		a := harness.Go(t, func(ctx context.Context) (bool, error) { return w.operator.Evict(ctx, w.listed[1], nil) })
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, w.holder.Release())
		evicted, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrHolder)
		require.False(t, evicted)
		next := w.second.Get()
		w.Stands(next)
		require.NoError(t, next.Release())
		require.NoError(t, w.third.Get().Release())
	})
}

func TestAZnodeThatCameAfterTheContenderStays(t *testing.T) {
	for _, opts := range []*zkrecipes.EvictOptions{nil, {Holder: true}} {
		inLineOfThree(t, func(t *testing.T, w *line3) {
			w.second.Cancel(nil)
			w.second.Wait()
			synctest.Wait()
			evicts(t, w.operator, w.listed[1], opts, false, "it has gone")
			_, err := w.Bare().Create(w.listed[1].Path, []byte("another"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			evicts(t, w.operator, w.listed[1], opts, false)
			require.Contains(t, w.Srv.Children(w.Path), w.listed[1].Place)
		})
	}
}

// Also if the reply to any request is lost, or the one before it goes meanwhile.
func TestAWaiterIsEvictedAndTheOthersGoOn(t *testing.T) {
	faults := []zktest.Fault{{Do: zktest.Delay, Op: opEvictWaiter, For: time.Second}}
	for _, op := range []string{"sync", "exists", "getChildren2", opEvictWaiter} {
		faults = append(faults, zktest.Fault{Do: zktest.Drop, Op: op}, zktest.Fault{Do: zktest.Drop, Op: op, After: true})
	}
	for _, fault := range faults {
		inLineOfThree(t, func(t *testing.T, w *line3) {
			w.Plan.Add(fault)
			if fault.Do == zktest.Delay {
				time.AfterFunc(fault.For/2, func() { w.holder.Release() }) // the second holds then
			}
			evicts(t, w.operator, w.listed[2], nil, true)
			recipetest.Fails(t, w.third, zkrecipes.ErrEvicted)
			if fault.Do != zktest.Delay {
				w.Stands(w.holder)
				require.NoError(t, w.holder.Release())
			}
			require.NoError(t, w.second.Get().Release())
		})
	}
}

// A reader holds beside other readers, and waits for a writer ahead of it.
func TestReadersAreHoldersUnlessAWriterIsAhead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first, second := zkrecipes.NewRWLock(w.Stranger(nil), w.Path), zkrecipes.NewRWLock(w.Stranger(nil), w.Path)
		r1, r2 := recipetest.Held(t, first.RLock), recipetest.Held(t, second.RLock)
		writer := recipetest.Later(t, zkrecipes.NewRWLock(w.Stranger(nil), w.Path).Lock)
		synctest.Wait()
		reader := recipetest.Later(t, zkrecipes.NewRWLock(w.Stranger(nil), w.Path).RLock)
		synctest.Wait()
		operator := w.Stranger(nil)
		cs := listed(t, zkrecipes.NewRWLock(operator, w.Path).Contenders)
		for i, holds := range []bool{true, true, false, false} {
			require.Equal(t, holds, cs[i].Held)
			if holds {
				spares(t, operator, cs[i])
			}
		}
		evicts(t, operator, cs[2], nil, true)
		recipetest.Fails(t, writer, zkrecipes.ErrEvicted)
		r3 := reader.Get()
		for _, l := range []*zkrecipes.Lease{r1, r2, r3} {
			require.NoError(t, l.Release())
		}
	})
}

// A number beyond the limit may be negative. Then it sorts before the holder's.
func TestAPlaceBeyondTheLimitIsEvictedAndTheHolderBehindItIsSpared(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		aside := fmt.Sprintf("%s/_c_%s-lock-%010d", w.Path, layout.NewUUID(), -5)
		_, err := w.Bare().Create(aside, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		operator := w.Stranger(nil)
		cs := listed(t, zkrecipes.NewMutex(operator, w.Path).Contenders)
		require.Equal(t, []bool{false, true}, []bool{cs[0].Held, cs[1].Held})
		spares(t, operator, cs[1])
		require.NoError(t, holder.Err())
		evicts(t, operator, cs[0], nil, true)
		w.Stands(holder)
	})
}

// The servers delete the znode, and the operator does not learn it before its context ends.
func TestAnEvictionWhoseReplyIsMissingIsUncertain(t *testing.T) {
	for _, faults := range [][]zktest.Fault{
		{{Do: zktest.Withhold, After: true, Op: "delete"}},
		{{Do: zktest.Drop, After: true, Op: "delete"}, {Do: zktest.Withhold, Op: "exists", Skip: 1}},
	} {
		inLineOfThree(t, func(t *testing.T, w *line3) {
			for _, f := range faults {
				f.Path = w.listed[0].Path
				w.Plan.Add(f)
			}
			_, err := w.operator.Evict(harness.Within(t, time.Second), w.listed[0], anyway)
			require.ErrorIs(t, err, zkrecipes.ErrUncertain)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, w.second.Get().Release())
			require.NoError(t, w.third.Get().Release())
		})
	}
}

// The next session finds the znode gone.
func TestAnEvictionWithWhichTheSessionEndsReportsThatTheContenderWasThere(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: "delete"})
		evicts(t, w.operator, w.listed[0], anyway, true)
		require.NoError(t, w.second.Get().Release())
		require.NoError(t, w.third.Get().Release())
	})
}

func TestMembersOfABarrierAreEvicted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(1), "/b", 2))
		synctest.Wait()
		operator := w.Stranger(nil)
		cs := listed(t, zkrecipes.NewBarrier(operator, "/b", 2).Contenders)
		require.Len(t, cs, 1)
		evicts(t, operator, cs[0], nil, true)
		recipetest.Fails(t, a, zkrecipes.ErrEvicted)

		first := recipetest.Enter(t, recipetest.Couple(w.Member(2)))
		synctest.Wait()
		vs := recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(w.Member(3))))
		cs = listed(t, recipetest.Couple(operator).Contenders)
		spares(t, operator, cs[0])
		evicts(t, operator, cs[0], anyway, true)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrLost)
	})
}

func TestEvictWorksUnderAPrefixAndNamesWhatIsWrong(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts := &zkrecipes.Options{Prefix: "/apps"}
		recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(opts), "/l"))
		a := recipetest.LockLater(t, zkrecipes.NewMutex(w.Stranger(opts), "/l"))
		synctest.Wait()
		operator := w.Stranger(opts)
		cs := listed(t, zkrecipes.NewMutex(operator, "/l").Contenders)
		require.Equal(t, "/l/"+cs[1].Place, cs[1].Path)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -102, Op: opEvictWaiter})
		_, err := operator.Evict(t.Context(), cs[1], nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		evicts(t, operator, cs[1], nil, true)
		recipetest.Fails(t, a, zkrecipes.ErrEvicted)

		_, err = operator.Evict(t.Context(), zkrecipes.Contender{Place: cs[0].Place, Path: cs[0].Path}, nil)
		require.ErrorContains(t, err, "Czxid")
		_, err = operator.Evict(t.Context(), zkrecipes.Contender{Czxid: 1}, nil)
		require.ErrorIs(t, err, zkrecipes.ErrInvalidPath)
		for _, c := range []*zkrecipes.Client{nil, {}} {
			_, err = c.Evict(t.Context(), cs[0], nil)
			require.ErrorContains(t, err, "client")
		}
		operator.Close()
		_, err = operator.Evict(t.Context(), cs[0], nil)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// A process that leads again has the same session, and the znode of its new term the same name.
func TestALeadersNextTermInItsSessionIsNotEvicted(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		first := recipetest.Campaigns(t, a, "a")
		operator := w.Stranger(nil)
		all := listed(t, zkrecipes.NewElection(operator, w.Path).Contenders)
		require.Len(t, all, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: "exists", Path: w.Path + "/leader", For: time.Second})
		evict := harness.Go(t, func(ctx context.Context) (bool, error) { return operator.Evict(ctx, all[0], anyway) })
		time.Sleep(time.Second / 2)
		require.NoError(t, first.Resign())
		second := recipetest.Campaigns(t, a, "a")
		require.False(t, evict.Get())
		time.Sleep(time.Minute)
		require.NoError(t, second.Err())
		require.NoError(t, second.Resign())
	})
}
