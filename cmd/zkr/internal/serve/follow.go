//go:build unix

package serve

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

const (
	costOfWatch = 3 // requests when a watch begins, and for the look after the first one
	fewLooks    = 4 // at a line that is new
)

// begin begins to follow a line. The caller holds mu.
func (h *hub) begin(ctx context.Context, f *followed) {
	f.listings, f.looked, f.failed = map[string]listing{}, false, ""
	ctx, f.stop = context.WithCancel(ctx)
	watch := h.client.WatchChildren
	if f.isDeaf {
		watch = h.listAgain
	}
	for _, dir := range watchedDirs(f.recipe) {
		h.all.Go(func() { h.follow(ctx, f, dir, watch(ctx, f.path+dir)) })
	}
}

// follow follows a directory of a line until ctx ends.
func (h *hub) follow(ctx context.Context, f *followed, dir string, states iter.Seq2[zkrecipes.Children, error]) {
	if h.pay(ctx, h.firsts, costOfWatch) != nil {
		return
	}
	looks := 0
	for c, err := range states {
		wait, ok := h.observed(ctx, f, dir, c, err)
		if !ok {
			return
		}
		// While this waits, changes add up. The next look shows them all.
		if looks++; sleep(ctx, wait) != nil || h.payForLook(ctx, looks) != nil {
			return
		}
	}
}

// payForLook waits until a line that has been looked at so often may be looked at again.
func (h *hub) payForLook(ctx context.Context, looks int) error {
	switch {
	case looks == 1: // costOfWatch has it: what all lines owe after a first reading would hold up what is new
		return nil
	case looks < fewLooks:
		return h.pay(ctx, h.firsts, 1)
	}
	return h.pay(ctx, h.looks, 1)
}

// listAgain is like WatchChildren, but lists every 2 s.
func (h *hub) listAgain(ctx context.Context, path string) iter.Seq2[zkrecipes.Children, error] {
	return func(yield func(zkrecipes.Children, error) bool) {
		for {
			names, stat, err := h.client.Children(ctx, path)
			if errors.Is(err, zk.ErrNoNode) {
				names, stat, err = nil, nil, nil
			}
			if !yield(zkrecipes.Children{Names: names, Stat: stat}, err) || err != nil || sleep(ctx, shownPoll) != nil {
				return
			}
		}
	}
}

// observed takes what was seen of a directory of a line, and returns when to look again. It returns false
// if that is over.
func (h *hub) observed(ctx context.Context, f *followed, dir string, c zkrecipes.Children, err error) (next time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil { // the other directory's watch may have failed, and the line be followed anew
		return 0, false
	}
	if err != nil {
		h.failed(f, err)
		return 0, false
	}
	now := time.Now()
	happened := f.observe(now, dir, newListing(c))
	f.history.add(now, happened)
	h.total.add(now, happened)
	h.touch(f.path)
	h.moved = true
	h.wakeReader()
	if h.shown[f.path] > 0 {
		return shownGap, true
	}
	return gap, true
}

// failed ends the watches of a line, until a walk finds it again. The caller holds mu.
func (h *hub) failed(f *followed, err error) {
	f.stop()
	f.isDeaf, f.failed, f.places = true, err.Error(), nil
	h.touch(f.path)
	h.moved = true
}
