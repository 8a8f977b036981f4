package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Queue has the figures of a queue, or of all queues for which Config.Path returns the same.
type Queue struct {
	Path   string        // what Config.Path makes of it
	Len    int           // items, with those that are taken
	Oldest time.Duration // the age of the oldest of these, 0 if there are none
	Dead   int           // dead letters
}

// poll is a call of PollQueue. Its address identifies it: several may be for one queue.
type poll struct{ path, letters string }

// PollQueue reads the figures of a queue at once and then at each interval. It blocks until
// ctx ends, and then returns nil. If a poll gets no answer within the interval, the figures are
// not shown until a later one does. Any other error ends PollQueue. The figures are not shown
// any more once it has returned.
//
// A poll costs what Len of the queue and of its dead letters cost, and the first of Items.
func (m *Meter) PollQueue(ctx context.Context, q *zkrecipes.Queue, interval time.Duration) error {
	if interval <= 0 {
		return fmt.Errorf("zkrecipes: poll %q: the interval is %v", q.Path(), interval)
	}
	own := &poll{q.Path(), q.DeadLetters().Path()}
	defer m.noAnswer(own)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := m.pollOnce(ctx, q, own, interval)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			m.noAnswer(own)
		case err != nil:
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// pollOnce notes the figures of now.
func (m *Meter) pollOnce(ctx context.Context, q *zkrecipes.Queue, own *poll, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f, err := read(ctx, q)
	if err != nil {
		return err
	}
	f.Path = m.cfg.Show(own.path)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls[own] = f
	return nil
}

// read reads the figures from the servers. A queue that does not exist is empty.
func read(ctx context.Context, q *zkrecipes.Queue) (f Queue, err error) {
	for _, count := range []struct {
		of *zkrecipes.Queue
		n  *int
	}{{q, &f.Len}, {q.DeadLetters(), &f.Dead}} {
		if *count.n, err = count.of.Len(ctx); err != nil && !errors.Is(err, zkrecipes.ErrUnused) {
			return Queue{}, err
		}
	}
	if f.Len == 0 {
		return f, nil
	}
	for first, err := range q.Items(ctx) {
		switch {
		case errors.Is(err, zkrecipes.ErrUnused): // deleted in the meantime
			return f, nil
		case err != nil:
			return Queue{}, err
		}
		f.Oldest = max(0, time.Since(first.Since)) // the servers' clock may be ahead
		break
	}
	return f, nil
}

// noAnswer notes that nothing is known of a queue.
func (m *Meter) noAnswer(own *poll) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.polls, own)
}

// queueFigures returns one Queue for each path that the figures show. m.mu must be held.
func (m *Meter) queueFigures() (all []Queue) {
	by, dead := map[string]Queue{}, map[[2]string]int{}
	for own, f := range m.polls {
		sum, letters := by[f.Path], [2]string{f.Path, own.letters} // which queues may share
		more := max(0, f.Dead-dead[letters])
		dead[letters] += more
		by[f.Path] = Queue{f.Path, sum.Len + f.Len, max(sum.Oldest, f.Oldest), sum.Dead + more}
	}
	for _, f := range by {
		all = append(all, f)
	}
	return all
}
