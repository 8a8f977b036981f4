package hold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// lateContext ends a second after its cancellation has begun, as one with much to do then.
type lateContext struct {
	context.Context
	ending chan struct{} // closed: whoever asks waits
	asked  chan struct{}
}

func (c lateContext) Done() <-chan struct{} {
	select {
	case <-c.ending:
		select {
		case c.asked <- struct{}{}:
		default:
		}
		time.Sleep(time.Second)
	default:
	}
	return make(chan struct{})
}

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
				parent := lateContext{context.Background(), make(chan struct{}), make(chan struct{}, 1)}
				contexts := []context.Context{it.Context(parent)}
				for range 40 {
					c, stop := context.WithCancel(context.Background())
					defer stop()
					contexts = append(contexts, it.Context(c))
				}
				sent, refused := make(chan struct{}), make(chan struct{})
				close(sent)
				go h.Grant.EndWith(context.Background(), sent, func() (bool, error) { <-refused; return false, errors.New("refused") })
				synctest.Wait()
				close(parent.ending)
				go end(h)
				<-parent.asked
				close(refused)
				gone := func() bool { synctest.Wait(); return len(w.Flags()) == 0 }
				for !gone() {
					time.Sleep(100 * time.Millisecond)
				}
				for _, c := range contexts {
					require.Error(t, c.Err(), "the thing is gone")
				}
			})
		})
	}
}
