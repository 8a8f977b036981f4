package sim

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// shardObserver follows what the server applies to the number of shards, to the lines of the shards,
// and to the znodes that owners write. It uses none of the library's code.
type shardObserver struct {
	w     *shardsWorld
	lines *lineObserver

	mu      sync.Mutex
	n       int                  // the number of shards
	changes int                  // of it
	first   map[string]string    // the place that is first in each line
	free    map[string]time.Time // since when each line has no first place whose function was called
	counts  bool                 // gaps count
	longest time.Duration        // gap
}

func newShardObserver(w *shardsWorld) *shardObserver {
	o := &shardObserver{w: w, first: map[string]string{}, free: map[string]time.Time{}}
	o.lines = newLineObserver(func(path string) { w.log.violation("%s was released, and could never hold", path) })
	return o
}

// line returns the path of a shard's lock.
func (o *shardObserver) line(shard int) string {
	return fmt.Sprintf("%s/shard-%05d", o.w.path(), shard)
}

// data returns the path that the owner of a shard creates and deletes in a transaction.
func (o *shardObserver) data(s *zkrecipes.Shard) string { return fmt.Sprintf("/data-%d", s.Number()) }

func (o *shardObserver) onChange(c zktest.Change) {
	if strings.HasPrefix(c.Path, o.w.path()+"/shard-") {
		o.lines.onChange(c)
		if c.Deleted {
			o.released(c.Path)
		}
	}
	if c.Path == o.w.path() && !c.Deleted {
		o.resized(string(c.Data))
	}
	if shard, ok := strings.CutPrefix(c.Path, "/data-"); ok && c.Created {
		n, _ := strconv.Atoi(shard)
		first, ok := o.lines.first(o.line(n))
		if place := string(c.Data); !ok || place != o.line(n)+"/"+first.name {
			o.w.log.violation("shard %d was written to by %s, which is not its owner's", n, place)
		}
	}
}

func (o *shardObserver) resized(data string) {
	fields := strings.Fields(data)
	if len(fields) != 3 { // none yet, or about to change
		return
	}
	n, err := strconv.Atoi(fields[2])
	if err != nil || n < 1 {
		o.w.log.violation("%q is no number of shards", data)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n != o.n {
		o.n = n
		o.changes++
	}
}

// size returns the number of shards, 0 if there is none yet, and how often it has changed.
func (o *shardObserver) size() (n, changes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n, o.changes
}

// owned notes that the function of a shard was called.
func (o *shardObserver) owned(s *zkrecipes.Shard) {
	place := s.Check().Path
	line := place[:strings.LastIndexByte(place, '/')]
	o.mu.Lock()
	defer o.mu.Unlock()
	if since, ok := o.free[line]; ok && o.counts {
		o.longest = max(o.longest, time.Since(since))
	}
	delete(o.free, line)
	o.first[line] = place
}

// released notes that a place was deleted: if it was the owner's, the shard has none from then on.
func (o *shardObserver) released(place string) {
	line := place[:strings.LastIndexByte(place, '/')]
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first[line] == place {
		o.free[line] = time.Now()
		delete(o.first, line)
	}
}

// beginGaps counts how long shards have no owner from now on.
func (o *shardObserver) beginGaps() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.free) // of shards that there are no longer
	o.counts = true
}

// longestGap returns for how long a shard had no owner.
func (o *shardObserver) longestGap() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, since := range o.free {
		o.longest = max(o.longest, time.Since(since))
	}
	return o.longest
}
