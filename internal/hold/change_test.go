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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A change ends without success while the end of the grant is being told. The thing stands until the
// holder's contexts have all ended.
func TestAThingIsDeletedAfterTheHoldersContextsAlsoAtTheEndOfAChange(t *testing.T) {
	for name, end := range map[string]func(*hold.Handle){
		"released": func(h *hold.Handle) { _ = h.Release() },
		"lost":     func(h *hold.Handle) { h.Grant.End(errs.Lost(errs.ErrDeleted)) },
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := w.Queue(w.Stranger(nil))
				recipetest.PutOn(t, q, "job")
				it := recipetest.TakeOn(t, q)
				h := recipetest.TakenOf(it).Handle
				above, cancel := context.WithCancel(context.Background())
				defer cancel()
				var ending atomic.Bool // whoever ends what rests on the parent waits then
				asked, goOn := make(chan struct{}), make(chan struct{})
				ask := sync.OnceFunc(func() { close(asked) })
				contexts := []context.Context{it.Context(recipetest.Hooked{Context: above, F: func() {
					if ending.Load() {
						ask()
						<-goOn
					}
				}})}
				for range 40 {
					c, stop := context.WithCancel(context.Background())
					defer stop()
					contexts = append(contexts, it.Context(c))
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
				require.Len(t, w.Flags(), 1)
				close(goOn)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Empty(t, w.Flags())
				for _, c := range contexts {
					require.Error(t, c.Err())
				}
			})
		})
	}
}

func TestASessionForgetsWhatIsNotHeldAnyMore(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		s := recipetest.Live(t, c)
		knows := func(checks ...*zk.CheckVersionRequest) {
			t.Helper()
			synctest.Wait()
			var paths []string
			for _, check := range checks {
				paths = append(paths, check.Path)
			}
			require.ElementsMatch(t, paths, hold.Watched(s))
		}
		slots := recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/s", 3), 2)
		knows(slots.Checks()...)
		require.NoError(t, slots.Release())
		l := recipetest.Held(t, zkrecipes.NewRWLock(c, w.Path).Lock)
		writer := l.Check()
		knows(writer)
		require.NoError(t, l.Downgrade(t.Context()))
		require.NotEqual(t, writer, l.Check())
		knows(l.Check())
		require.NoError(t, w.Bare().Delete(l.Check().Path, -1))
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		knows()
	})
}
