package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// handOver is the cost of n waiters that stand in line once: first of joining, and
// then of passing the lock from each to the next. In the scenarios these overlap.
type handOver struct {
	Waiters      int
	Theirs, Ours passage
}

// passage is one side's part of a handOver.
type passage struct {
	join, pass counts
	waiters    int
	time       time.Duration // from the first release to the last
}

func (p passage) per(n int64) float64   { return float64(n) / float64(p.waiters) }
func (p passage) JoinBytes() float64    { return p.per(p.join.Received) }
func (p passage) JoinRequests() float64 { return p.per(p.join.Requests) }
func (p passage) Bytes() float64        { return p.per(p.pass.Received) }
func (p passage) Requests() float64     { return p.per(p.pass.Requests) }
func (p passage) Rate() float64         { return float64(p.waiters) / p.time.Seconds() }

// handOvers measures both sides with n waiters. Each session has joined before.
func (l *lab) handOvers(ctx context.Context, n int) (*handOver, error) {
	fx := l.fixture(ctx, limit)
	defer fx.close()

	var uncounted, theirTally, ourTally tally
	theirHolder, err1 := fx.conn(&uncounted)
	conns, err2 := fx.conns(n, &theirTally)
	ourHolder, err3 := fx.client(&uncounted)
	clients, err4 := fx.clients(n, &ourTally)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	theirLine, ourLine := fx.path+"/theirs", fx.path+"/ours"
	theirFirst := theirLock(theirHolder, theirLine)
	ourFirst := ourLock(fx.ctx, zkrecipes.NewMutex(ourHolder, ourLine).Lock)
	theirLocks, ourLocks := make([]lock, n), make([]lock, n)
	for i := range n {
		theirLocks[i] = theirLock(conns[i], theirLine)
		ourLocks[i] = ourLock(fx.ctx, zkrecipes.NewMutex(clients[i], ourLine).Lock)
	}
	inLine := func(line string) (int, error) {
		_, stat, err := theirHolder.Exists(line)
		if err != nil {
			return 0, err
		}
		return int(stat.NumChildren), nil
	}
	h := &handOver{Waiters: n}
	for range 2 { // a session's first join costs more, and is not counted
		var err error
		if h.Theirs, err = pass(fx.ctx, theirFirst, theirLocks, &theirTally,
			func() (int, error) { return inLine(theirLine) }); err != nil {
			return nil, fmt.Errorf("%s: %w", theirs, err)
		}
		if h.Ours, err = pass(fx.ctx, ourFirst, ourLocks, &ourTally,
			func() (int, error) { return inLine(ourLine) }); err != nil {
			return nil, fmt.Errorf("%s: %w", ours, err)
		}
	}
	return h, nil
}

// pass lets first hold the lock until all waiters stand in line, and then passes it
// from each to the next. t does not count first's requests.
func pass(ctx context.Context, first lock, waiters []lock, t *tally, inLine func() (int, error)) (p passage, err error) {
	if err := first.lock(); err != nil {
		return p, err
	}
	began := t.read()
	errs := make([]error, len(waiters))
	var wg sync.WaitGroup
	for i, w := range waiters {
		wg.Go(func() { errs[i] = w.cycle() })
	}
	if err := awaitQuiet(ctx, t, func() (bool, error) {
		n, err := inLine()
		return n == 1+len(waiters), err
	}); err != nil {
		return p, err
	}
	joined, at := t.read(), time.Now()
	err = first.unlock()
	wg.Wait()
	p = passage{
		join: joined.minus(began), pass: t.read().minus(joined),
		waiters: len(waiters), time: time.Since(at),
	}
	return p, errors.Join(append(errs, err)...)
}

// awaitQuiet waits until all are there and nothing has been sent or received for a
// while. By then every waiter has done what it must do to wait.
func awaitQuiet(ctx context.Context, t *tally, all func() (bool, error)) error {
	for last, quiet := (counts{}), 0; quiet < 5; {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		there, err := all()
		if err != nil {
			return err
		}
		now := t.read()
		quiet++
		if !there || now != last {
			quiet = 0
		}
		last = now
	}
	return nil
}
