package recipetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The drivers of the recipes, for the table of faults. Each uses the path driven.

const driven = "/line"

// leased is the Use of a Lease.
func leased(l *zkrecipes.Lease, err error) (Use, error) {
	if err != nil {
		return Use{}, err
	}
	return Use{
		Held: l, Token: l.Token(), Commit: l.Commit, Places: []string{l.Check().Path},
		Give: func(context.Context) error { return l.Release() },
	}, nil
}

// locked is a Take, or a Rival, of a lock.
func locked(m func(*zkrecipes.Client, string) Locker) func(context.Context, *zkrecipes.Client) (Use, error) {
	return func(ctx context.Context, c *zkrecipes.Client) (Use, error) { return leased(m(c, driven).Lock(ctx)) }
}

// tried is a Try of a lock. It gives back what it gets.
func tried(m func(*zkrecipes.Client, string) Locker) func(context.Context, *zkrecipes.Client) error {
	return func(ctx context.Context, c *zkrecipes.Client) error {
		l, err := m(c, driven).TryLock(ctx)
		if err != nil {
			return err
		}
		return l.Release()
	}
}

// LockDrivers are each side of each lock.
func LockDrivers() (all []Driver) {
	for _, side := range Sides {
		all = append(all, Driver{Name: side.Name, Take: locked(side.Ours), Rival: locked(side.Theirs), Try: tried(side.Theirs), Busy: zkrecipes.ErrLocked})
	}
	return all
}

// KeepDriver is a Mutex that keeps its place between two holds.
func KeepDriver() Driver {
	kept := func(c *zkrecipes.Client, path string) Locker {
		return zkrecipes.NewMutex(c, path, zkrecipes.KeepFor(KeepFor))
	}
	return Driver{Name: "kept mutex", Take: locked(kept), Rival: locked(Mutex), Try: tried(Mutex), Busy: zkrecipes.ErrLocked}
}

// DowngradeDriver is a writer that becomes a reader.
func DowngradeDriver() Driver {
	return Driver{
		Name: "downgraded writer",
		Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
			l, err := zkrecipes.NewRWLock(c, driven).Lock(ctx)
			if err != nil {
				return Use{}, err
			}
			if err := l.Downgrade(ctx); err != nil {
				_ = l.Release()
				return Use{}, err
			}
			u, err := leased(l, nil)
			u.Token = 0 // it tells of the place that l had as a writer
			return u, err
		},
		Rival: locked(Writer), Try: tried(Writer), Busy: zkrecipes.ErrLocked,
		Member: true, // Downgrade
	}
}

// LockAllDriver takes two locks, of which the rival wants the second.
func LockAllDriver() Driver {
	second := func(c *zkrecipes.Client, path string) Locker { return zkrecipes.NewMutex(c, path+"/b") }
	return Driver{
		Name: "LockAll",
		Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
			ls, err := zkrecipes.LockAll(ctx, Mutexes(c, driven+"/a", driven+"/b")...)
			if err != nil {
				return Use{}, err
			}
			var places []string
			for _, l := range ls.All() {
				places = append(places, l.Check().Path)
			}
			return Use{Held: ls, Places: places, Give: func(context.Context) error { return ls.Release() }}, nil
		},
		Rival: locked(second), Try: tried(second), Busy: zkrecipes.ErrLocked,
	}
}

// GateDriver waits at a gate.
func GateDriver() Driver {
	return Driver{
		Name: "gate",
		Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
			return Use{}, zkrecipes.NewGate(c, driven).Wait(ctx)
		},
		Block: func(t testing.TB, c *zkrecipes.Client) func(context.Context) error {
			require.NoError(t, zkrecipes.NewGate(c, driven).Shut(t.Context()))
			return zkrecipes.NewGate(c, driven).Open
		},
	}
}

// SemaphoreDriver takes k of n slots, and so many that it has to wait for them as a rival.
func SemaphoreDriver(name string, n, k int) Driver {
	take := func(k int) func(context.Context, *zkrecipes.Client) (Use, error) {
		return func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
			l, err := zkrecipes.NewSemaphore(c, driven, n).AcquireN(ctx, k)
			if err != nil {
				return Use{}, err
			}
			return Use{
				Held: l, Token: l.Token(), Commit: l.Commit, Places: checked(l.Checks()...),
				Give: func(context.Context) error { return l.Release() },
			}, nil
		}
	}
	return Driver{
		Name: name, Take: take(k), Rival: take(n - k + 1), Busy: zkrecipes.ErrLocked,
		Loose: true, // whether a client stands in line depends on when it asks
		Try: func(ctx context.Context, c *zkrecipes.Client) error {
			l, err := zkrecipes.NewSemaphore(c, driven, n).TryAcquireN(ctx, n-k+1)
			if err != nil {
				return err
			}
			return l.Release()
		},
	}
}

// checked returns the paths of these checks.
func checked(checks ...*zk.CheckVersionRequest) (paths []string) {
	for _, check := range checks {
		paths = append(paths, check.Path)
	}
	return paths
}

// ElectionDriver campaigns.
func ElectionDriver() Driver {
	take := func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
		term, err := zkrecipes.NewElection(c, driven).Campaign(ctx, []byte("value"))
		if err != nil {
			return Use{}, err
		}
		return Use{
			Held: term, Token: term.Token(), Commit: term.Commit, Places: []string{driven + "/leader", term.Checks()[0].Path},
			Give: func(context.Context) error { return term.Resign() },
		}, nil
	}
	return Driver{Name: "campaign", Take: take, Rival: take}
}

// ShardsDriver serves one shard, which the other client waits for.
func ShardsDriver() Driver {
	take := func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
		got, done := make(chan *zkrecipes.Shard, 1), make(chan error, 1)
		serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // until it is given back
		x := zkrecipes.NewShards(c, driven, 1, &zkrecipes.ShardsOptions{Settle: time.Nanosecond})
		go func() {
			done <- x.Serve(serving, func(ctx context.Context, s *zkrecipes.Shard) error {
				got <- s
				<-serving.Done() // a function that does not return keeps its shard
				return nil
			})
		}()
		select {
		case s := <-got:
			give := sync.OnceValue(func() error { // a second Give returns the same, as a Release does
				lost := s.Err()
				stop()
				if err := <-done; err != nil || lost == nil {
					return err
				}
				return lost
			})
			return Use{
				Held: s, Token: s.Token(), Commit: s.Commit, Places: []string{s.Check().Path},
				Give: func(context.Context) error { return give() },
			}, nil
		case err := <-done:
			stop()
			return Use{}, err
		case <-ctx.Done():
			stop()
			if err := <-done; err != nil {
				return Use{}, err
			}
			return Use{}, context.Cause(ctx)
		}
	}
	return Driver{Name: "shards", Take: take, Rival: take, Slow: true, Loose: true}
}

// QueueDrivers take an item and end it in several ways, and put one.
func QueueDrivers() []Driver {
	queue := func(c *zkrecipes.Client) *zkrecipes.Queue { return zkrecipes.NewQueue(c, driven, nil) }
	full := func(c *zkrecipes.Client) *zkrecipes.Queue {
		return zkrecipes.NewQueue(c, driven, &zkrecipes.QueueOptions{MaxLen: 1})
	}
	segments := []string{driven + "/puts/*", driven + "/s", driven + "/s/*"}
	put := func(t testing.TB, c *zkrecipes.Client) { PutOn(t, queue(c), "item") }
	taker := func(name string, end func(*zkrecipes.Item) func(context.Context) error, gone bool) Driver {
		return Driver{
			Name: name, Busy: zkrecipes.ErrEmpty, Uncertain: true, Loose: true, Stays: segments, Ready: put,
			Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
				it, err := queue(c).Take(ctx)
				if err != nil {
					return Use{}, err
				}
				return Use{Held: it, Token: it.Token(), Give: end(it)}, nil
			},
			Try: func(ctx context.Context, c *zkrecipes.Client) error {
				it, err := queue(c).TryTake(ctx)
				switch {
				case err != nil:
					return err
				case string(it.Data) == putAgain:
					return errors.Join(zkrecipes.ErrEmpty, it.Ack(ctx))
				}
				return it.Nack(ctx)
			},
			Block: func(t testing.TB, c *zkrecipes.Client) func(context.Context) error {
				return func(ctx context.Context) error { return putSurely(ctx, queue(c)) }
			},
			Rest: func(t testing.TB, c *zkrecipes.Client, _, gave error) {
				items := Drain(t, queue(c))
				if !gone {
					require.NotEmpty(t, items, "it was given back")
				}
				items = slices.DeleteFunc(items, func(data string) bool { return data == putAgain })
				if gave == nil && gone {
					require.Empty(t, items, "it was acked")
				}
				require.LessOrEqual(t, len(items), 1)
			},
		}
	}
	return []Driver{
		taker("take and ack", func(it *zkrecipes.Item) func(context.Context) error {
			return func(ctx context.Context) error { return it.Ack(ctx) }
		}, true),
		taker("take and nack", func(it *zkrecipes.Item) func(context.Context) error { return it.Nack }, false),
		{
			Name: "put", Uncertain: true, Loose: true, Stays: segments,
			Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
				_, err := full(c).Put(ctx, []byte("item"))
				return Use{}, err
			},
			Block: func(t testing.TB, c *zkrecipes.Client) func(context.Context) error {
				PutOn(t, full(c), "first")
				return func(ctx context.Context) error { return ackSurely(ctx, queue(c)) }
			},
			Rest: func(t testing.TB, c *zkrecipes.Client, took, _ error) {
				items := Drain(t, queue(c))
				switch {
				case took == nil:
					require.Equal(t, []string{"item"}, items)
				case !errors.Is(took, zkrecipes.ErrUncertain):
					require.Empty(t, items)
				}
				require.LessOrEqual(t, len(items), 1)
			},
		},
	}
}

// putAgain is the data of an item that was put since the outcome of the first put is unknown.
const putAgain = "again"

// putSurely puts an item, and another one if it is not certain that the first was put.
func putSurely(ctx context.Context, q *zkrecipes.Queue) error {
	data := "item"
	for {
		_, err := q.Put(ctx, []byte(data))
		if !errors.Is(err, zkrecipes.ErrUncertain) {
			return err
		}
		data = putAgain
	}
}

// ackSurely takes and acks the item that makes others wait.
func ackSurely(ctx context.Context, q *zkrecipes.Queue) error {
	for {
		it, err := q.TryTake(ctx)
		if errors.Is(err, zkrecipes.ErrEmpty) {
			return nil
		}
		switch {
		case err != nil:
		case string(it.Data) == "item": // it was acked although that was not certain
			return it.Nack(ctx)
		default:
			err = it.Ack(ctx)
		}
		if err == nil || !errors.Is(err, zkrecipes.ErrLost) && !errors.Is(err, zkrecipes.ErrUncertain) {
			return err
		}
	}
}

// BarrierDrivers are a member of a round of two and of a double barrier of two.
func BarrierDrivers() []Driver {
	barrier := func(c *zkrecipes.Client) *zkrecipes.Barrier { return zkrecipes.NewBarrier(c, driven, 2) }
	double := func(c *zkrecipes.Client) *zkrecipes.DoubleBarrier { return zkrecipes.NewDoubleBarrier(c, driven, 2) }
	// partner arrives again and again, until it is through or nobody else comes.
	partner := func(arrive func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for {
				err := arrive(ctx)
				if ctx.Err() != nil {
					return nil
				}
				if !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, zkrecipes.ErrLost) {
					return err
				}
			}
		}
	}
	return []Driver{
		{
			Name: "barrier", AlwaysWaits: true, Member: true, Uncertain: true, Loose: true, Slow: true, // the servers are asked how it went
			// The next round deletes one whose last member was lost.
			Stays: []string{driven + "/round", driven + "/round/ready", driven + "/round/ready/*", driven + "/round/ready/*/open"},
			Observe: func() (func(zktest.Change), func(testing.TB)) {
				o := &Observer{Dir: driven + "/round"}
				return o.Note, func(t testing.TB) {
					for _, members := range o.Openings() {
						require.GreaterOrEqual(t, members, 2, "in a round that was opened")
					}
				}
			},
			Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
				_, err := barrier(c).Wait(ctx)
				return Use{}, err
			},
			Block: func(t testing.TB, c *zkrecipes.Client) func(context.Context) error {
				return partner(func(ctx context.Context) error { _, err := barrier(c).Wait(ctx); return err })
			},
		},
		{
			Name: "double barrier", AlwaysWaits: true, Member: true, Loose: true,
			Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
				v, err := double(c).Enter(ctx)
				if err != nil {
					return Use{}, err
				}
				return Use{Held: v, Give: v.Leave}, nil
			},
			Block: func(t testing.TB, c *zkrecipes.Client) func(context.Context) error {
				return partner(func(ctx context.Context) error {
					v, err := double(c).Enter(ctx)
					if err == nil {
						go v.Leave(t.Context())
					}
					return err
				})
			},
		},
	}
}

// GroupDriver joins a group, updates its member and leaves. It waits while another session has
// a member with its id.
func GroupDriver() Driver {
	join := func(ctx context.Context, c *zkrecipes.Client) (*zkrecipes.Membership, error) {
		return zkrecipes.NewGroup(c, driven).Join(ctx, nil, zkrecipes.MemberID("1"))
	}
	return Driver{
		Name: "group", Loose: true, Slow: true, // Leave has no context
		Take: func(ctx context.Context, c *zkrecipes.Client) (Use, error) {
			m, err := join(ctx, c)
			if err != nil {
				return Use{}, err
			}
			return Use{}, errors.Join(m.Update(ctx, []byte("x")), m.Leave())
		},
		Block: func(t testing.TB, c *zkrecipes.Client) func(context.Context) error {
			m, err := join(t.Context(), c)
			require.NoError(t, err)
			return func(context.Context) error { return m.Leave() }
		},
	}
}
