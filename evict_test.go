package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const opEvictWaiter = "multi(check,delete)"

// line3 is a line of a holder and two waiters, and an operator.
type line3 struct {
	*world
	holder        *Lease
	second, third *harness.Call[*Lease]
	operator      *Client
	listed        []Contender
	evict         func(i int, opts *EvictOptions) (bool, error)
	list          func()
}

func inLineOfThree(t *testing.T, f func(t *testing.T, w *line3)) {
	inBubble(t, func(t *testing.T, w *world) {
		l := &line3{world: w, holder: lockOn(t, NewMutex(w.client(nil), w.path))}
		l.second, l.third = w.lockLater(w.stranger(nil)), w.lockLater(w.stranger(nil))
		l.operator = w.stranger(nil)
		l.list = func() {
			var err error
			l.listed, err = NewMutex(l.operator, w.path).Contenders(t.Context())
			require.NoError(t, err)
		}
		l.evict = func(i int, opts *EvictOptions) (bool, error) {
			return l.operator.Evict(t.Context(), l.listed[i], opts)
		}
		l.list()
		require.Len(t, l.listed, 3)
		f(t, l)
	})
}

func TestEvictedWaiterIsToldAndTheOthersGoOn(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		var evicted bool
		var err error
		requests := w.requests(func() { evicted, err = w.evict(1, nil) })
		w.stands(w.holder)
		// The third looks for whom it waits now, and the evicted call makes sure that it is gone.
		require.Equal(t, map[string]int{
			"sync": 1, "exists": 1, "getChildren2": 1 + 1, opEvictWaiter: 1, "getData": 1, "multi(delete)": 2,
		}, withoutPings(requests))
		require.NoError(t, err)
		require.True(t, evicted)
		_, err = w.second.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		require.NoError(t, w.holder.Release())
		require.NoError(t, w.third.Get().Release())
	})
}

func TestAHolderIsEvictedOnlyIfAskedFor(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		evicted, err := w.evict(0, nil)
		require.ErrorIs(t, err, ErrHolder)
		require.ErrorContains(t, err, w.listed[0].Path)
		require.False(t, evicted)
		w.stands(w.holder)
		evicted, err = w.evict(0, &EvictOptions{Holder: true})
		require.NoError(t, err)
		require.True(t, evicted)
		next := w.second.Get()
		require.Greater(t, next.Token(), w.holder.Token())
		time.Sleep(time.Second)
		require.NoError(t, next.Release())
		require.NoError(t, w.third.Get().Release())
		require.ErrorIs(t, w.holder.Release(), ErrLost)
	})
}

// The holder releases while the eviction of the waiter is under way.
func TestAWaiterThatHoldsMeanwhileIsNotEvicted(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opEvictWaiter, For: time.Second})
		a := harness.Go(t, func(ctx context.Context) (bool, error) { return w.operator.Evict(ctx, w.listed[1], nil) })
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, w.holder.Release())
		evicted, err := a.Wait()
		require.ErrorIs(t, err, ErrHolder)
		require.False(t, evicted)
		next := w.second.Get()
		w.stands(next)
		require.NoError(t, next.Release())
		require.NoError(t, w.third.Get().Release())
	})
}

func TestAWaiterIsEvictedThoughTheOneBeforeItGoesMeanwhile(t *testing.T) {
	inLineOfThree(t, func(t *testing.T, w *line3) {
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opEvictWaiter, For: time.Second})
		a := harness.Go(t, func(ctx context.Context) (bool, error) { return w.operator.Evict(ctx, w.listed[2], nil) })
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, w.holder.Release()) // the second holds now
		evicted, err := a.Wait()
		require.NoError(t, err)
		require.True(t, evicted)
		_, err = w.third.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		require.NoError(t, w.second.Get().Release())
	})
}

func TestAZnodeThatCameAfterTheContenderStays(t *testing.T) {
	for _, opts := range []*EvictOptions{nil, {Holder: true}} {
		inLineOfThree(t, func(t *testing.T, w *line3) {
			w.second.Cancel(nil)
			w.second.Wait()
			synctest.Wait()
			evicted, err := w.evict(1, opts)
			require.NoError(t, err)
			require.False(t, evicted, "it has gone")
			_, err = w.bare().Create(w.listed[1].Path, []byte("another"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			evicted, err = w.evict(1, opts)
			require.NoError(t, err)
			require.False(t, evicted)
			require.Contains(t, w.srv.Children(w.path), w.listed[1].Place)
		})
	}
}

func TestAnEvictionWhoseReplyIsLostHasEvicted(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, op := range []string{"sync", "exists", "getChildren2", opEvictWaiter} {
			inLineOfThree(t, func(t *testing.T, w *line3) {
				w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: op, After: after})
				evicted, err := w.evict(1, nil)
				require.NoError(t, err)
				require.True(t, evicted)
				_, err = w.second.Wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.NoError(t, w.holder.Release())
				require.NoError(t, w.third.Get().Release())
			})
		}
	}
}

// A reader holds beside other readers, and waits for a writer ahead of it.
func TestReadersAreHoldersUnlessAWriterIsAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, second := NewRWLock(w.stranger(nil), w.path), NewRWLock(w.stranger(nil), w.path)
		r1, r2 := held(t, first.RLock), held(t, second.RLock)
		writer := later(t, NewRWLock(w.stranger(nil), w.path).Lock)
		synctest.Wait()
		reader := later(t, NewRWLock(w.stranger(nil), w.path).RLock)
		synctest.Wait()
		operator := w.stranger(nil)
		cs, err := NewRWLock(operator, w.path).Contenders(t.Context())
		require.NoError(t, err)
		for i, holds := range []bool{true, true, false, false} {
			require.Equal(t, holds, cs[i].Held)
			if !holds {
				continue
			}
			_, err := operator.Evict(t.Context(), cs[i], nil)
			require.ErrorIs(t, err, ErrHolder)
		}
		evicted, err := operator.Evict(t.Context(), cs[2], nil)
		require.NoError(t, err)
		require.True(t, evicted)
		_, err = writer.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		r3 := reader.Get()
		for _, l := range []*Lease{r1, r2, r3} {
			require.NoError(t, l.Release())
		}
	})
}

func TestMembersOfABarrierAreEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := waitLater(t, NewBarrier(w.member(1), "/b", 2))
		synctest.Wait()
		operator := w.stranger(nil)
		cs, err := NewBarrier(operator, "/b", 2).Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		evicted, err := operator.Evict(t.Context(), cs[0], nil)
		require.NoError(t, err)
		require.True(t, evicted)
		_, err = a.Wait()
		require.ErrorIs(t, err, ErrEvicted)

		first := enter(t, couple(w.member(2)))
		synctest.Wait()
		vs := visits(t, first, enter(t, couple(w.member(3))))
		cs, err = couple(operator).Contenders(t.Context())
		require.NoError(t, err)
		_, err = operator.Evict(t.Context(), cs[0], nil)
		require.ErrorIs(t, err, ErrHolder)
		evicted, err = operator.Evict(t.Context(), cs[0], &EvictOptions{Holder: true})
		require.NoError(t, err)
		require.True(t, evicted)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, vs[0].Err(), ErrLost)
	})
}

func TestEvictWorksUnderAPrefixAndNamesWhatIsWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts := &Options{Prefix: "/apps"}
		lockOn(t, NewMutex(w.stranger(opts), "/l"))
		a := lockLater(t, NewMutex(w.stranger(opts), "/l"))
		synctest.Wait()
		operator := w.stranger(opts)
		cs, err := NewMutex(operator, "/l").Contenders(t.Context())
		require.NoError(t, err)
		require.Equal(t, "/l/"+cs[1].Place, cs[1].Path)
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: -102, Op: opEvictWaiter})
		_, err = operator.Evict(t.Context(), cs[1], nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		evicted, err := operator.Evict(t.Context(), cs[1], nil)
		require.NoError(t, err)
		require.True(t, evicted)
		_, err = a.Wait()
		require.ErrorIs(t, err, ErrEvicted)

		_, err = operator.Evict(t.Context(), Contender{Place: cs[0].Place, Path: cs[0].Path}, nil)
		require.ErrorContains(t, err, "Czxid")
		_, err = operator.Evict(t.Context(), Contender{Czxid: 1}, nil)
		require.ErrorIs(t, err, ErrInvalidPath)
		for _, c := range []*Client{nil, {}} {
			_, err = c.Evict(t.Context(), cs[0], nil)
			require.ErrorContains(t, err, "client")
		}
		operator.Close()
		_, err = operator.Evict(t.Context(), cs[0], nil)
		require.ErrorIs(t, err, ErrClosed)
	})
}
