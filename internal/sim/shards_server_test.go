package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

const (
	mostHung  = 15 * time.Second // how long a function may go on after the end of its context
	lastPause = 30 * time.Second // after which a function that has failed is called again, at most
)

// shardWork is a function that works on a shard, and knows whose it is.
type shardWork struct {
	shard *zkrecipes.Shard
	who   string
	held  *held
}

// name returns what the functions of a process that serves for the whole run are called.
func (w *shardsWorld) name(i int) string { return fmt.Sprintf("stays-%d", i) }

// serve serves for the whole run, with one client after the other. During the phase of faults it
// sometimes ends and begins again.
func (w *shardsWorld) serve(p *process) {
	r := w.stream(9500 + p.i)
	var opts zkrecipes.ShardsOptions
	for w.follow.Err() == nil {
		ctx, cancel := w.paused(p.i)
		l := p.current()
		opts.Settle = w.settle
		if w.named {
			opts.Member = w.name(p.i)
		}
		if !w.isCalm() && r.IntN(3) == 0 {
			time.AfterFunc(time.Duration(r.Int64N(int64(30*time.Second))), func() {
				if !w.isCalm() {
					cancel()
				}
			})
		}
		w.serveOnce(ctx, l, w.name(p.i), &opts)
		cancel()
	}
}

// serveOnce serves until ctx or the client ends, and checks why it has ended.
func (w *shardsWorld) serveOnce(ctx context.Context, l life, who string, opts *zkrecipes.ShardsOptions) {
	n, since := w.observer.size()
	if n == 0 { // nobody has served yet
		n = w.size(w.path())
	}
	err := zkrecipes.NewShards(l.c, w.path(), n, opts).Serve(ctx, w.works(who, w.stream(l.n)))
	_, now := w.observer.size()
	w.log.note("%s of %s has served: %v", who, l.identity(), err)
	switch {
	case err == nil && ctx.Err() != nil:
		w.events.add("served")
	case errors.Is(err, zkrecipes.ErrSize) && now > since:
		w.events.add("wrong size")
	case errors.Is(err, zkrecipes.ErrClosed) && l.ended():
	default:
		w.log.violation("%s of %s: %v", who, l.identity(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for work := range w.live {
		if work.who == fmt.Sprintf("%s.%d", who, l.n) {
			w.log.violation("%s has served, and works on shard %d", who, work.shard.Number())
		}
	}
}

// works is the function of one that serves.
func (w *shardsWorld) works(who string, r *rand.Rand) func(context.Context, *zkrecipes.Shard) error {
	draw := func(n int64) int64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return r.Int64N(n)
	}
	return func(ctx context.Context, s *zkrecipes.Shard) error {
		work := &shardWork{shard: s, who: who}
		w.began(work)
		defer w.ended(work)
		ends := 1 + int(draw(12)) // after so many steps; mostly its context ends before
		for i := 0; ctx.Err() == nil; i++ {
			select {
			case <-time.After(time.Duration(draw(int64(4 * time.Second)))):
			case <-ctx.Done():
			}
			if draw(2) == 0 {
				w.commitUnder(ctx, work)
			}
			if i == ends && !w.isCalm() {
				w.events.add("failed")
				return [2]error{nil, errors.New("broken")}[draw(2)]
			}
		}
		w.checkCause(who, s, context.Cause(ctx))
		if !w.isCalm() && draw(5) == 0 {
			w.events.add("hung")
			time.Sleep(time.Duration(draw(int64(mostHung))))
			w.commitUnder(w.ctx, work)
		}
		return nil
	}
}

// began checks what must be so when a process gets a shard: nobody has one of another number of
// shards, and its place was the first of its line.
func (w *shardsWorld) began(work *shardWork) {
	s := work.shard
	w.log.note("%s: shard %d of %d with token 0x%x", work.who, s.Number(), s.Count(), int64(s.Token()))
	if !w.observer.lines.couldHold(s.Check().Path) {
		w.log.violation("%s was granted %s, which could never hold", work.who, s.Check().Path)
	}
	work.held, _ = w.holds.granted(work.who, 0, s, judge.Event{Key: fmt.Sprint("shard ", s.Number()), Token: int64(s.Token())})
	w.mu.Lock()
	defer w.mu.Unlock()
	for other := range w.live {
		o := other.shard
		if w.forcedExpiry || o.Err() != nil || s.Err() != nil {
			continue
		}
		if o.Count() != s.Count() {
			w.log.violation("%s has shard %d of %d, and %s has %d of %d", work.who, s.Number(), s.Count(), other.who, o.Number(), o.Count())
		}
	}
	w.live[work] = struct{}{}
	w.observer.owned(s)
}

func (w *shardsWorld) ended(work *shardWork) {
	w.holds.releasing(work.held)
	w.holds.lasted(work.held, work.held.Until)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live, work)
}

// checkCause checks that a function's context has ended for one of the reasons that there are.
func (w *shardsWorld) checkCause(who string, s *zkrecipes.Shard, cause error) {
	switch {
	case errors.Is(cause, zkrecipes.ErrMoved):
		w.events.add("moved")
	case errors.Is(cause, zkrecipes.ErrLost):
		w.events.add("lost")
	case errors.Is(cause, zkrecipes.ErrClosed):
		w.events.add("closed")
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		w.events.add("left")
	default:
		w.log.violation("%s: the context of shard %d has ended because of %v", who, s.Number(), cause)
	}
}

// commitUnder writes for the observer, which sees whether the owner was allowed to.
func (w *shardsWorld) commitUnder(ctx context.Context, work *shardWork) {
	s := work.shard
	path := w.observer.data(s)
	_, err := s.Commit(ctx, zkrecipes.OpCreate(path, []byte(s.Check().Path), 0, nil), zkrecipes.OpDelete(path, -1))
	w.log.note("%s: commit of shard %d: %v", work.who, s.Number(), err)
	switch {
	case err == nil:
		w.events.add("committed")
	case ctx.Err() != nil: // perhaps since the number of shards can no longer be relied on
	case errors.Is(err, zkrecipes.ErrLost) && s.Err() == nil:
		w.log.violation("%s: Commit returned %v, and the shard is held", work.who, err)
	case errors.Is(err, zkrecipes.ErrLost):
		w.events.add("commit refused")
	}
}

func (w *shardsWorld) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// work serves, lists and resizes, a few times.
func (w *shardsWorld) work(p *process, j int) {
	for _, by := range w.turns(p, j, w.rounds, 5*time.Second) {
		if !w.try(by, w.path(), func(ctx context.Context) (err error) {
			event := "listed"
			switch what := by.r.IntN(6); {
			case what < 2:
				event = "guest served"
				ctx, cancel := context.WithTimeout(ctx, time.Duration(by.r.Int64N(int64(20*time.Second))))
				defer cancel()
				w.serveOnce(ctx, by.life, fmt.Sprintf("guest-%d-%d", p.i, j), &zkrecipes.ShardsOptions{Settle: w.settle})
			case what < 4 && w.resizes:
				event = "resized"
				n := 1 + by.r.IntN(12)
				err = zkrecipes.NewShards(by.c, w.path(), n, nil).Resize(ctx, n)
				w.log.note("resize to %d: %v", n, err)
				if errors.Is(err, zkrecipes.ErrUncertain) {
					return nil
				}
			default:
				_, err = zkrecipes.NewShards(by.c, w.path(), 1, nil).Owners(ctx)
			}
			if err == nil {
				w.events.add(event)
			}
			return err
		}) {
			return
		}
	}
}

// disturbShards is an operator that deletes places of shards' owners, and of those that wait.
func (w *shardsWorld) disturbShards() fault {
	return w.operate(3600, 6*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		n, _ := w.observer.size()
		if n == 0 {
			return
		}
		line := w.observer.line(r.IntN(n))
		if places := w.srv.Children(line); len(places) > 0 {
			w.disturb(r, conn, line+"/"+places[r.IntN(len(places))])
		}
	})
}
