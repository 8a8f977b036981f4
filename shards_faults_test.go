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

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What can go wrong with Shards.

// farAway returns a client with that latency to the server.
func farAway(w *recipetest.World, latency time.Duration) *zkrecipes.Client {
	link := harness.NewLink(w.Srv)
	link.SetLatency(latency)
	return w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
}

// The pause before a shard is taken again grows from a second, also after it was lost once.
func TestAFunctionThatFailsAfterItsShardWasLostIsCalledAfterAPause(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		calls := 0
		done := make(chan error, 1)
		go func() {
			done <- zkrecipes.NewShards(w.Stranger(nil), "/shards", 1, nil).Serve(ctx, func(ctx context.Context, s *zkrecipes.Shard) error {
				mu.Lock()
				calls++
				first := calls == 1
				mu.Unlock()
				if first {
					<-ctx.Done()
					return nil
				}
				time.Sleep(time.Millisecond)
				return errors.New("broken")
			})
		}()
		time.Sleep(time.Second)
		operator := w.Bare()
		names := w.Srv.Children("/shards/shard-00000")
		require.Len(t, names, 1)
		require.NoError(t, operator.Delete("/shards/shard-00000/"+names[0], -1))
		time.Sleep(20 * time.Second)
		mu.Lock()
		require.Equal(t, 6, calls) // at 0, 1, 3, 7 and 15 s after the loss
		mu.Unlock()
		cancel()
		require.NoError(t, <-done)
	})
}

// All processes try to carry a change out. Those that were too late go on, however far away they are.
func TestResizeWhileSomeProcessesAreFarAway(t *testing.T) {
	for _, far := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(far.String(), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				j := newShardJudge(t)
				j.process(farAway(w, far), "a", 6, nil)
				j.process(farAway(w, far), "b", 6, nil)
				j.process(farAway(w, time.Millisecond), "c", 6, nil)
				j.process(farAway(w, 5*time.Millisecond), "d", 6, nil)
				time.Sleep(time.Minute)
				x := zkrecipes.NewShards(farAway(w, 3*time.Millisecond), "/shards", 6, nil)
				for _, n := range []int{8, 5, 12} {
					j.hang("c", true) // so it is the last one in line
					time.AfterFunc(5*time.Second, func() { j.hang("c", false) })
					require.NoError(t, x.Resize(harness.Within(t, time.Minute), n))
					time.Sleep(time.Minute)
					shares, _ := j.shares()
					require.Equal(t, n, shares["a"]+shares["b"]+shares["c"]+shares["d"])
				}
			})
		})
	}
}

// Resize changes the number for the value that it was called on, too.
func TestShardsThatHaveResizedServe(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		j.process(w.Stranger(nil), "a", 4, nil)
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: 300 * time.Millisecond, Op: "multi(check,setData)"})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: 300 * time.Millisecond, Op: "delete"}) // of its read lease
		x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 4, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- x.Resize(ctx, 7) }()
		time.Sleep(100 * time.Millisecond)
		_, err := w.Bare().Set("/shards", []byte("zkrecipes/1 shards 5"), -1)
		require.NoError(t, err)
		time.Sleep(400 * time.Millisecond)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// A process waits for the end of another one with its id, and does not keep a change up meanwhile.
func TestAProcessWhoseIDIsTakenHoldsNoChangeUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		opts := &zkrecipes.ShardsOptions{Member: "1"}
		stop := j.process(w.Stranger(nil), "a", 4, opts)
		time.Sleep(time.Second)
		j.process(w.Stranger(nil), "b", 4, opts)
		time.Sleep(time.Minute)
		shares, _ := j.shares()
		require.Equal(t, map[string]int{"a": 4}, shares)
		require.NoError(t, zkrecipes.NewShards(w.Stranger(nil), "/shards", 4, nil).Resize(harness.Within(t, time.Minute), 5))
		time.Sleep(time.Minute)
		shares, _ = j.shares()
		require.Equal(t, map[string]int{"a": 5}, shares)
		require.NoError(t, stop())
		time.Sleep(time.Minute)
		shares, _ = j.shares()
		require.Equal(t, map[string]int{"b": 5}, shares)
	})
}

// A process that is not among the members gets no shard, and warns once, until it is among them.
func TestAProcessThatIsNotAmongTheMembersWarns(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const warning = "a process that serves shards is not among their members"
		const patience = recipetest.DefaultSessionTimeout + 5*time.Second // and Settle
		j := newShardJudge(t)
		opts := &zkrecipes.ShardsOptions{Member: "1"}
		stop := j.process(w.Stranger(nil), "a", 4, opts)
		time.Sleep(time.Second)
		var log recipetest.Warnings
		link := harness.NewLink(w.Srv)
		j.process(w.Stranger(&zkrecipes.Options{Logger: log.Logger(), Dialer: link.Dial}), "b", 4, opts)
		time.Sleep(patience - time.Second)
		require.Empty(t, log.With(warning))
		time.Sleep(10 * time.Minute)
		require.Len(t, log.With(warning), 1)

		require.NoError(t, stop()) // b is seen
		time.Sleep(time.Minute)
		stop = j.process(w.Stranger(nil), "a", 4, opts)
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		opts := &zkrecipes.ShardsOptions{Member: "1"}
		far := harness.NewLink(w.Srv)
		far.SetLatency(50 * time.Millisecond)
		j.process(w.Stranger(&zkrecipes.Options{Dialer: far.Dial}), "a", 4, opts)
		time.Sleep(5 * time.Second)
		j.process(w.Stranger(nil), "b", 4, opts)
		time.Sleep(5 * time.Second)
		require.NoError(t, w.Bare().Delete("/shards/members/1", -1)) // b is quicker than a to create it
		time.Sleep(time.Minute)
		shares, _ := j.shares()
		require.Equal(t, map[string]int{"b": 4}, shares)
		j.process(w.Stranger(nil), "c", 4, nil)
		time.Sleep(time.Minute)
		shares, _ = j.shares()
		require.Equal(t, map[string]int{"b": 2, "c": 2}, shares)
	})
}

func TestServeGoesOnIfItsSessionExpiresWhileAFunctionHoldsAResizeUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		a := w.Stranger(nil)
		j.process(a, "a", 6, nil)
		j.process(w.Stranger(nil), "b", 6, nil)
		time.Sleep(time.Minute)
		j.hang("a", true)
		x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 6, nil)
		resize := harness.Go(t, func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Resize(ctx, 8) })
		time.Sleep(10 * time.Second) // b has given its shards up
		w.Srv.Expire(recipetest.SessionID(a))
		_, err := resize.Wait()
		require.NoError(t, err)
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
		j.hang("a", false)
		time.Sleep(time.Minute)
		shares, _ := j.shares()
		require.Equal(t, map[string]int{"a": 4, "b": 4}, shares)
	})
}

func TestAProcessWhoseNumberOfShardsMayChangeWaitsForFunctionsThatHaveTheirShards(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var hangs atomic.Bool
		var after atomic.Int32
		hangs.Store(true)
		j := newShardJudge(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := harness.Go(t, func(context.Context) (struct{}, error) {
			x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 6, nil)
			return struct{}{}, x.Serve(ctx, func(ctx context.Context, s *zkrecipes.Shard) error {
				if s.Count() == 8 {
					after.Add(1)
				}
				<-ctx.Done()
				for hangs.Load() {
					time.Sleep(time.Second)
				}
				return nil
			})
		})
		time.Sleep(10 * time.Second)
		j.process(w.Stranger(nil), "b", 6, nil)
		time.Sleep(time.Minute)
		x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 6, nil)
		resize := harness.Go(t, func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Resize(ctx, 8) })
		time.Sleep(10 * time.Second)
		number := func(name string) string { return name[len(name)-10:] }
		places := w.Srv.Children("/shards/size")
		first := slices.MinFunc(places, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		require.NoError(t, w.Bare().Delete("/shards/size/"+first, -1)) // an operator evicts the process that holds the change up
		_, err := resize.Wait()
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Zero(t, after.Load())
		hangs.Store(false)
		time.Sleep(time.Minute)
		require.NotZero(t, after.Load())
		cancel()
		_, err = a.Wait()
		require.NoError(t, err)
	})
}

// Whatever becomes of one of its requests, or of its session then, a newcomer gets its share.
func TestANewcomerGetsItsShareWhicheverRequestFails(t *testing.T) {
	for _, f := range []zktest.Fault{
		{Do: zktest.Drop}, {Do: zktest.Drop, After: true}, {Do: zktest.Withhold, After: true},
		{Do: zktest.Expire}, {Do: zktest.Expire, After: true}, {Do: zktest.Answer, Code: jute.ErrOperationTimeout, After: true},
	} {
		for fired := true; fired && !t.Failed(); f.Skip++ {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				j := newShardJudge(t)
				for _, name := range []string{"a", "b"} {
					j.process(w.Stranger(nil), name, 6, &zkrecipes.ShardsOptions{Settle: time.Second})
				}
				time.Sleep(10 * time.Second)
				c := w.Stranger(nil)
				w.Plan.Add(f)
				j.process(c, "c", 6, &zkrecipes.ShardsOptions{Settle: time.Second})
				time.Sleep(10 * time.Second)
				fired = strings.Contains(w.Plan.String(), "fired 1")
				w.Plan.Stop()
				time.Sleep(time.Minute)
				shares, _ := j.shares()
				require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 2}, shares, "%v:\n%s", f, w.Srv.Tree())
			})
		}
		require.Greater(t, f.Skip, 20, "requests of %v", f)
	}
}

// Several changes at once all end, however far away the callers and the processes are.
func TestResizesAtOnceWithDifferentNumbersAllEnd(t *testing.T) {
	for seed := range uint64(30) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			r := rand.New(rand.NewPCG(seed, 1))
			somewhere := func() *zkrecipes.Client { return farAway(w, time.Duration(r.IntN(30_000))*time.Microsecond) }
			j := newShardJudge(t)
			for i := range 1 + r.IntN(4) {
				j.process(somewhere(), fmt.Sprint(i), 4, nil)
			}
			time.Sleep(time.Minute)
			done := make(chan error)
			calls := 2 + r.IntN(4)
			for i := range calls {
				x := zkrecipes.NewShards(somewhere(), "/shards", 4, nil)
				go func() { done <- x.Resize(t.Context(), 5+i) }()
			}
			late := time.After(time.Minute)
			for range calls {
				select {
				case err := <-done:
					require.NoError(t, err)
				case <-late:
					require.FailNow(t, "Resize has not ended", "seed %d", seed)
				}
			}
			time.Sleep(time.Minute)
			n := 0
			shares, _ := j.shares()
			for _, share := range shares {
				n += share
			}
			require.Contains(t, []int{5, 6, 7, 8, 9}, n)
		})
	}
}

// An operator deletes the path while a process begins.
func TestShardsWhosePathVanishesAreServed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "getData", Path: "/shards"})
		j.process(w.Stranger(nil), "a", 4, nil)
		time.Sleep(time.Minute)
		shares, _ := j.shares()
		require.Equal(t, map[string]int{"a": 4}, shares)
		require.Contains(t, w.Plan.String(), "fired 1")
	})
}

// What no Shards has written is not taken for a number, however much it looks like one.
func TestANumberOfShardsThatNobodyCanHaveWrittenIsSomethingElses(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for i, data := range []string{"zkrecipes/1 shards 100001", "zkrecipes/1 shards 2 to 100001", "zkrecipes/2 shards 2"} {
			path := fmt.Sprint("/used-", i)
			_, err := w.Bare().Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			x := zkrecipes.NewShards(w.Stranger(nil), path, 2, nil)
			require.ErrorIs(t, x.Serve(t.Context(), func(context.Context, *zkrecipes.Shard) error { return nil }), zkrecipes.ErrPathInUse)
			require.ErrorIs(t, x.Resize(t.Context(), 3), zkrecipes.ErrPathInUse)
		}
	})
}

// At whatever moment the caller, a Shutdown or a Close ends Serve, or the session ends: Serve ends,
// or goes on, and nothing is left.
func TestServeOfShardsEndsAtAnyMoment(t *testing.T) {
	ends := map[string]func(t *testing.T, w *recipetest.World, c *zkrecipes.Client, cancel func()) (want error){
		"cancel": func(_ *testing.T, _ *recipetest.World, _ *zkrecipes.Client, cancel func()) error {
			cancel()
			return nil
		},
		"shutdown": func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client, _ func()) error {
			require.NoError(t, c.Shutdown(harness.Within(t, time.Minute)))
			return zkrecipes.ErrClosed
		},
		"close": func(t *testing.T, _ *recipetest.World, c *zkrecipes.Client, _ func()) error {
			require.NoError(t, c.Close())
			return zkrecipes.ErrClosed
		},
		"expire": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client, cancel func()) error {
			w.Srv.Expire(recipetest.SessionID(c))
			time.Sleep(time.Minute)
			owned, err := zkrecipes.NewShards(c, "/shards", 3, nil).Owners(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(owned), 3)
			require.True(t, slices.ContainsFunc(owned, func(o zkrecipes.Owner) bool { return o.Member != owned[0].Member }))
			cancel()
			return nil
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for _, resize := range []bool{false, true} {
				for i := range 20 {
					after := 3 * i
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						j := newShardJudge(t)
						other := j.process(farAway(w, time.Millisecond), "other", 3, nil)
						time.Sleep(time.Second)
						c := farAway(w, 5*time.Millisecond)
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						done := make(chan error, 1)
						go func() {
							done <- zkrecipes.NewShards(c, "/shards", 3, &zkrecipes.ShardsOptions{Settle: 100 * time.Millisecond}).Serve(ctx, j.works("c"))
						}()
						if resize && (name != "expire" || after >= 20) { // it has used the path before
							go func() {
								time.Sleep(200 * time.Millisecond)
								_ = zkrecipes.NewShards(farAway(w, time.Millisecond), "/shards", 3, nil).Resize(t.Context(), 3+after%2)
							}()
						}
						time.Sleep(time.Duration(7*after) * time.Millisecond)
						want := end(t, w, c, cancel)
						select {
						case err := <-done:
							if want == nil {
								require.NoError(t, err)
							} else {
								require.ErrorIs(t, err, want)
							}
						case <-time.After(time.Minute):
							require.Fail(t, "Serve has not ended", "after %d", after)
						}
						time.Sleep(time.Minute)
						shares, _ := j.shares()
						require.GreaterOrEqual(t, shares["other"], 3)
						require.Zero(t, shares["c"])
						require.NoError(t, other())
						time.Sleep(time.Second)
						require.NotContains(t, w.Srv.Tree(), "owner=")
						require.NotContains(t, w.Srv.Tree(), "ephemeral")
					})
				}
			}
		})
	}
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
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			r := rand.New(rand.NewPCG(seed, 1))
			o := &oneNumber{t: t, live: map[*zkrecipes.Shard]bool{}}
			ctx, cancel := context.WithCancel(t.Context())
			clients, done := make([]*zkrecipes.Client, 2+r.IntN(3)), make(chan error)
			for i := range clients {
				clients[i] = w.Stranger(nil)
				x := zkrecipes.NewShards(clients[i], "/shards", 9, &zkrecipes.ShardsOptions{Settle: time.Second})
				f := o.works(time.Duration(r.IntN(3)) * time.Second)
				go func() { done <- x.Serve(ctx, f) }()
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
			cancel()
			for range clients {
				require.NoError(t, <-done)
			}
		}, recipetest.MayLag())
	}
}

func TestAProcessGetsItsShareThoughAnotherComesAndGoesAllTheTime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		j.process(w.Stranger(nil), "a", 9, nil)
		time.Sleep(10 * time.Second)
		j.process(w.Stranger(nil), "b", 9, nil)
		restless := w.Stranger(nil)
		for range 15 {
			stop := j.process(restless, "c", 9, nil)
			time.Sleep(2 * time.Second) // less than Settle
			require.NoError(t, stop())
			time.Sleep(2 * time.Second)
		}
		shares, _ := j.shares()
		require.GreaterOrEqual(t, shares["b"], 3, "%v", shares)
	})
}

// Its server has not seen the last change, so the path seems to hold the number already.
func TestResizeBehindALaggingServerIsNotDoneBeforeItIs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 4, nil)
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 1, nil)
		ctx, end := context.WithCancel(t.Context())
		require.NoError(t, x.Serve(ctx, func(ctx context.Context, _ *zkrecipes.Shard) error {
			defer end()
			err := x.Resize(ctx, 2)
			require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
			require.ErrorContains(t, err, "zkrecipes: resize /shards: ")
			return nil
		}))
		data, _, err := w.Bare().Get("/shards")
		require.NoError(t, err)
		require.Equal(t, "zkrecipes/1 shards 1", string(data), "nothing has changed")
	})
}

// With the longest Settle, shards are given to others as seldom as can be.
func TestTheLongestSettleIsNoShortOne(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		j.process(w.Stranger(nil), "a", 4, &zkrecipes.ShardsOptions{Settle: math.MaxInt64})
		time.Sleep(10 * time.Second)
		j.process(w.Stranger(nil), "b", 4, &zkrecipes.ShardsOptions{Settle: math.MaxInt64})
		time.Sleep(time.Hour)
		shares, _ := j.shares()
		require.Equal(t, 4, shares["a"])
	})
}
