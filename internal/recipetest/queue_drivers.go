package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// QueueTransactionDrivers put, end, move and remove items, each with one transaction, which is
// carried out once or not at all, whatever is lost.
func QueueTransactionDrivers() []Driver {
	queue := func(c *zkrecipes.Client) *zkrecipes.Queue { return zkrecipes.NewQueue(c, driven, nil) }
	const attempts = 3 // a fault may use up one of them
	strict := func(c *zkrecipes.Client) *zkrecipes.Queue {
		return zkrecipes.NewQueue(c, driven, &zkrecipes.QueueOptions{MaxAttempts: attempts})
	}
	next := func(c *zkrecipes.Client) *zkrecipes.Queue { return zkrecipes.NewQueue(c, "/next", nil) }
	put := func(t testing.TB, c *zkrecipes.Client) { PutOn(t, queue(c), "item") }
	fail := func(t testing.TB, c *zkrecipes.Client) {
		PutOn(t, queue(c), "bad")
		for range attempts {
			NackOn(t, TakeOn(t, queue(c)))
		}
	}
	bury := func(t testing.TB, c *zkrecipes.Client) {
		fail(t, c)
		_, err := strict(c).TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
	}
	// everything drains all queues.
	everything := func(t testing.TB, c *zkrecipes.Client) (all []string) {
		for name, q := range map[string]*zkrecipes.Queue{"": queue(c), "dead ": queue(c).DeadLetters(), "moved ": next(c)} {
			_, err := q.Len(t.Context())
			if errors.Is(err, zkrecipes.ErrUnused) {
				continue
			}
			for _, data := range Drain(t, q) {
				all = append(all, name+data)
			}
		}
		all = append(all, effects(t, c)...)
		slices.Sort(all)
		return all
	}
	// driver is a use that turns the items of the first state into those of the last one.
	driver := func(name string, ready func(testing.TB, *zkrecipes.Client), take func(context.Context, *zkrecipes.Client) (Use, error), states ...string) Driver {
		last := len(states) - 1
		return Driver{
			Name: name, Ready: ready, Take: take, Uncertain: true, Loose: true, Slow: true,
			Stays: []string{"/*/puts/*", "/*/s", "/*/s/*", "/next"},
			Rest: func(t testing.TB, c *zkrecipes.Client, took, gave error) {
				err := took
				if err == nil && gave != errEnough { // Take got something
					err = gave
				}
				got := strings.Join(everything(t, c), ", ")
				switch {
				case err == nil:
					require.Equal(t, states[last], got)
				case errors.Is(err, zkrecipes.ErrUncertain):
					require.Contains(t, states, got)
				default:
					require.Contains(t, states[:last], got, "%v", err)
				}
			},
		}
	}
	// sealing is a use of queues with segments of n creates.
	sealing := func(n int64, d Driver) Driver {
		d.Segment = n
		return d
	}
	call := func(f func(context.Context, *zkrecipes.Client) error) func(context.Context, *zkrecipes.Client) (Use, error) {
		return func(ctx context.Context, c *zkrecipes.Client) (Use, error) { return Use{}, f(ctx, c) }
	}
	taken := func(from func(*zkrecipes.Client) *zkrecipes.Queue, end func(context.Context, *zkrecipes.Client, *zkrecipes.Item) error) func(context.Context, *zkrecipes.Client) (Use, error) {
		return func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
			it, err := from(c).Take(ctx)
			if err != nil {
				return Use{}, err
			}
			return Use{
				Held: it, Token: it.Token(),
				Give: func(ctx context.Context) error { return end(ctx, c, it) },
			}, nil
		}
	}
	return []Driver{
		driver("put without a bound", nil, call(func(ctx context.Context, c *zkrecipes.Client) error {
			_, err := queue(c).Put(ctx, []byte("item"))
			return err
		}), "", "item"),
		sealing(2, driver("put of a batch", nil, call(func(ctx context.Context, c *zkrecipes.Client) error {
			_, err := queue(c).PutAll(ctx, []byte("0"), []byte("1"), []byte("2"))
			return err
		}), "", "0, 1, 2")),
		driver("ack with an operation", put, taken(queue, func(ctx context.Context, c *zkrecipes.Client, it *zkrecipes.Item) error {
			return it.Ack(ctx, zkrecipes.OpCreate("/effect-", nil, zk.FlagSequence, nil))
		}), "item", "effect"),
		sealing(1, driver("ack and put", put, taken(queue, func(ctx context.Context, c *zkrecipes.Client, it *zkrecipes.Item) error {
			_, err := it.AckPut(ctx, next(c), [][]byte{it.Data})
			return err
		}), "item", "moved item")),
		driver("bury and take", func(t testing.TB, c *zkrecipes.Client) {
			fail(t, c)
			PutOn(t, queue(c), "good")
		}, taken(strict, func(ctx context.Context, c *zkrecipes.Client, it *zkrecipes.Item) error {
			return it.Ack(ctx)
		}), "bad, good", "dead bad, good", "dead bad"),
		driver("redrive", bury, call(func(ctx context.Context, c *zkrecipes.Client) error {
			return one(queue(c).Redrive(ctx, 9))
		}), "dead bad", "bad"),
		driver("remove", put, call(func(ctx context.Context, c *zkrecipes.Client) error {
			e, err := peek(ctx, queue(c))
			if err != nil {
				return err
			}
			return queue(c).Remove(ctx, e.ID)
		}), "item", ""),
		driver("burial of a taken item", put, call(func(ctx context.Context, c *zkrecipes.Client) error {
			it, err := queue(c).Take(ctx)
			if err != nil {
				return err
			}
			defer it.Nack(context.WithoutCancel(ctx)) // if it is not buried
			return queue(c).Bury(ctx, it.ID)
		}), "item", "dead item"),
		driver("burial of a free item", put, call(func(ctx context.Context, c *zkrecipes.Client) error {
			e, err := peek(ctx, queue(c))
			if err != nil {
				return err
			}
			return queue(c).Bury(ctx, e.ID)
		}), "item", "dead item"),
		driver("purge", put, call(func(ctx context.Context, c *zkrecipes.Client) error {
			return one(queue(c).Purge(ctx))
		}), "item", ""),
	}
}

// peek returns the first item.
func peek(ctx context.Context, q *zkrecipes.Queue) (zkrecipes.Entry, error) {
	for {
		e, err := q.Peek(ctx)
		if !errors.Is(err, zkrecipes.ErrEmpty) {
			return e, err
		}
		time.Sleep(time.Second) // its server lags
	}
}

// one returns an error unless a call did something once.
func one(n int, err error) error {
	if err == nil && n != 1 {
		return fmt.Errorf("it was done %d times", n)
	}
	return err
}

// effects deletes the znodes that acks have created, and returns a text for each.
func effects(t testing.TB, c *zkrecipes.Client) (all []string) {
	names, _, err := c.Children(t.Context(), "/")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "effect-") {
			all = append(all, "effect")
			_, err := c.Commit(t.Context(), zkrecipes.OpDelete("/"+name, -1))
			require.NoError(t, err)
		}
	}
	return all
}
