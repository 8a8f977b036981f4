package recipetest

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Recipes are uses of all recipes, by name. Each takes what there is to take at a path, and
// returns how it is given back.
var Recipes = map[string]func(ctx context.Context, c *zkrecipes.Client, path string) (giveBack func() error, err error){
	"mutex": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		return released(zkrecipes.NewMutex(c, path).Lock(ctx))
	},
	"kept mutex": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		return released(zkrecipes.NewMutex(c, path, zkrecipes.KeepFor(time.Second)).Lock(ctx))
	},
	"rwlock": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		return released(zkrecipes.NewRWLock(c, path).RLock(ctx))
	},
	"semaphore": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		return released(zkrecipes.NewSemaphore(c, path, 2).Acquire(ctx))
	},
	"election": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		term, err := zkrecipes.NewElection(c, path).Campaign(ctx, []byte("me"))
		return func() error { return term.Resign() }, err
	},
	"barrier": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		_, err := zkrecipes.NewBarrier(c, path, 1).Wait(ctx)
		return func() error { return nil }, err
	},
	"double barrier": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		v, err := zkrecipes.NewDoubleBarrier(c, path, 1).Enter(ctx)
		return func() error { return v.Leave(ctx) }, err
	},
	"gate": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		g := zkrecipes.NewGate(c, path)
		return func() error { return g.Open(ctx) }, g.Shut(ctx)
	},
	"counter": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		_, err := zkrecipes.NewCounter(c, path).Add(ctx, 1)
		return func() error { return nil }, err
	},
	"group": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		m, err := zkrecipes.NewGroup(c, path).Join(ctx, nil)
		return func() error { return m.Leave() }, err
	},
	"queue": func(ctx context.Context, c *zkrecipes.Client, path string) (func() error, error) {
		q := zkrecipes.NewQueue(c, path, &zkrecipes.QueueOptions{MaxLen: 5})
		_, err := q.Put(ctx, []byte("item"))
		if err != nil {
			return nil, err
		}
		it, err := q.Take(ctx)
		return func() error { return it.Ack(ctx) }, err
	},
}

func released[L interface{ Release() error }](l L, err error) (func() error, error) {
	return func() error { return l.Release() }, err
}

// UseOnce uses a recipe and gives back what it got.
func UseOnce(ctx context.Context, recipe string, c *zkrecipes.Client, path string) error {
	giveBack, err := Recipes[recipe](ctx, c, path)
	if err != nil {
		return err
	}
	return giveBack()
}
