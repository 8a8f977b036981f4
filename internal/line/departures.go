package line

import (
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// When a session's grants end all at once, their places are deleted together: a thousand of
// them by a few transactions, which are not too large for the servers.

const (
	// MaxDepartures is how many places one transaction deletes at most.
	maxDepartures = 128
	// maxDepartureBytes bounds its size, unless one place alone is larger.
	maxDepartureBytes = 128 << 10
	// departing is how many such transactions are under way at the same time. More would
	// keep the end of the session waiting behind them.
	departing = 4
)

// leaving is a place that is to be deleted. signal: its successor is told.
type leaving struct {
	place  *Place
	signal bool
}

// departures are the places of a session that are to be deleted together.
type departures struct {
	mu    sync.Mutex
	queue []leaving
	// running is how many goroutines delete.
	running int
	// gone has channels that are closed when the place is gone, or its session has ended.
	gone map[*Place]chan struct{}
}

func departuresOf(s *session.Session) *departures {
	return session.Attached(s, func() *departures { return &departures{gone: map[*Place]chan struct{}{}} })
}

// add has places deleted, in the background. The channel is closed when the last of them is
// gone.
func (d *departures) add(ds ...leaving) (gone <-chan struct{}) {
	if len(ds) == 0 {
		return nil
	}
	c := ds[0].place.Line.Client
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range ds {
		if d.gone[one.place] == nil {
			d.gone[one.place] = make(chan struct{})
			d.queue = append(d.queue, one)
		}
	}
	for d.running < departing && d.running*maxDepartures < len(d.queue) {
		d.running++
		c.Tasks.Start(d.run)
	}
	return d.gone[ds[len(ds)-1].place]
}

func (d *departures) run() {
	for {
		batch, ops := d.next()
		if len(batch) == 0 {
			return
		}
		if len(batch) == 1 || !batch[0].deleteAll(ops) {
			for _, one := range batch {
				one.place.leaveAlone(one.signal)
			}
		}
		d.done(batch)
	}
}

// next returns the places of the next transaction, and what deletes them. The goroutine ends
// if there are none. A place that has to be deleted by itself is returned alone.
func (d *departures) next() (batch []leaving, ops []any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for bytes := 0; len(batch) < min(len(d.queue), maxDepartures); {
		one := d.queue[len(batch)]
		more := one.ops()
		bytes += zkconn.MultiSize(more)
		if len(batch) > 0 && (more == nil || bytes > min(maxDepartureBytes, zkconn.MaxRequest(one.place.Line.Client.MaxBuffer))) {
			break
		}
		batch, ops = append(batch, one), append(ops, more...)
		if more == nil {
			break
		}
	}
	if len(batch) == 0 {
		d.running--
	}
	d.queue = d.queue[len(batch):]
	return batch, ops
}

func (d *departures) done(batch []leaving) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range batch {
		close(d.gone[one.place])
		delete(d.gone, one.place)
	}
}

// ops returns the operations that delete the place, nil if it must be deleted by itself.
func (d leaving) ops() []any {
	switch {
	case d.place.Deletes != nil:
		return d.place.Deletes(d.signal)
	case d.place.Release != nil:
		return nil
	}
	return d.place.Departure(d.signal).Ops
}

// deleteAll deletes the places of a batch in one transaction. It returns false if the servers
// refuse that, because one of them is gone for example, or if the reply is lost.
func (d leaving) deleteAll(ops []any) bool {
	s := d.place.Session
	return s.Multi(s.Lifetime(), ops...).Applied()
}
