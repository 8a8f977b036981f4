package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// An id has a time of 41 bits, in milliseconds since epoch, a slot of 8 and a count of 14.
// That lasts for 69 years, 256 workers and 16 million ids a second of each.
const (
	slotBits  = 8
	countBits = 14
)

var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// ahead is how much time is reserved at once. It is what a new holder may have to begin
// ahead of its clock, and how often a holder writes.
const ahead = 1000 // ms

// generator makes the ids of one slot, for as long as its lease is held. It is for one
// goroutine.
type generator struct {
	lease    *zkrecipes.SlotLease
	path     string // its data is the time up to which the slot's times are reserved
	version  int32
	time     int64 // of the last id
	reserved int64 // the last time that is reserved
	count    int64 // of the last id
}

// newGenerator returns a generator that begins behind all times that were reserved for
// the slot before.
func newGenerator(ctx context.Context, lease *zkrecipes.SlotLease) (*generator, error) {
	if lease.Slot() >= 1<<slotBits {
		return nil, fmt.Errorf("no id has room for slot %d", lease.Slot())
	}
	g := &generator{lease: lease, path: fmt.Sprintf("/reserved-%d", lease.Slot())}
	data, stat, err := lease.Get(ctx, g.path)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = lease.Commit(ctx, zkrecipes.OpCreate(g.path, []byte("0"), 0, nil))
		return g, err
	}
	if err != nil {
		return nil, err
	}
	g.version = stat.Version
	g.reserved, err = strconv.ParseInt(string(data), 10, 64)
	g.time = g.reserved + 1
	return g, err
}

// next returns the next id. It writes to ZooKeeper once a second at most.
func (g *generator) next(ctx context.Context) (int64, error) {
	now := max(time.Now().UnixMilli()-epoch, g.time)
	count := int64(0)
	if now == g.time {
		count = g.count + 1
	}
	if count == 1<<countBits { // the millisecond is used up
		now, count = now+1, 0
	}
	if now > g.reserved {
		if err := g.reserve(ctx, now+ahead); err != nil {
			return 0, err
		}
	}
	g.time, g.count = now, count
	return now<<(slotBits+countBits) | int64(g.lease.Slot())<<countBits | count, nil
}

// reserve reserves the times up to this one, if the slot is still held.
func (g *generator) reserve(ctx context.Context, to int64) error {
	rs, err := g.lease.Commit(ctx, zkrecipes.OpSet(g.path, strconv.AppendInt(nil, to, 10), g.version))
	if err != nil {
		return err
	}
	g.version, g.reserved = rs[0].Stat.Version, to
	return nil
}
