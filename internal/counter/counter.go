// Package counter has the writes of a Counter: the calls of a process that wait while one is
// under way become one. The package above checks what users give, and wraps errors.
package counter

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// On the wire, with the value as decimal text in the data of the path, as kazoo's Counter has
// it, which reads nothing else:
//
//	<path>/puts/<receipt>   of a write, as a queue has them; ephemeral, one for each process
//	<path>/line             those that wait for their turn to write; an ordinary line
//	<path>/counter          keeps a path that somebody else has made from being deleted
//
// A write checks the version of the data that it rests on, so it is lost if anybody else has
// written meanwhile. Whose write it was that made the next version, a reader cannot tell: others
// may have written the same number. So a write whose reply was lost is settled by a receipt.

// Counter is a counter.
type Counter struct {
	at   session.At
	line *line.Line
}

// New returns the counter with that path. It sends nothing.
func New(c *session.Client, path string) *Counter {
	return &Counter{
		at: session.At{Client: c, Path: path, Recipe: "counter"},
		line: &line.Line{
			At: session.At{Client: c, Path: path + "/line", Recipe: "counter"}, Kinds: layout.LockKinds, RejoinsIfDeleted: true,
			Blocks: line.EveryoneBlocks, Foreign: layout.IsRWLockKind,
		},
	}
}

// Path returns the path as the caller gave it, and none for nil.
func (x *Counter) Path() string {
	if x == nil {
		return ""
	}
	return x.at.Path
}

func (x *Counter) check(ctx context.Context) error {
	if x == nil {
		return errors.New("not made by NewCounter")
	}
	return x.at.Client.Check(ctx, x.at.Path)
}

// ErrOverflow is returned for a sum that is no int64.
var ErrOverflow = errors.New("the sum does not fit into an int64")

// Change returns the value that follows v, or why the call changes nothing.
type Change func(v int64) (int64, error)

// Add is the change that adds delta.
func Add(delta int64) Change {
	return func(v int64) (int64, error) {
		if delta > 0 && v > math.MaxInt64-delta || delta < 0 && v < math.MinInt64-delta {
			return v, ErrOverflow
		}
		return v + delta, nil
	}
}

// Get reads the value.
func (x *Counter) Get(ctx context.Context) (v int64, err error) {
	if err := x.check(ctx); err != nil {
		return 0, err
	}
	ctx, done := x.at.Client.Bind(ctx)
	defer done()
	return session.InSessions(ctx, x.at.Client, func(s *session.Session) (int64, error) {
		if err := s.Sync(ctx, x.at.Abs()); err != nil {
			return 0, err
		}
		data, stat, err := s.Get(ctx, x.at.Abs())
		if errors.Is(err, zk.ErrNoNode) {
			return 0, nil
		}
		if err == nil {
			v, err = x.parse(ctx, s, data, stat)
		}
		return v, err
	})
}

// parse returns the value in the data. There are none before the first write of a znode that
// others have created.
func (x *Counter) parse(ctx context.Context, s *session.Session, data []byte, stat *zk.Stat) (int64, error) {
	if len(data) == 0 {
		if stat.NumChildren == 0 {
			return 0, nil
		}
		return 0, layout.CheckUnmarked(ctx, s.Session, x.at.Abs())
	}
	v, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, zkconn.Errorf(zkconn.ErrPathInUse, "path holds no integer of 64 bits: %.40q", data)
	}
	return v, nil
}

// call is one that waits for its change.
type call struct {
	change Change
	value  int64
	err    error
	done   chan struct{}

	// taken: it is part of a write that may be under way.
	taken bool
	left  bool
}

// Do carries out a change and returns the value after it.
func (x *Counter) Do(ctx context.Context, change Change) (int64, error) {
	if err := x.check(ctx); err != nil {
		return 0, err
	}
	c := x.at.Client
	if !c.Writes.Begin() {
		return 0, errs.ErrClosed
	}
	defer c.Writes.End()
	ctx, done := c.Bind(ctx)
	defer done()
	if ctx.Err() != nil {
		return 0, c.ContextErr(ctx)
	}
	one := &call{change: change, done: make(chan struct{})}
	w := writersOf(c).add(x, one)
	select {
	case <-one.done:
	case <-ctx.Done():
		if taken, ended := w.leave(one); !ended {
			return 0, errs.UncertainIf(taken, c.ContextErr(ctx))
		}
	}
	return one.value, one.err
}

// crowded is for how long a writer waits for its turn at once after it has met others.
const crowded = 10 * time.Second
