package zkrecipes_test

import (
	"cmp"
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// call is a call that takes a context.
type call = func(context.Context) error

// callWorld is where such a call is made.
type callWorld struct {
	*recipetest.World
	t *testing.T
	// c is the process of the call, and other is another one.
	c, other *zkrecipes.Client
	// by makes the call, on a recipe with that path. If path is empty, the call uses its own.
	by   *zkrecipes.Client
	path string
	// none: the recipe is not made by its constructor: "nil" or "zero".
	none string
}

func newCallWorld(t *testing.T, w *recipetest.World) *callWorld {
	c := w.Client(nil)
	return &callWorld{World: w, t: t, c: c, by: c, other: w.Client(nil)}
}

func (w *callWorld) at(path string) string { return cmp.Or(w.path, path) }

// made returns the recipe of the call.
func made[R any](w *callWorld, r *R) *R {
	switch w.none {
	case "nil":
		return nil
	case "zero":
		return new(R)
	}
	return r
}

// callsWithContext prepare each call in api.txt that takes a context, while all is well. What
// such a call is granted all the same, it gives back. What follows a comma tells several
// entries of one call apart.
var callsWithContext = map[string]func(w *callWorld) call{
	"Dial": func(w *callWorld) call {
		return func(ctx context.Context) error {
			c, err := zkrecipes.Dial(ctx, []string{w.Srv.Addr()}, &zkrecipes.Options{Dialer: w.Srv.DialContext})
			if err == nil {
				go c.Close()
			}
			return err
		}
	},
	"(*Client).Shutdown": func(w *callWorld) call {
		w.lease()
		return w.c.Shutdown
	},
	"(*Client).Ping":     func(w *callWorld) call { return w.c.Ping },
	"(*Client).Get":      func(w *callWorld) call { return on(w.by.Get, w.at("/")) },
	"(*Client).ACL":      func(w *callWorld) call { return get(w.by.ACL, w.at(w.Path)) },
	"(*Client).Exists":   func(w *callWorld) call { return get(w.by.Exists, w.at(w.Path)) },
	"(*Client).Children": func(w *callWorld) call { return on(w.by.Children, w.at("/")) },
	"(*Client).Commit":   func(w *callWorld) call { return commits(w.c.Commit) },
	"(*Client).Recipes": func(w *callWorld) call {
		return each(func(ctx context.Context) iter.Seq2[zkrecipes.Usage, error] { return w.c.Recipes(ctx, "/", nil) })
	},
	"(*Client).Watch": func(w *callWorld) call {
		return each(func(ctx context.Context) iter.Seq2[zkrecipes.Node, error] { return w.by.Watch(ctx, w.at(w.Path)) })
	},
	"(*Client).WatchChildren": func(w *callWorld) call {
		return each(func(ctx context.Context) iter.Seq2[zkrecipes.Children, error] {
			return w.by.WatchChildren(ctx, w.at(w.Path))
		})
	},
	"(*Client).WatchTree": func(w *callWorld) call {
		return each(func(ctx context.Context) iter.Seq2[map[string]zkrecipes.Node, error] {
			return w.by.WatchTree(ctx, w.at(w.Path), nil)
		})
	},
	"(*Client).Evict, a waiter": func(w *callWorld) call {
		w.holds()
		w.LockLater(w.Stranger(nil))
		return w.evicts(w.mutex().Contenders, nil)
	},
	"(*Client).Evict, a leader": func(w *callWorld) call {
		recipetest.Campaigns(w.t, zkrecipes.NewElection(w.other, "/e"), "x")
		return w.evicts(w.election().Contenders, anyway)
	},

	"(*Shards).Serve":   func(w *callWorld) call { return does(w.shards().Serve) },
	"(*Shards).Owners":  func(w *callWorld) call { return errOf(w.shards().Owners) },
	"(*Shards).Watch":   func(w *callWorld) call { return each(w.shards().Watch) },
	"(*Shards).Resize":  func(w *callWorld) call { return with(w.shards().Resize, 3) },
	"(*Shard).Get":      func(w *callWorld) call { return on(w.shard().Get, "/") },
	"(*Shard).Children": func(w *callWorld) call { return on(w.shard().Children, "/") },
	"(*Shard).Commit":   func(w *callWorld) call { return commits(w.shard().Commit) },

	"(*Mutex).Lock": func(w *callWorld) call { return releases(w.mutex().Lock) },
	"(*Mutex).Lock, with a delay": func(w *callWorld) call {
		delayed := zkrecipes.NewMutex(w.other, "/delayed", zkrecipes.LockDelay(time.Minute))
		recipetest.LockOn(w.t, delayed)
		w.Expire(w.other)
		return releases(zkrecipes.NewMutex(w.c, "/delayed", zkrecipes.LockDelay(time.Minute)).Lock)
	},
	"(*Mutex).TryLock": func(w *callWorld) call { return releases(w.mutex().TryLock) },
	"(*Mutex).Do":      func(w *callWorld) call { return does(w.mutex().Do) },
	"(*Mutex).Contenders": func(w *callWorld) call {
		w.holds()
		return errOf(w.mutex().Contenders)
	},
	"(*RWLock).Lock":     func(w *callWorld) call { return releases(w.rwlock().Lock) },
	"(*RWLock).RLock":    func(w *callWorld) call { return releases(w.rwlock().RLock) },
	"(*RWLock).TryLock":  func(w *callWorld) call { return releases(w.rwlock().TryLock) },
	"(*RWLock).TryRLock": func(w *callWorld) call { return releases(w.rwlock().TryRLock) },
	"(*RWLock).Do":       func(w *callWorld) call { return does(w.rwlock().Do) },
	"(*RWLock).RDo":      func(w *callWorld) call { return does(w.rwlock().RDo) },
	"(*RWLock).Contenders": func(w *callWorld) call {
		recipetest.Held(w.t, zkrecipes.NewRWLock(w.other, "/rw").Lock)
		return errOf(w.rwlock().Contenders)
	},
	"(*Lease).Downgrade": func(w *callWorld) call { return recipetest.Held(w.t, w.rwlock().Lock).Downgrade },
	"(*Lease).Get":       func(w *callWorld) call { return on(w.lease().Get, "/") },
	"(*Lease).Children":  func(w *callWorld) call { return on(w.lease().Children, "/") },
	"(*Lease).Commit":    func(w *callWorld) call { return commits(w.lease().Commit) },
	"LockAll":            func(w *callWorld) call { return w.locksAll() },
	"DoAll": func(w *callWorld) call {
		return does(func(ctx context.Context, f func(context.Context, *zkrecipes.Leases) error) error {
			return zkrecipes.DoAll(ctx, recipetest.Mutexes(w.c, "/a", "/b"), f)
		})
	},

	"(*Gate).IsOpen": func(w *callWorld) call { return errOf(w.gate().IsOpen) },
	"(*Gate).Shut":   func(w *callWorld) call { return w.gate().Shut },
	"(*Gate).Open":   func(w *callWorld) call { return w.shut().Open },
	"(*Gate).Wait":   func(w *callWorld) call { return w.shut().Wait },

	"(*Semaphore).Acquire": func(w *callWorld) call { return releases(w.slots(0).Acquire) },
	"(*Semaphore).AcquireN": func(w *callWorld) call {
		x := w.slots(1)
		return func(ctx context.Context) error { return given(x.AcquireN(ctx, 2)) }
	},
	"(*Semaphore).TryAcquire": func(w *callWorld) call { return releases(w.slots(0).TryAcquire) },
	"(*Semaphore).TryAcquireN": func(w *callWorld) call {
		x := w.slots(1)
		return func(ctx context.Context) error { return given(x.TryAcquireN(ctx, 2)) }
	},
	"(*Semaphore).Do":         func(w *callWorld) call { return does(w.slots(0).Do) },
	"(*Semaphore).Contenders": func(w *callWorld) call { return errOf(w.slots(2).Contenders) },
	"(*Semaphore).Size":       func(w *callWorld) call { return errOf(w.slots(2).Size) },
	"(*Semaphore).Resize":     func(w *callWorld) call { return with(w.slots(2).Resize, 5) },
	"(*SlotLease).Get":        func(w *callWorld) call { return on(recipetest.Acquire(w.t, w.slots(0), 1).Get, "/") },
	"(*SlotLease).Children":   func(w *callWorld) call { return on(recipetest.Acquire(w.t, w.slots(0), 1).Children, "/") },
	"(*SlotLease).Commit":     func(w *callWorld) call { return commits(recipetest.Acquire(w.t, w.slots(0), 1).Commit) },

	"(*Election).Campaign": func(w *callWorld) call { return w.campaigns() },
	"(*Election).Lead": func(w *callWorld) call {
		return does(func(ctx context.Context, f func(context.Context, *zkrecipes.Term) error) error {
			return w.election().Lead(ctx, nil, f)
		})
	},
	"(*Election).Contenders": func(w *callWorld) call {
		w.term()
		return errOf(w.election().Contenders)
	},
	"(*Election).Leader": func(w *callWorld) call {
		w.term()
		return errOf(w.election().Leader)
	},
	"(*Election).Observe": func(w *callWorld) call { return each(w.election().Observe) },
	"(*Term).Get":         func(w *callWorld) call { return on(w.term().Get, "/") },
	"(*Term).Children":    func(w *callWorld) call { return on(w.term().Children, "/") },
	"(*Term).Commit":      func(w *callWorld) call { return commits(w.term().Commit) },
	"(*Term).Proclaim":    func(w *callWorld) call { return with(w.term().Proclaim, []byte("y")) },

	"(*Queue).Put": func(w *callWorld) call { return put(w.queue(1)) },
	"(*Queue).PutAll": func(w *callWorld) call {
		q := w.queue(1)
		return func(ctx context.Context) error { _, err := q.PutAll(ctx, []byte("x"), []byte("y")); return err }
	},
	"(*Queue).Take": func(w *callWorld) call { return nacks(w.queue(1).Take) },
	"(*Queue).TakeN": func(w *callWorld) call {
		q := w.queue(3)
		return func(ctx context.Context) error {
			items, err := q.TakeN(ctx, 3)
			for _, it := range items {
				go it.Nack(context.WithoutCancel(ctx))
			}
			return err
		}
	},
	"(*Queue).TryTake":       func(w *callWorld) call { return nacks(w.queue(1).TryTake) },
	"(*Queue).Serve":         func(w *callWorld) call { return serves(w.queue(0)) },
	"(*Queue).Serve, idling": func(w *callWorld) call { return serves(w.queue(1)) },
	"(*Queue).Len":           func(w *callWorld) call { return errOf(w.queue(1).Len) },
	"(*Queue).Peek":          func(w *callWorld) call { return errOf(w.queue(1).Peek) },
	"(*Queue).Purge":         func(w *callWorld) call { return errOf(w.queue(2).Purge) },
	"(*Queue).Items":         func(w *callWorld) call { return each(w.queue(2).Items) },
	"(*Queue).Bury":          func(w *callWorld) call { return with(w.queue(1).Bury, w.put()) },
	"(*Queue).Find":          func(w *callWorld) call { return get(w.queue(1).Find, w.put()) },
	"(*Queue).Remove":        func(w *callWorld) call { return with(w.queue(1).Remove, w.put()) },
	"(*Queue).Redrive": func(w *callWorld) call {
		q := w.queue(1)
		dead := zkrecipes.NewQueue(w.c, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1})
		recipetest.NackOn(w.t, recipetest.TakeOn(w.t, dead))
		require.ErrorIs(w.t, errOf(dead.TryTake)(w.t.Context()), zkrecipes.ErrEmpty)
		return get(q.Redrive, 1)
	},
	"(*Item).Ack": func(w *callWorld) call {
		it := recipetest.TakeOn(w.t, w.queue(1))
		return func(ctx context.Context) error { return it.Ack(ctx) }
	},
	"(*Item).Ack, with operations": func(w *callWorld) call {
		it := recipetest.TakeOn(w.t, w.queue(1))
		return func(ctx context.Context) error { return it.Ack(ctx, zkrecipes.OpCreate("/x", nil, 0, nil)) }
	},
	"(*Item).AckPut": func(w *callWorld) call {
		q := w.queue(1)
		it := recipetest.TakeOn(w.t, q)
		return func(ctx context.Context) error { _, err := it.AckPut(ctx, q, [][]byte{[]byte("y")}); return err }
	},
	"(*Item).Nack": func(w *callWorld) call { return recipetest.TakeOn(w.t, w.queue(1)).Nack },

	"(*Barrier).Wait": func(w *callWorld) call { return errOf(w.barrier().Wait) },
	"(*Barrier).Wait, the last": func(w *callWorld) call {
		recipetest.WaitLater(w.t, zkrecipes.NewBarrier(w.other, "/b", 2))
		return errOf(w.barrier().Wait)
	},
	"(*Barrier).Contenders": func(w *callWorld) call {
		recipetest.WaitLater(w.t, zkrecipes.NewBarrier(w.other, "/b", 2))
		return errOf(w.barrier().Contenders)
	},
	"(*DoubleBarrier).Enter": func(w *callWorld) call { return leaves(w.double().Enter) },
	"(*DoubleBarrier).Enter, the last": func(w *callWorld) call {
		recipetest.EnterLater(w.t, zkrecipes.NewDoubleBarrier(w.other, "/d", 2))
		return leaves(w.double().Enter)
	},
	"(*DoubleBarrier).Contenders": func(w *callWorld) call {
		recipetest.EnterLater(w.t, zkrecipes.NewDoubleBarrier(w.other, "/d", 2))
		return errOf(w.double().Contenders)
	},
	"(*Visit).Leave, the first": func(w *callWorld) call { mine, _ := w.couple(); return mine.Leave },
	"(*Visit).Leave, the last": func(w *callWorld) call {
		mine, others := w.couple()
		go others.Leave(w.t.Context())
		synctest.Wait()
		return mine.Leave
	},
	"(*Visit).Leave, alone": func(w *callWorld) call {
		v, err := zkrecipes.NewDoubleBarrier(w.c, "/d", 1).Enter(w.t.Context())
		require.NoError(w.t, err)
		return v.Leave
	},

	"(*Group).Join": func(w *callWorld) call { return w.joins() },
	"(*Group).Join, of a member that is there": func(w *callWorld) call {
		w.member(w.other)
		return w.joins()
	},
	"(*Group).Join, of a member that is about to leave": func(w *callWorld) call {
		go w.member(w.c).Leave()
		return w.joins()
	},
	"(*Group).Members": func(w *callWorld) call {
		w.member(w.other)
		return errOf(w.group().Members)
	},
	"(*Group).Watch":       func(w *callWorld) call { return each(w.group().Watch) },
	"(*Membership).Update": func(w *callWorld) call { return with(w.member(w.c).Update, []byte("y")) },

	"(*Counter).Add": func(w *callWorld) call { return get(w.counter().Add, 1) },
	"(*Counter).Get": func(w *callWorld) call { return errOf(w.counter().Get) },
	"(*Counter).Set": func(w *callWorld) call { return with(w.counter().Set, 5) },
	"(*Counter).CompareAndSet": func(w *callWorld) call {
		n := w.counter()
		return func(ctx context.Context) error { _, err := n.CompareAndSet(ctx, 3, 5); return err }
	},
}

func (w *callWorld) mutex() *zkrecipes.Mutex {
	return made(w, zkrecipes.NewMutex(w.by, w.at(w.Path)))
}

func (w *callWorld) rwlock() *zkrecipes.RWLock {
	return made(w, zkrecipes.NewRWLock(w.by, w.at("/rw")))
}

func (w *callWorld) election() *zkrecipes.Election {
	return made(w, zkrecipes.NewElection(w.by, w.at("/e")))
}

func (w *callWorld) shards() *zkrecipes.Shards {
	return made(w, zkrecipes.NewShards(w.by, w.at("/shards"), 2, nil))
}

func (w *callWorld) gate() *zkrecipes.Gate { return made(w, zkrecipes.NewGate(w.by, w.at("/gate"))) }

func (w *callWorld) barrier() *zkrecipes.Barrier {
	return made(w, zkrecipes.NewBarrier(w.by, w.at("/b"), 2))
}

func (w *callWorld) double() *zkrecipes.DoubleBarrier {
	return made(w, zkrecipes.NewDoubleBarrier(w.by, w.at("/d"), 2))
}

func (w *callWorld) group() *zkrecipes.Group { return made(w, zkrecipes.NewGroup(w.by, w.at("/g"))) }

func (w *callWorld) holds() { recipetest.LockOn(w.t, zkrecipes.NewMutex(w.other, w.Path)) }

func (w *callWorld) lease() *zkrecipes.Lease { return recipetest.LockOn(w.t, w.mutex()) }

func (w *callWorld) locksAll() call {
	return func(ctx context.Context) error {
		return given(zkrecipes.LockAll(ctx, recipetest.Mutexes(w.c, "/a", "/b")...))
	}
}

func (w *callWorld) campaigns() call {
	return func(ctx context.Context) error {
		term, err := w.election().Campaign(ctx, nil)
		if err == nil {
			go term.Resign()
		}
		return err
	}
}

func (w *callWorld) term() *zkrecipes.Term {
	return recipetest.Campaigns(w.t, zkrecipes.NewElection(w.c, "/e"), "x")
}

// shard returns a shard that w.c has until the test ends.
func (w *callWorld) shard() *zkrecipes.Shard {
	got := make(chan *zkrecipes.Shard, 1)
	go func() {
		_ = zkrecipes.NewShards(w.c, "/shards", 1, nil).Serve(w.t.Context(), func(ctx context.Context, s *zkrecipes.Shard) error {
			got <- s
			<-ctx.Done()
			return nil
		})
	}()
	return <-got
}

func (w *callWorld) shut() *zkrecipes.Gate {
	require.NoError(w.t, zkrecipes.NewGate(w.c, "/gate").Shut(w.t.Context()))
	return w.gate()
}

// slots returns a semaphore of three slots, of which so many are taken.
func (w *callWorld) slots(taken int) *zkrecipes.Semaphore {
	others := zkrecipes.NewSemaphore(w.other, "/s", 3)
	recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, others, 1))
	if taken > 0 {
		recipetest.Acquire(w.t, others, taken)
	}
	return made(w, zkrecipes.NewSemaphore(w.by, w.at("/s"), 3))
}

// queue returns a queue of so many items.
func (w *callWorld) queue(items int) *zkrecipes.Queue {
	recipetest.Warm(w.t, zkrecipes.NewQueue(w.other, "/q", nil))
	for range items {
		recipetest.PutOn(w.t, zkrecipes.NewQueue(w.other, "/q", nil), "x")
	}
	time.Sleep(time.Second) // no place stays in line
	return made(w, zkrecipes.NewQueue(w.by, w.at("/q"), nil))
}

// put puts one more item into the queue.
func (w *callWorld) put() zkrecipes.ItemID {
	return recipetest.PutOn(w.t, zkrecipes.NewQueue(w.c, "/q", nil), "x")[0]
}

// couple returns the visits of both members of a double barrier.
func (w *callWorld) couple() (mine, others *zkrecipes.Visit) {
	a := recipetest.Enter(w.t, w.double())
	others = recipetest.Enter(w.t, zkrecipes.NewDoubleBarrier(w.other, "/d", 2)).Get()
	return a.Get(), others
}

func (w *callWorld) member(c *zkrecipes.Client) *zkrecipes.Membership {
	m, err := zkrecipes.NewGroup(c, "/g").Join(w.t.Context(), nil, zkrecipes.MemberID("me"))
	require.NoError(w.t, err)
	return m
}

func (w *callWorld) joins() call {
	return func(ctx context.Context) error {
		m, err := w.group().Join(ctx, nil, zkrecipes.MemberID("me"))
		if err == nil {
			go m.Leave()
		}
		return err
	}
}

func (w *callWorld) counter() *zkrecipes.Counter {
	recipetest.Count(w.t, zkrecipes.NewCounter(w.c, "/n"), 3)
	return made(w, zkrecipes.NewCounter(w.by, w.at("/n")))
}

// evicts evicts the last one that contenders returns.
func (w *callWorld) evicts(contenders func(context.Context) ([]zkrecipes.Contender, error), opts *zkrecipes.EvictOptions) call {
	cs, err := contenders(w.t.Context())
	require.NoError(w.t, err)
	return func(ctx context.Context) error {
		_, err := w.c.Evict(ctx, cs[len(cs)-1], opts)
		return err
	}
}

// on is a read of a path.
func on[T, U any](read func(context.Context, string) (T, U, error), path string) call {
	return func(ctx context.Context) error { return second(read(ctx, path)) }
}

// with and get are calls with an argument.
func with[A any](call func(context.Context, A) error, arg A) call {
	return func(ctx context.Context) error { return call(ctx, arg) }
}

func get[A, R any](call func(context.Context, A) (R, error), arg A) call {
	return func(ctx context.Context) error { _, err := call(ctx, arg); return err }
}

// each reads all that is yielded.
func each[T any](yields func(context.Context) iter.Seq2[T, error]) call {
	return func(ctx context.Context) error {
		for _, err := range yields(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// given gives back what a call has got.
func given[L interface{ Release() error }](l L, err error) error {
	if err == nil {
		go l.Release()
	}
	return err
}

func releases[L interface{ Release() error }](call func(context.Context) (L, error)) call {
	return func(ctx context.Context) error { return given(call(ctx)) }
}

func leaves(enter func(context.Context) (*zkrecipes.Visit, error)) call {
	return func(ctx context.Context) error {
		v, err := enter(ctx)
		if err == nil {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			go v.Leave(ended)
		}
		return err
	}
}

func nacks(take func(context.Context) (*zkrecipes.Item, error)) call {
	return func(ctx context.Context) error {
		it, err := take(ctx)
		if err == nil {
			go it.Nack(context.WithoutCancel(ctx))
		}
		return err
	}
}

// does runs a function that works until its context ends.
func does[L any](do func(context.Context, func(context.Context, L) error) error) call {
	return func(ctx context.Context) error {
		return do(ctx, func(ctx context.Context, _ L) error { <-ctx.Done(); return nil })
	}
}

func commits(commit func(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error)) call {
	return func(ctx context.Context) error {
		_, err := commit(ctx, zkrecipes.OpCreate("/x", nil, 0, nil))
		return err
	}
}

func put(q *zkrecipes.Queue) call {
	return func(ctx context.Context) error { _, err := q.Put(ctx, []byte("x")); return err }
}

// serves has handlers that work until Serve is stopped.
func serves(q *zkrecipes.Queue) call {
	return func(ctx context.Context) error {
		return q.Serve(ctx, func(context.Context, *zkrecipes.Item) error { <-ctx.Done(); return recipetest.ErrHandler })
	}
}
