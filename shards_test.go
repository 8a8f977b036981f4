package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What the documentation of Shards promises.

// shardWorld has processes that serve the shards at /shards. It sees who works on which shard, and
// fails the test if a token does not grow.
type shardWorld struct {
	*recipetest.World

	mu     sync.Mutex
	owner  map[int]string
	tokens map[int]zkrecipes.Token
	moves  int // from one process to another
	last   map[int]string
	hangs  map[string]bool // processes whose functions do not return
	ends   time.Duration   // how long functions take to return
	counts map[string]int  // how many shards there were when a process began to work on one last
}

func inShards(t *testing.T, f func(t *testing.T, w *shardWorld), opts ...zktest.Option) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		f(t, &shardWorld{
			World: w, owner: map[int]string{}, tokens: map[int]zkrecipes.Token{}, last: map[int]string{},
			hangs: map[string]bool{}, counts: map[string]int{},
		})
	}, opts...)
}

// works is the function of a process with that name: it works until its context ends.
func (w *shardWorld) works(name string) func(context.Context, *zkrecipes.Shard) error {
	return func(ctx context.Context, s *zkrecipes.Shard) error {
		w.begin(name, s)
		<-ctx.Done()
		time.Sleep(w.ends)
		for w.isHung(name) {
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.owner[s.Number()] == name {
			delete(w.owner, s.Number())
		}
		return context.Cause(ctx)
	}
}

func (w *shardWorld) begin(name string, s *zkrecipes.Shard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := s.Number()
	if s.Err() == nil {
		if s.Token() <= w.tokens[n] {
			w.T.Errorf("shard %d: token %d of %s after %d of %s", n, s.Token(), name, w.tokens[n], w.last[n])
		}
		w.tokens[n] = s.Token()
	}
	if last := w.last[n]; last != "" && last != name {
		w.moves++
	}
	w.owner[n], w.last[n], w.counts[name] = name, name, s.Count()
}

// hang says whether functions of the process do not return.
func (w *shardWorld) hang(name string, hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs[name] = hangs
}

func (w *shardWorld) isHung(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hangs[name]
}

// count returns how many shards there were when the process began to work on one last.
func (w *shardWorld) count(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[name]
}

// shares returns how many shards each process works on, and forgets the moves so far.
func (w *shardWorld) shares() (shares map[string]int, moves int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	shares = map[string]int{}
	for _, name := range w.owner {
		shares[name]++
	}
	moves, w.moves = w.moves, 0
	return shares, moves
}

// of returns the shards, of which it says that there are n, in a session of its own.
func (w *shardWorld) of(n int) *zkrecipes.Shards {
	return zkrecipes.NewShards(w.Stranger(nil), "/shards", n, nil)
}

// serves has a new session serve shards like process.
func (w *shardWorld) serves(name string, n int) (stop func() error) {
	return w.process(w.Stranger(nil), name, n, nil)
}

// sharesAre requires that processes work on so many shards, and returns the moves so far, which it
// forgets.
func (w *shardWorld) sharesAre(want map[string]int) (moves int) {
	w.T.Helper()
	shares, moves := w.shares()
	require.Equal(w.T, want, shares)
	return moves
}

// process serves shards until stop is called, which waits for it.
func (w *shardWorld) process(c *zkrecipes.Client, name string, n int, opts *zkrecipes.ShardsOptions) (stop func() error) {
	ctx, cancel := context.WithCancel(w.T.Context())
	done := make(chan error, 1)
	go func() {
		err := zkrecipes.NewShards(c, "/shards", n, opts).Serve(ctx, w.works(name))
		if ctx.Err() == nil {
			w.T.Errorf("%s has ended: %v", name, err)
		}
		done <- err
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	w.T.Cleanup(func() { _ = stop() })
	return stop
}

func TestShardsAreSharedOutEvenlyAndFewMove(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		stopA := w.serves("a", 16)
		time.Sleep(time.Second)
		require.Zero(t, w.sharesAre(map[string]int{"a": 16}))

		// A shard is given to a newcomer once the members have settled.
		b := w.Stranger(nil)
		stopB := w.process(b, "b", 16, nil)
		time.Sleep(4 * time.Second)
		w.sharesAre(map[string]int{"a": 16})
		time.Sleep(2 * time.Second)
		require.Equal(t, 8, w.sharesAre(map[string]int{"a": 8, "b": 8}))

		w.serves("c", 16)
		time.Sleep(10 * time.Second)
		require.Equal(t, 5, w.sharesAre(map[string]int{"a": 6, "b": 5, "c": 5}))

		all, err := zkrecipes.NewShards(b, "/shards", 16, nil).Owners(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 16)
		for i, o := range all {
			require.Equal(t, i, o.Shard)
			require.NotEmpty(t, o.Member)
			require.False(t, o.Leaves)
		}

		// What nobody has is taken at once, and nothing else moves.
		require.NoError(t, stopA())
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, 6, w.sharesAre(map[string]int{"b": 8, "c": 8}))
		w.Srv.Expire(recipetest.SessionID(b))
		time.Sleep(time.Minute)
		w.sharesAre(map[string]int{"b": 8, "c": 8})
		require.NoError(t, stopB())
	})
}

func TestAShardWhoseFunctionDoesNotReturnStays(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		var log recipetest.Warnings
		a := w.Stranger(&zkrecipes.Options{Logger: log.Logger()})
		w.hang("a", true)
		w.process(a, "a", 4, nil)
		time.Sleep(time.Second)
		w.serves("b", 4)
		time.Sleep(20 * time.Second)
		require.Zero(t, w.sharesAre(map[string]int{"a": 4}))
		all, err := zkrecipes.NewShards(a, "/shards", 4, nil).Owners(t.Context())
		require.NoError(t, err)
		leaving := 0
		for _, o := range all {
			if o.Leaves {
				leaving++
			}
		}
		require.Equal(t, 2, leaving)
		require.Contains(t, log.String(), "the function of a shard that is to be given up has not returned")
		w.hang("a", false)
		time.Sleep(2 * time.Second)
		require.Equal(t, 2, w.sharesAre(map[string]int{"a": 2, "b": 2}))
	})
}

// ErrClosed is no other error, if it is another Client's.
func TestAFunctionThatFailsIsCalledAgainAndOthersGoOn(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		var calls [4]atomic.Int32
		serving := harness.GoErr(t, with(w.of(4).Serve, func(ctx context.Context, s *zkrecipes.Shard) error {
			calls[s.Number()].Add(1)
			switch s.Number() {
			case 0:
				return errors.New("broken")
			case 1:
				return zkrecipes.ErrClosed
			case 2:
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		for number, want := range []int{6, 6, 6, 1} { // after 1, 2, 4, 8, 16 s
			require.EqualValues(t, want, calls[number].Load())
		}
		serving.Cancel(nil)
		serving.Get()
	})
}

func TestARollingRestartMovesShardsOnceAtMostTwice(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		stops := make([]func() error, 5)
		for i := range stops {
			stops[i] = w.serves(fmt.Sprint(i), 100)
		}
		time.Sleep(time.Minute)
		w.shares()
		for i := range stops { // each is away for 2 s, and back for 1 s when the next one goes
			require.NoError(t, stops[i]())
			time.Sleep(2 * time.Second)
			stops[i] = w.serves(fmt.Sprint(i), 100)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		shares, moves := w.shares()
		require.Equal(t, map[string]int{"0": 20, "1": 20, "2": 20, "3": 20, "4": 20}, shares)
		t.Logf("%d moves", moves)
		require.LessOrEqual(t, moves, 200)
	})
}

func TestResizeOfShards(t *testing.T) {
	inShards(t, func(t *testing.T, w *shardWorld) {
		w.serves("a", 4)
		w.serves("b", 4)
		time.Sleep(time.Minute)
		x := w.of(7)
		err := x.Serve(t.Context(), w.works("x"))
		require.ErrorIs(t, err, zkrecipes.ErrSize)
		require.EqualError(t, err, "zkrecipes: serve shards of /shards: wrong size: there are 4 shards, and 7 are used")
		require.NoError(t, x.Resize(t.Context(), 7))
		require.NoError(t, x.Resize(t.Context(), 7), "it is so already")
		time.Sleep(time.Minute)
		shares, _ := w.shares()
		require.Equal(t, 7, shares["a"]+shares["b"])
		require.Less(t, shares["a"]-shares["b"], 2)
		require.Less(t, shares["b"]-shares["a"], 2)

		// A function that does not return holds the change up, and nobody works meanwhile on others.
		w.hang("a", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, x.Resize(ctx, 3), context.DeadlineExceeded)
		shares, _ = w.shares()
		require.Zero(t, shares["b"])
		w.hang("a", false)
		time.Sleep(time.Minute)
		shares, _ = w.shares()
		require.Equal(t, 3, shares["a"]+shares["b"], "they carry it out without the caller")
	})
}

// What fails is a lock, a group or a read below the path.
func TestErrorsOfShardsNameTheirPath(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, ctx := zkrecipes.NewShards(w.Stranger(nil), "/s", 3, nil), harness.Within(t, time.Minute)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Path: "/s*", Times: -1})
		for op, call := range map[string]func() error{
			"serve shards of": func() error {
				return x.Serve(ctx, func(context.Context, *zkrecipes.Shard) error { return nil })
			},
			"list owners of": func() error { return errOf(x.Owners)(ctx) },
			"watch owners of": func() (err error) {
				for _, err = range x.Watch(ctx) {
					break
				}
				return err
			},
			"resize": func() error { return x.Resize(ctx, 4) },
		} {
			err := call()
			require.ErrorIs(t, err, zk.ErrNoAuth, op)
			var failed *zkrecipes.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, []string{op, x.Path()}, []string{failed.Op, failed.Path})
			require.Equal(t, 1, strings.Count(err.Error(), "zkrecipes: "), err.Error())
		}
	})
}

func TestShardsRefuseWhatIsInvalid(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		nothing := func(context.Context, *zkrecipes.Shard) error { return nil }
		for want, x := range map[string]*zkrecipes.Shards{
			"zkrecipes: serve shards of /x: n is 0 shards: must be from 1 to 100000":         zkrecipes.NewShards(c, "/x", 0, nil),
			`zkrecipes: serve shards of /x: ShardsOptions.Member: the id "a/b" contains "/"`: zkrecipes.NewShards(c, "/x", 1, &zkrecipes.ShardsOptions{Member: "a/b"}),
			"zkrecipes: serve shards of /x: ShardsOptions.Settle must not be negative: -1ns": zkrecipes.NewShards(c, "/x", 1, &zkrecipes.ShardsOptions{Settle: -1}),
		} {
			require.EqualError(t, x.Serve(t.Context(), nothing), want)
		}
		require.EqualError(t, zkrecipes.NewShards(c, "/x", 1, nil).Serve(t.Context(), nil), "zkrecipes: serve shards of /x: nil function")
		w.Write("/used", "data")
		require.ErrorIs(t, zkrecipes.NewShards(c, "/used", 1, nil).Serve(t.Context(), nothing), zkrecipes.ErrPathInUse)
	})
}
