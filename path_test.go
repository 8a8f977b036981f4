package zkrecipes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRecipeAndEveryHoldingTellsItsPath(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Prefix: "/prefix"})
		const path = "/some/path"
		type holding interface{ Path() string }
		for name, at := range map[string]func(path string) (recipe, held holding, err error){
			"Mutex": func(path string) (recipe, held holding, err error) {
				m := NewMutex(c, path, KeepFor(1))
				held, err = m.Lock(t.Context())
				return m, held, err
			},
			"RWLock": func(path string) (recipe, held holding, err error) {
				m := NewRWLock(c, path)
				held, err = m.RLock(t.Context())
				return m, held, err
			},
			"Semaphore": func(path string) (recipe, held holding, err error) {
				x := NewSemaphore(c, path, 1)
				held, err = x.Acquire(t.Context())
				return x, held, err
			},
			"Election": func(path string) (recipe, held holding, err error) {
				e := NewElection(c, path)
				held, err = e.Campaign(t.Context(), nil)
				return e, held, err
			},
			"Queue": func(path string) (recipe, held holding, err error) {
				q := NewQueue(c, path, nil)
				putOn(t, q, "item")
				held, err = q.Take(t.Context())
				return q, held, err
			},
			"DoubleBarrier": func(path string) (recipe, held holding, err error) {
				d := NewDoubleBarrier(c, path, 1)
				held, err = d.Enter(t.Context())
				return d, held, err
			},
		} {
			recipe, held, err := at(path + name)
			require.NoError(t, err, name)
			require.Equal(t, path+name, recipe.Path())
			require.Equal(t, path+name, held.Path())
		}
		require.Equal(t, "/b", NewBarrier(c, "/b", 2).Path())
		require.Equal(t, "/g", NewGate(c, "/g").Path())
		require.Equal(t, "no path", NewQueue(c, "no path", nil).Path(), "it sends nothing, and reports nothing")
		require.Equal(t, "/q-dead", NewQueue(c, "/q", nil).DeadLetters().Path())

		a, b := NewMutex(c, "/z"), NewMutex(c, "/y")
		held, err := LockAll(t.Context(), a, b)
		require.NoError(t, err)
		require.Equal(t, "/z", held.All()[0].Path())
		require.Equal(t, "/y", held.All()[1].Path())
	})
	for _, none := range []interface{ Path() string }{
		(*Mutex)(nil), new(Mutex), (*RWLock)(nil), new(RWLock), (*Gate)(nil), new(Gate), (*Barrier)(nil), new(Barrier),
		(*DoubleBarrier)(nil), new(DoubleBarrier), (*Queue)(nil), new(Queue), (*Semaphore)(nil), new(Semaphore),
		(*Election)(nil), new(Election),
	} {
		require.Empty(t, none.Path())
	}
}
