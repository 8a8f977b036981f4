package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What the documentation of Shards promises.

// shardJudge sees who works on which shard, and fails the test if a token does not grow.
type shardJudge struct {
	t *testing.T

	mu     sync.Mutex
	owner  map[int]string
	tokens map[int]zkrecipes.Token
	moves  int // from one process to another
	last   map[int]string
	hangs  map[string]bool // processes whose functions do not return
}

func newShardJudge(t *testing.T) *shardJudge {
	return &shardJudge{t: t, owner: map[int]string{}, tokens: map[int]zkrecipes.Token{}, last: map[int]string{}, hangs: map[string]bool{}}
}

// works is the function of a process with that name: it works until its context ends.
func (j *shardJudge) works(name string) func(context.Context, *zkrecipes.Shard) error {
	return func(ctx context.Context, s *zkrecipes.Shard) error {
		j.begin(name, s)
		<-ctx.Done()
		for j.isHung(name) {
			time.Sleep(time.Second)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.owner[s.Number()] == name {
			delete(j.owner, s.Number())
		}
		return context.Cause(ctx)
	}
}

func (j *shardJudge) begin(name string, s *zkrecipes.Shard) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := s.Number()
	if s.Err() == nil {
		if s.Token() <= j.tokens[n] {
			j.t.Errorf("shard %d: token %d of %s after %d of %s", n, s.Token(), name, j.tokens[n], j.last[n])
		}
		j.tokens[n] = s.Token()
	}
	if last := j.last[n]; last != "" && last != name {
		j.moves++
	}
	j.owner[n], j.last[n] = name, name
}

// hang says whether functions of the process do not return.
func (j *shardJudge) hang(name string, hangs bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hangs[name] = hangs
}

func (j *shardJudge) isHung(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hangs[name]
}

// shares returns how many shards each process works on, and forgets the moves so far.
func (j *shardJudge) shares() (shares map[string]int, moves int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	shares = map[string]int{}
	for _, name := range j.owner {
		shares[name]++
	}
	moves, j.moves = j.moves, 0
	return shares, moves
}

// process serves shards until stop is called, which waits for it.
func (j *shardJudge) process(c *zkrecipes.Client, name string, n int, opts *zkrecipes.ShardsOptions) (stop func() error) {
	ctx, cancel := context.WithCancel(j.t.Context())
	done := make(chan error, 1)
	go func() {
		err := zkrecipes.NewShards(c, "/shards", n, opts).Serve(ctx, j.works(name))
		if ctx.Err() == nil {
			j.t.Errorf("%s has ended: %v", name, err)
		}
		done <- err
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	j.t.Cleanup(func() { _ = stop() })
	return stop
}

func TestShardsAreSharedOutEvenlyAndFewMove(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		stopA := j.process(w.Stranger(nil), "a", 16, nil)
		time.Sleep(time.Second)
		shares, moves := j.shares()
		require.Equal(t, map[string]int{"a": 16}, shares)
		require.Zero(t, moves)

		// A shard is given to a newcomer once the members have settled.
		b := w.Stranger(nil)
		stopB := j.process(b, "b", 16, nil)
		time.Sleep(4 * time.Second)
		shares, _ = j.shares()
		require.Equal(t, map[string]int{"a": 16}, shares)
		time.Sleep(2 * time.Second)
		shares, moves = j.shares()
		require.Equal(t, map[string]int{"a": 8, "b": 8}, shares)
		require.Equal(t, 8, moves)

		j.process(w.Stranger(nil), "c", 16, nil)
		time.Sleep(10 * time.Second)
		shares, moves = j.shares()
		require.Equal(t, map[string]int{"a": 6, "b": 5, "c": 5}, shares)
		require.Equal(t, 5, moves)

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
		shares, moves = j.shares()
		require.Equal(t, map[string]int{"b": 8, "c": 8}, shares)
		require.Equal(t, 6, moves)
		w.Srv.Expire(recipetest.SessionID(b))
		time.Sleep(time.Minute)
		shares, _ = j.shares()
		require.Equal(t, map[string]int{"b": 8, "c": 8}, shares)
		require.NoError(t, stopB())
	})
}

func TestAShardWhoseFunctionDoesNotReturnStays(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		var log recipetest.Warnings
		a := w.Stranger(&zkrecipes.Options{Logger: log.Logger()})
		j.hang("a", true)
		j.process(a, "a", 4, nil)
		time.Sleep(time.Second)
		j.process(w.Stranger(nil), "b", 4, nil)
		time.Sleep(20 * time.Second)
		shares, moves := j.shares()
		require.Equal(t, map[string]int{"a": 4}, shares)
		require.Zero(t, moves)
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
		j.hang("a", false)
		time.Sleep(2 * time.Second)
		shares, moves = j.shares()
		require.Equal(t, map[string]int{"a": 2, "b": 2}, shares)
		require.Equal(t, 2, moves)
	})
}

func TestAFunctionThatFailsIsCalledAgainAndOthersGoOn(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		calls := map[int]int{}
		done := make(chan error, 1)
		go func() {
			done <- zkrecipes.NewShards(w.Stranger(nil), "/shards", 2, nil).Serve(ctx, func(ctx context.Context, s *zkrecipes.Shard) error {
				mu.Lock()
				calls[s.Number()]++
				mu.Unlock()
				if s.Number() == 0 {
					return errors.New("broken")
				}
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, map[int]int{0: 6, 1: 1}, calls) // after 1, 2, 4, 8, 16 s
		mu.Unlock()
		cancel()
		require.NoError(t, <-done)
	})
}

func TestAFunctionThatReturnsErrClosedOfAnotherClientIsCalledAfterAPause(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		calls := 0
		err := zkrecipes.NewShards(w.Stranger(nil), "/shards", 1, nil).Serve(ctx, func(context.Context, *zkrecipes.Shard) error {
			calls++
			return zkrecipes.ErrClosed
		})
		require.NoError(t, err)
		require.Less(t, calls, 10)
		require.Greater(t, calls, 2)
	})
}

func TestARollingRestartMovesShardsOnceAtMostTwice(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		stops := make([]func() error, 5)
		for i := range stops {
			stops[i] = j.process(w.Stranger(nil), fmt.Sprint(i), 100, nil)
		}
		time.Sleep(time.Minute)
		j.shares()
		for i := range stops { // each is away for 2 s, and back for 1 s when the next one goes
			require.NoError(t, stops[i]())
			time.Sleep(2 * time.Second)
			stops[i] = j.process(w.Stranger(nil), fmt.Sprint(i), 100, nil)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		shares, moves := j.shares()
		require.Equal(t, map[string]int{"0": 20, "1": 20, "2": 20, "3": 20, "4": 20}, shares)
		t.Logf("%d moves", moves)
		require.LessOrEqual(t, moves, 200)
	})
}

func TestResizeOfShards(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		j := newShardJudge(t)
		a, b := w.Stranger(nil), w.Stranger(nil)
		j.process(a, "a", 4, nil)
		j.process(b, "b", 4, nil)
		time.Sleep(time.Minute)
		x := zkrecipes.NewShards(w.Stranger(nil), "/shards", 7, nil)
		err := x.Serve(t.Context(), j.works("x"))
		require.ErrorIs(t, err, zkrecipes.ErrSize)
		require.EqualError(t, err, "zkrecipes: serve shards of /shards: wrong size: there are 4 shards, and 7 are used")
		require.NoError(t, x.Resize(t.Context(), 7))
		require.NoError(t, x.Resize(t.Context(), 7), "it is so already")
		time.Sleep(time.Minute)
		shares, _ := j.shares()
		require.Equal(t, 7, shares["a"]+shares["b"])
		require.Less(t, shares["a"]-shares["b"], 2)
		require.Less(t, shares["b"]-shares["a"], 2)

		// A function that does not return holds the change up, and nobody works meanwhile on others.
		j.hang("a", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, x.Resize(ctx, 3), context.DeadlineExceeded)
		shares, _ = j.shares()
		require.Zero(t, shares["b"])
		j.hang("a", false)
		time.Sleep(time.Minute)
		shares, _ = j.shares()
		require.Equal(t, 3, shares["a"]+shares["b"], "they carry it out without the caller")
	})
}

func TestShardsRefuseWhatIsInvalid(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		nothing := func(context.Context, *zkrecipes.Shard) error { return nil }
		for want, x := range map[string]*zkrecipes.Shards{
			"zkrecipes: serve shards of /x: wrong size: 0 shards":                            zkrecipes.NewShards(c, "/x", 0, nil),
			"zkrecipes: serve shards of /x: ShardsOptions.Settle must not be negative: -1ns": zkrecipes.NewShards(c, "/x", 1, &zkrecipes.ShardsOptions{Settle: -1}),
			`zkrecipes: serve shards of x: path does not begin with "/"`:                     zkrecipes.NewShards(c, "x", 1, nil),
			`zkrecipes: serve shards of "": not made by its constructor (NewShards)`:         nil,
		} {
			require.EqualError(t, x.Serve(t.Context(), nothing), want)
		}
		require.EqualError(t, zkrecipes.NewShards(c, "/x", 1, nil).Serve(t.Context(), nil), "zkrecipes: serve shards of /x: nil function")
		_, err := w.Bare().Create("/used", []byte("data"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.ErrorIs(t, zkrecipes.NewShards(c, "/used", 1, nil).Serve(t.Context(), nothing), zkrecipes.ErrPathInUse)
	})
}
