package hold_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
)

// A change ends without success while the end of the grant is being told. The thing stands until the
// holder's contexts have all ended.
func TestAThingIsDeletedAfterTheHoldersContextsAlsoAtTheEndOfAChange(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(*hold.Handle){
		"released": func(h *hold.Handle) { _ = h.Release() },
		"lost":     func(h *hold.Handle) { h.Grant.End(errs.Lost(errs.ErrDeleted)) },
	}, func(t *testing.T, w *recipetest.World, end func(*hold.Handle)) {
		h := recipetest.Grab(t, w.NewCore().MutexLine(w.Path).Acquire, layout.KindLock)
		above, cancel := context.WithCancel(context.Background())
		defer cancel()
		var ending atomic.Bool // whoever ends what rests on the parent waits then
		asked, goOn := make(chan struct{}), make(chan struct{})
		ask := sync.OnceFunc(func() { close(asked) })
		contexts := []context.Context{h.Context(recipetest.Hooked{Context: above, F: func() {
			if ending.Load() {
				ask()
				<-goOn
			}
		}})}
		for range 40 {
			c, stop := context.WithCancel(context.Background())
			defer stop()
			contexts = append(contexts, h.Context(c))
		}
		sent, refused := make(chan struct{}), make(chan struct{})
		close(sent)
		go h.Grant.EndWith(context.Background(), sent, func() (bool, error) { <-refused; return false, errors.New("refused") })
		synctest.Wait()
		ending.Store(true)
		go end(h)
		<-asked
		close(refused)
		synctest.Wait()
		require.Len(t, w.Line(), 1)
		close(goOn)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, w.Line())
		for _, c := range contexts {
			require.Error(t, c.Err())
		}
	})
}

func TestASessionForgetsWhatIsNotHeldAnyMore(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := w.NewCore()
		knows := func(checks []any) {
			t.Helper()
			synctest.Wait()
			var paths []string
			for _, check := range checks {
				paths = append(paths, check.(*zk.CheckVersionRequest).Path)
			}
			require.ElementsMatch(t, paths, hold.Watched(core.S))
		}
		slots, err := semaphore.New(core.Client, "/s", 3).Acquire(t.Context(), 2, true)
		require.NoError(t, err)
		knows(slots.Handle.Grant.Guard())
		require.NoError(t, slots.Handle.Release())
		h := recipetest.Grab(t, core.RWLine(w.Path).Acquire, layout.KindWrite)
		writer := h.Grant.Guard()
		knows(writer)
		require.NoError(t, line.Downgrade(t.Context(), h))
		require.NotEqual(t, writer, h.Grant.Guard())
		knows(h.Grant.Guard())
		require.NoError(t, w.Bare().Delete(h.Grant.Path(), -1))
		require.ErrorIs(t, h.Release(), errs.ErrLost)
		knows(nil)
	})
}
