package line

import (
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How a Client deletes containers that it has not used for a while. It looks at each one
// before: a deletion that the servers refuse costs them a commit, too. And the same version
// of the data may be another znode's, which somebody has created in the meantime.

const (
	// tidyBatch is how many containers are looked at, or deleted, in one write.
	tidyAtOnce = 50
	// tidyPause is from one batch to the next, so that there are 1,000 deletions a second
	// at most.
	tidyPause = 50 * time.Millisecond
)

// tidy deletes containers until none is idle. It waits while there is no connection.
func (t *containers) tidy() {
	for {
		batch := t.takeDue()
		if len(batch) == 0 {
			return
		}
		next := time.NewTimer(tidyPause)
		t.tidyBatch(batch)
		select {
		case <-next.C:
		case <-t.client.Closing.Done():
			next.Stop()
			return
		}
	}
}

// idleContainer is one that tidy has taken from the table.
type idleContainer struct {
	*container
	since time.Time // when it was used last; later: somebody uses it again
	stat  *zk.Stat
}

// takeDue takes the containers that are to be deleted from the table, a batch at most. Those
// in which others count are not taken: they are when these are gone.
func (t *containers) takeDue() (batch []*idleContainer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(batch) < tidyAtOnce && t.isDue() {
		e := t.recent.Front().Value.(*container)
		if e.below > 0 {
			t.putInto(t.rest, e)
			continue
		}
		t.recent.Remove(e.at)
		e.in = nil
		batch = append(batch, &idleContainer{e, e.used, &zk.Stat{Czxid: e.czxid, Version: e.version}})
	}
	if len(batch) == 0 {
		t.tidying = false
		t.arm()
	}
	return batch
}

func (t *containers) tidyBatch(batch []*idleContainer) {
	c := t.client
	s, err := c.Live(c.Closing)
	if err != nil {
		return
	}
	batch = t.withoutUsed(s, batch)
	paths := make([]string, len(batch))
	for i, e := range batch {
		paths[i] = e.path
	}
	stats, errs := s.ExistAll(c.Closing, paths)
	var idle []*idleContainer
	for i, e := range batch {
		switch now := stats[i]; {
		case errs[i] != nil:
			t.settle(e, errs[i])
		case now.Czxid != e.stat.Czxid, now.Version != e.stat.Version, now.Aversion != 0:
			t.settle(e, zk.ErrBadVersion)
		case now.NumChildren > 0:
			t.settle(e, zk.ErrNotEmpty)
		default:
			idle = append(idle, e)
		}
	}
	idle = t.withoutUsed(s, idle)
	deletes := make([]*zk.DeleteRequest, len(idle))
	for i, e := range idle {
		deletes[i] = &zk.DeleteRequest{Path: e.path, Version: e.stat.Version}
	}
	for i, err := range s.DeleteAll(c.Closing, deletes) {
		t.settle(idle[i], err)
	}
}

// withoutUsed puts those back into the table that are in use: the session has a znode there,
// or a call has used them since.
func (t *containers) withoutUsed(s *session.Session, batch []*idleContainer) []*idleContainer {
	holds, parents := make([]bool, len(batch)), s.Parents()
	for i, e := range batch {
		holds[i] = parents[e.path]
		if other, ok := t.usedWith(e.path); ok {
			holds[i] = holds[i] || parents[other]
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := -1
	return slices.DeleteFunc(batch, func(e *idleContainer) bool {
		i++
		used := holds[i] || !e.used.Equal(e.since)
		if used && t.all[e.path] == e.container {
			e.at = nil
			t.use(e.container)
		}
		return used
	})
}

// settle notes what became of the deletion of a container. nil: it was deleted.
func (t *containers) settle(e *idleContainer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.at = nil
	if t.all[e.path] != e.container {
		return
	}
	if e.czxid != e.stat.Czxid { // it was made anew
		t.put(e.container)
		return
	}
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode):
		if parent := t.remove(e.container); parent != nil && parent.in == t.rest && parent.czxid != 0 {
			t.rest.Remove(parent.at)
			parent.in, parent.at = t.recent, t.recent.PushFront(parent)
		}
	case zkconn.Transient(err), errors.Is(err, zkconn.ErrSessionOver), errors.Is(err, errs.ErrClosed):
		e.in, e.at = t.recent, t.recent.PushFront(e.container) // to be looked at again
	case !e.used.Equal(e.since):
		t.put(e.container)
	case errors.Is(err, zk.ErrNotEmpty):
		t.putInto(t.rest, e.container)
	default: // others use it, and delete it
		e.czxid = 0
		t.putInto(t.rest, e.container)
	}
}
