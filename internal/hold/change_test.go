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

// lateContext holds up whoever ends what rests on it.
type lateContext struct {
	context.Context
	ending, goOn chan struct{} // once ending is closed, whoever asks waits for goOn
	asked        chan struct{}
}

func (c lateContext) Done() <-chan struct{} {
	select {
	case <-c.ending:
		select {
		case c.asked <- struct{}{}:
		default:
		}
		<-c.goOn
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
				parent := lateContext{context.Background(), make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)}
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
				synctest.Wait()
				require.Len(t, w.Flags(), 1)
				close(parent.goOn)
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
