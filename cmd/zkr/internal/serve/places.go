//go:build unix

package serve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const (
	readAtOnce = 8               // places
	mostPlaces = 500             // of a line that are read
	overdue    = 3 * time.Second // after which a place that has come should have been read
)

// readable returns those of a line's places that are read.
func (l *line) readable() []*place { return l.places[:min(len(l.places), mostPlaces)] }

// isOverdue reports whether a place should have been read. In lines that move all the time, there is
// always one that has just come.
func (p *place) isOverdue() bool { return !p.read && time.Since(p.arrived) > overdue }

// readPlaces reads the znodes of places that have not been read: those of the lines that are
// shown, then those of lines in which somebody waits, the longest held ones first. A deadlock is in
// such lines, and in a line that moves all the time it is not.
func (h *hub) readPlaces(ctx context.Context) {
	for ctx.Err() == nil {
		work := h.unread()
		if len(work) == 0 {
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
			continue
		}
		var batch sync.WaitGroup
		for _, p := range work {
			if h.pay(ctx, h.places, 1) != nil {
				break
			}
			batch.Go(func() { h.readPlace(ctx, p) })
		}
		batch.Wait()
	}
}

// unread returns which places to read next.
func (h *hub) unread() (work []*place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []*followed
	for _, f := range h.lines {
		if slices.ContainsFunc(f.readable(), func(p *place) bool { return !p.read }) {
			lines = append(lines, f)
		}
	}
	rank := func(f *followed) int {
		switch {
		case h.shown[f.path] > 0:
			return 0
		case !f.places[len(f.places)-1].Held: // somebody waits
			return 1
		}
		return 2
	}
	slices.SortFunc(lines, func(a, b *followed) int {
		return cmp.Or(rank(a)-rank(b), a.places[0].heldAt.Compare(b.places[0].heldAt), cmp.Compare(a.path, b.path))
	})
	for _, f := range lines {
		for _, p := range f.readable() {
			if !p.read {
				work = append(work, p)
			}
		}
		if len(work) >= readAtOnce {
			return work[:readAtOnce]
		}
	}
	return work
}

func (h *hub) readPlace(ctx context.Context, p *place) {
	data, stat, err := h.client.Get(ctx, p.Path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return // it is tried again
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.read = true // also if it has gone, which the watch will tell, or may not be read
	if err == nil {
		p.Identity, p.Session, p.Since = view.Brief(data), view.Session(stat.EphemeralOwner), time.UnixMilli(stat.Ctime)
	}
	h.touch(p.line)
	h.moved = true
}
