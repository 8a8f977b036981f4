package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What can go wrong with Shards.

// farAway returns a client with that latency to the server.
func (w *shardWorld) farAway(latency time.Duration) *zkrecipes.Client {
	link := harness.NewLink(w.Srv)
	link.SetLatency(latency)
	return w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
}

// The pause before a shard is taken again grows from a second, also after it was lost once.
func TestAFunctionThatFailsAfterItsShardWasLostIsCalledAfterAPause(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		var calls atomic.Int32
		serving := harness.GoErr(t, with(w.of(1).Serve, func(ctx context.Context, s *zkrecipes.Shard) error {
			if calls.Add(1) == 1 {
				<-ctx.Done()
				return nil
			}
			time.Sleep(time.Millisecond)
			return errors.New("broken")
		}))
		time.Sleep(time.Second)
		names := w.Srv.Children("/shards/shard-00000")
		require.Len(t, names, 1)
		require.NoError(t, w.Bare().Delete("/shards/shard-00000/"+names[0], -1))
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 6, calls.Load()) // at 0, 1, 3, 7 and 15 s after the loss
		serving.Cancel(nil)
		serving.Get()
	})
}

// Resize changes the number for the value that it was called on, too.
func TestShardsThatHaveResizedServe(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.serves("a", 4)
		time.Sleep(time.Second)
		for _, path := range []string{"/shards", "/unused"} {
			x := zkrecipes.NewShards(w.Stranger(nil), path, 4, nil)
			require.NoError(t, x.Resize(t.Context(), 7))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, x.Serve(ctx, func(ctx context.Context, s *zkrecipes.Shard) error {
				require.Equal(t, 7, s.Count())
				<-ctx.Done()
				return nil
			}))
		}
	})
}

// A caller whose context has ended gets its error, also if another process was quicker meanwhile.
func TestAResizeThatIsOvertakenWhenItsContextHasEndedReturnsItsError(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: 300 * time.Millisecond, Op: "multi(check,setData)"})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: 300 * time.Millisecond, Op: "delete"}) // of its read lease
		resize := harness.GoErr(t, with(w.of(4).Resize, 7))
		time.Sleep(100 * time.Millisecond)
		w.Write("/shards", "zkrecipes/1 shards 5")
		time.Sleep(400 * time.Millisecond)
		resize.Cancel(nil)
		_, err := resize.Wait()
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A process waits for the end of another one with its id, and does not keep a change up meanwhile.
func TestAProcessWhoseIDIsTakenHoldsNoChangeUp(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		opts := &zkrecipes.ShardsOptions{Member: "1"}
		stop := w.process(w.Stranger(nil), "a", 4, opts)
		time.Sleep(time.Second)
		w.process(w.Stranger(nil), "b", 4, opts)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 4})
		require.NoError(t, w.of(4).Resize(harness.Within(t, time.Minute), 5))
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 5})
		require.NoError(t, stop())
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"b": 5})
	})
}

// A process that is not among the members gets no shard, and warns once, until it is among them.
func TestAProcessThatIsNotAmongTheMembersWarns(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		const warning = "a process that serves shards is not among their members"
		const patience = recipetest.DefaultSessionTimeout + 5*time.Second // and Settle
		opts := &zkrecipes.ShardsOptions{Member: "1"}
		stop := w.process(w.Stranger(nil), "a", 4, opts)
		time.Sleep(time.Second)
		var log recipetest.Warnings
		link := harness.NewLink(w.Srv)
		w.process(w.Stranger(&zkrecipes.Options{Logger: log.Logger(), Dialer: link.Dial}), "b", 4, opts)
		time.Sleep(patience - time.Second)
		require.Empty(t, log.With(warning))
		time.Sleep(10 * time.Minute)
		require.Len(t, log.With(warning), 1)

		require.NoError(t, stop()) // b is seen
		time.Sleep(time.Minute)
		stop = w.process(w.Stranger(nil), "a", 4, opts)
		time.Sleep(time.Minute)
		require.Len(t, log.With(warning), 1)
		link.Stop()
		time.Sleep(time.Minute) // a takes the id
		link.Resume()
		time.Sleep(10 * time.Minute)
		require.Len(t, log.With(warning), 2)
		require.Len(t, w.Srv.Children("/shards/shard-00000"), 1) // b does not take a for itself
		require.NoError(t, stop())
	})
}

func TestAProcessWhoseIDAnotherOneGetsGivesItsShardsUp(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		opts := &zkrecipes.ShardsOptions{Member: "1"}
		far := harness.NewLink(w.Srv)
		far.SetLatency(50 * time.Millisecond)
		w.process(w.Stranger(&zkrecipes.Options{Dialer: far.Dial}), "a", 4, opts)
		time.Sleep(5 * time.Second)
		w.process(w.Stranger(nil), "b", 4, opts)
		time.Sleep(5 * time.Second)
		require.NoError(t, w.Bare().Delete("/shards/members/1", -1)) // b is quicker than a to create it
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"b": 4})
		w.serves("c", 4)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"b": 2, "c": 2})
	})
}

func TestServeGoesOnIfItsSessionExpiresWhileAFunctionHoldsAResizeUp(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		a := w.Stranger(nil)
		w.process(a, "a", 6, nil)
		w.serves("b", 6)
		time.Sleep(time.Minute)
		w.hang("a", true)
		x := w.of(6)
		resize := harness.GoErr(t, with(x.Resize, 8))
		time.Sleep(10 * time.Second) // b has given its shards up
		w.Srv.Expire(recipetest.SessionID(a))
		resize.Get()
		time.Sleep(time.Minute)
		all, err := x.Owners(t.Context())
		require.NoError(t, err)
		owned := map[int]bool{}
		for _, o := range all {
			owned[o.Shard] = true
		}
		for number := range 8 {
			require.True(t, owned[number], "shard %d of %v", number, all)
		}
		w.hang("a", false)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 4, "b": 4})
	})
}

// areHeld requires that somebody stands in the line of each of n shards.
func (w *shardWorld) areHeld(n int) {
	w.T.Helper()
	for number := range n {
		require.NotEmpty(w.T, w.Srv.Children(fmt.Sprintf("/shards/shard-%05d", number)), "shard %d", number)
	}
}

// Functions hang that have lost their shards with the session. Another process has these, and does not
// give them back before the functions have returned.
func TestAShardThatAHungFunctionHasLostHasAnotherOwner(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		a := w.Stranger(nil)
		w.process(a, "a", 16, nil)
		w.serves("b", 16)
		time.Sleep(time.Minute)
		w.hang("a", true)
		defer w.hang("a", false)
		w.Srv.Expire(recipetest.SessionID(a))
		time.Sleep(time.Minute)
		w.areHeld(16)
		w.hang("a", false)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 8, "b": 8})
	})
}

// An operator takes a shard from a process whose function hangs.
func TestAShardThatIsEvictedFromAHungFunctionHasAnotherOwner(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		var log recipetest.Warnings
		w.process(w.Stranger(&zkrecipes.Options{Logger: log.Logger()}), "a", 1, nil)
		time.Sleep(time.Minute)
		w.hang("a", true)
		defer w.hang("a", false)
		w.serves("b", 1)
		lock := zkrecipes.NewMutex(w.Stranger(nil), "/shards/shard-00000")
		cs, err := lock.Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.NoError(t, w.Bare().Delete(cs[0].Path, -1))
		time.Sleep(time.Minute)
		require.NotEmpty(t, log.With("the function of a shard that is to be given up has not returned"))
		all, err := w.of(1).Owners(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.NotEqual(t, all[0].Leaves, all[1].Leaves)
		w.areHeld(1)
		w.hang("a", false)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 1})
	})
}

// A function that returns soon takes its shard again: nothing moves.
func TestAShardThatIsEvictedFromAFunctionThatReturnsStays(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.ends = 300 * time.Millisecond
		w.serves("a", 4)
		w.serves("b", 4)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 2, "b": 2})
		for number := range 4 {
			path := fmt.Sprintf("/shards/shard-%05d", number)
			for _, name := range w.Srv.Children(path) {
				require.NoError(t, w.Bare().Delete(path+"/"+name, -1))
			}
			time.Sleep(time.Minute)
		}
		require.Zero(t, w.sharesAre(map[string]int{"a": 2, "b": 2}))
	})
}

func TestAProcessWhoseNumberOfShardsMayChangeWaitsForFunctionsThatHaveTheirShards(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.hang("a", true)
		stop := w.serves("a", 6)
		time.Sleep(10 * time.Second)
		w.serves("b", 6)
		time.Sleep(time.Minute)
		resize := harness.GoErr(t, with(w.of(6).Resize, 8))
		time.Sleep(10 * time.Second)
		number := func(name string) string { return name[len(name)-10:] }
		places := w.Srv.Children("/shards/size")
		first := slices.MinFunc(places, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		require.NoError(t, w.Bare().Delete("/shards/size/"+first, -1)) // an operator evicts the process that holds the change up
		resize.Get()
		time.Sleep(time.Minute)
		require.Equal(t, 6, w.count("a"))
		w.hang("a", false)
		time.Sleep(time.Minute)
		require.Equal(t, 8, w.count("a"))
		require.NoError(t, stop())
	})
}

// Owners does not have it. The others can end meanwhile.
func TestAProcessThatHoldsAResizeUpAfterItHasLeftReadsTheSize(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		a := w.Stranger(&zkrecipes.Options{Identity: "a"})
		stop := w.process(a, "a", 6, nil)
		other := w.serves("b", 6)
		time.Sleep(time.Minute)
		w.hang("a", true)
		leaving := harness.GoErr(t, func(context.Context) error { return stop() })
		time.Sleep(10 * time.Second)
		x := w.of(6)
		resize := harness.GoErr(t, with(x.Resize, 8))
		time.Sleep(time.Minute)
		require.True(t, resize.Waiting())
		all, err := x.Owners(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
		cs, err := zkrecipes.NewRWLock(w.Stranger(nil), "/shards/size").Contenders(t.Context())
		require.NoError(t, err)
		require.True(t, cs[0].Held && cs[0].Reader)
		require.Equal(t, "a", cs[0].Identity)
		require.False(t, cs[1].Held)
		require.NoError(t, other())
		w.hang("a", false)
		resize.Get()
		leaving.Get()
	})
}

// Several changes at once all end, however far away the callers and the processes are.
func TestResizesAtOnceWithDifferentNumbersAllEnd(t *testing.T) {
	for seed := range uint64(30) {
		inShards(t, func(t *testing.T, w *shardWorld) {
			r := rand.New(rand.NewPCG(seed, 1))
			somewhere := func() *zkrecipes.Client { return w.farAway(time.Duration(r.IntN(30_000)) * time.Microsecond) }
			for i := range 1 + r.IntN(4) {
				w.process(somewhere(), fmt.Sprint(i), 4, nil)
			}
			time.Sleep(time.Minute)
			var calls []*harness.Call[struct{}]
			for i := range 2 + r.IntN(4) {
				calls = append(calls, harness.GoErr(t, with(zkrecipes.NewShards(somewhere(), "/shards", 4, nil).Resize, 5+i)))
			}
			time.Sleep(time.Minute)
			for _, a := range calls {
				require.False(t, a.Waiting(), "seed %d", seed)
				a.Get()
			}
			time.Sleep(time.Minute)
			n := 0
			shares, _ := w.shares()
			for _, share := range shares {
				n += share
			}
			require.Contains(t, []int{5, 6, 7, 8, 9}, n)
		})
	}
}

// An operator deletes the path while a process begins.
func TestShardsWhosePathVanishesAreServed(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "getData", Path: "/shards"})
		w.serves("a", 4)
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"a": 4})
		require.Contains(t, w.Plan.String(), "fired 1")
	})
}

// What no Shards has written is not taken for a number, however much it looks like one.
func TestANumberOfShardsThatNobodyCanHaveWrittenIsSomethingElses(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		for i, data := range []string{"zkrecipes/1 shards 100001", "zkrecipes/1 shards 2 to 100001", "zkrecipes/2 shards 2"} {
			path := fmt.Sprint("/used-", i)
			w.Write(path, data)
			x := zkrecipes.NewShards(w.Stranger(nil), path, 2, nil)
			require.ErrorIs(t, x.Serve(t.Context(), func(context.Context, *zkrecipes.Shard) error { return nil }), zkrecipes.ErrPathInUse)
			require.ErrorIs(t, x.Resize(t.Context(), 3), zkrecipes.ErrPathInUse)
		}
	})
}

// oneNumber fails the test if shards of two numbers, or one shard twice, are worked on at a time.
type oneNumber struct {
	t *testing.T

	mu   sync.Mutex
	live map[*zkrecipes.Shard]bool
}

// works returns a function that works until its context ends, and for that long afterwards.
func (o *oneNumber) works(late time.Duration) func(context.Context, *zkrecipes.Shard) error {
	return func(ctx context.Context, s *zkrecipes.Shard) error {
		o.mu.Lock()
		for other := range o.live {
			if other.Err() == nil && s.Err() == nil && (other.Number() == s.Number() || other.Count() != s.Count()) {
				o.t.Errorf("shard %d of %d beside %d of %d", s.Number(), s.Count(), other.Number(), other.Count())
			}
		}
		o.live[s] = true
		o.mu.Unlock()
		<-ctx.Done()
		time.Sleep(late)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.live, s)
		return context.Cause(ctx)
	}
}

func TestShardsOfTwoNumbersAreNeverWorkedOnTogether(t *testing.T) {
	for seed := range uint64(20) {
		inShards(t, func(t *testing.T, w *shardWorld) {
			r := rand.New(rand.NewPCG(seed, 1))
			o := &oneNumber{t: t, live: map[*zkrecipes.Shard]bool{}}
			clients := make([]*zkrecipes.Client, 2+r.IntN(3))
			serving := make([]*harness.Call[struct{}], len(clients))
			for i := range clients {
				clients[i] = w.Stranger(nil)
				x := zkrecipes.NewShards(clients[i], "/shards", 9, &zkrecipes.ShardsOptions{Settle: time.Second})
				serving[i] = harness.GoErr(t, with(x.Serve, o.works(time.Duration(r.IntN(3))*time.Second)))
			}
			time.Sleep(10 * time.Second)
			for _, f := range zktest.PlanFromSeed(seed, 25, 900, 8*time.Second).Faults() {
				if f.Do != zktest.Expire { // an owner learns late that its session was ended
					w.Plan.Add(f)
				}
			}
			for range 8 {
				time.Sleep(time.Duration(r.IntN(9000)) * time.Millisecond)
				c := clients[r.IntN(len(clients))]
				if r.IntN(2) == 0 {
					w.Srv.Disconnect(recipetest.SessionID(c))
					continue
				}
				within, end := context.WithTimeout(t.Context(), time.Duration(r.IntN(20_000))*time.Millisecond)
				_ = zkrecipes.NewShards(c, "/shards", 9, nil).Resize(within, 3+r.IntN(9))
				end()
			}
			w.Plan.Stop()
			time.Sleep(2 * time.Minute)
			o.mu.Lock()
			numbers := map[int]bool{}
			for s := range o.live {
				numbers[s.Number()] = true
				require.Len(t, o.live, s.Count())
			}
			require.Len(t, numbers, len(o.live))
			require.NotEmpty(t, numbers)
			o.mu.Unlock()
			for _, a := range serving {
				a.Cancel(nil)
			}
			for _, a := range serving {
				a.Get()
			}
		}, recipetest.MayLag())
	}
}

func TestAProcessGetsItsShareThoughAnotherComesAndGoesAllTheTime(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.serves("a", 9)
		time.Sleep(10 * time.Second)
		w.serves("b", 9)
		restless := w.Stranger(nil)
		for range 15 {
			stop := w.process(restless, "c", 9, nil)
			time.Sleep(2 * time.Second) // less than Settle
			require.NoError(t, stop())
			time.Sleep(2 * time.Second)
		}
		shares, _ := w.shares()
		require.GreaterOrEqual(t, shares["b"], 3, "%v", shares)
	})
}

// Its server has not seen the last change, so the path seems to hold the number already.
func TestResizeBehindALaggingServerIsNotDoneBeforeItIs(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		x := w.of(4)
		require.NoError(t, x.Resize(t.Context(), 4))
		c := w.Stranger(nil)
		y := zkrecipes.NewShards(c, "/shards", 4, nil)
		require.NoError(t, x.Resize(t.Context(), 7))
		require.NoError(t, y.Resize(t.Context(), 4))
		require.NoError(t, c.Ping(t.Context()))
		data, _, err := c.Get(t.Context(), "/shards")
		require.NoError(t, err)
		require.Equal(t, "zkrecipes/1 shards 4", string(data))
	}, recipetest.Behind(0, 50))
}

func TestAShardsFunctionCannotResize(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		x := w.of(1)
		ctx, end := context.WithCancel(t.Context())
		require.NoError(t, x.Serve(ctx, func(ctx context.Context, _ *zkrecipes.Shard) error {
			defer end()
			err := x.Resize(ctx, 2)
			require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
			require.ErrorContains(t, err, "zkrecipes: resize /shards: ")
			return nil
		}))
		require.Equal(t, "zkrecipes/1 shards 1", w.Text("/shards"), "nothing has changed")
	})
}

// With the longest Settle, shards are given to others as seldom as can be.
func TestTheLongestSettleIsNoShortOne(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.process(w.Stranger(nil), "a", 4, &zkrecipes.ShardsOptions{Settle: math.MaxInt64})
		time.Sleep(10 * time.Second)
		w.process(w.Stranger(nil), "b", 4, &zkrecipes.ShardsOptions{Settle: math.MaxInt64})
		time.Sleep(time.Hour)
		shares, _ := w.shares()
		require.Equal(t, 4, shares["a"])
	})
}
