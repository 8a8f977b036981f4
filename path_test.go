package zkrecipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestEveryRecipeAndEveryHoldingTellsItsPath(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{Prefix: "/prefix"})
		const path = "/some/path"
		type holding interface{ Path() string }
		for name, at := range map[string]func(path string) (recipe, held holding, err error){
			"Mutex": func(path string) (recipe, held holding, err error) {
				m := zkrecipes.NewMutex(c, path, zkrecipes.KeepFor(1))
				held, err = m.Lock(t.Context())
				return m, held, err
			},
			"RWLock": func(path string) (recipe, held holding, err error) {
				m := zkrecipes.NewRWLock(c, path)
				held, err = m.RLock(t.Context())
				return m, held, err
			},
			"Semaphore": func(path string) (recipe, held holding, err error) {
				x := zkrecipes.NewSemaphore(c, path, 1)
				held, err = x.Acquire(t.Context())
				return x, held, err
			},
			"Election": func(path string) (recipe, held holding, err error) {
				e := zkrecipes.NewElection(c, path)
				held, err = e.Campaign(t.Context(), nil)
				return e, held, err
			},
			"Queue": func(path string) (recipe, held holding, err error) {
				q := zkrecipes.NewQueue(c, path, nil)
				recipetest.PutOn(t, q, "item")
				held, err = q.Take(t.Context())
				return q, held, err
			},
			"DoubleBarrier": func(path string) (recipe, held holding, err error) {
				d := zkrecipes.NewDoubleBarrier(c, path, 1)
				held, err = d.Enter(t.Context())
				return d, held, err
			},
		} {
			recipe, held, err := at(path + name)
			require.NoError(t, err, name)
			require.Equal(t, path+name, recipe.Path())
			require.Equal(t, path+name, held.Path())
		}
		require.Equal(t, "/b", zkrecipes.NewBarrier(c, "/b", 2).Path())
		require.Equal(t, "/g", zkrecipes.NewGate(c, "/g").Path())
		require.Equal(t, "no path", zkrecipes.NewQueue(c, "no path", nil).Path(), "it sends nothing, and reports nothing")
		require.Equal(t, "/q-dead", zkrecipes.NewQueue(c, "/q", nil).DeadLetters().Path())

		a, b := zkrecipes.NewMutex(c, "/z"), zkrecipes.NewMutex(c, "/y")
		held, err := zkrecipes.LockAll(t.Context(), a, b)
		require.NoError(t, err)
		require.Equal(t, "/z", held.All()[0].Path())
		require.Equal(t, "/y", held.All()[1].Path())
	})
	for _, none := range []interface{ Path() string }{
		(*zkrecipes.Mutex)(nil), new(zkrecipes.Mutex), (*zkrecipes.RWLock)(nil), new(zkrecipes.RWLock), (*zkrecipes.Gate)(nil), new(zkrecipes.Gate), (*zkrecipes.Barrier)(nil), new(zkrecipes.Barrier),
		(*zkrecipes.DoubleBarrier)(nil), new(zkrecipes.DoubleBarrier), (*zkrecipes.Queue)(nil), new(zkrecipes.Queue), (*zkrecipes.Semaphore)(nil), new(zkrecipes.Semaphore),
		(*zkrecipes.Election)(nil), new(zkrecipes.Election),
	} {
		require.Empty(t, none.Path())
	}
}
