package zkrecipes

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/counter"
)

// ErrOverflow is returned by Counter.Add if the sum does not fit into an int64. Nothing was
// added.
var ErrOverflow = counter.ErrOverflow

// The recipe: read the value, and write the new one if nobody was quicker. A receipt tells later
// whether a write whose reply was lost was carried out (internal/counter, write.go).

// Counter is an integer of 64 bits that many processes change. It is the decimal text in the
// data of the znode at the path, as kazoo's Counter of integers has it: both can use one
// path. It is only a name. Values are safe for concurrent use.
//
// Each write is a commit of the ensemble, some thousands a second at best. Calls of one Client
// that wait while a write is under way are carried out by one write together. If others were
// quicker three times, a Client waits for its turn in a line, and does so for ten seconds
// after it has met others there. Others that do not stand in the line, such as kazoo's, may
// still be quicker.
//
// The znode is created at the first write, with 0, and stays. Its ACL is Options.ACL, so that
// others may write it. A znode that exists and has no data counts as 0. Below the path stand
// the znodes of the line and of the receipts, which kazoo does not read. Do not delete the
// path while it is in use: a call under way may write what it had been.
type Counter struct{ counter *counter.Counter } // nil: the zero Counter

// NewCounter returns the counter with that path. It sends nothing. An invalid path is reported
// on first use.
func NewCounter(c *Client, path string) *Counter { return &Counter{counter.New(c.core(), path)} }

// self returns what carries out the calls, nil unless x was made by NewCounter.
func (x *Counter) self() *counter.Counter {
	if x == nil {
		return nil
	}
	return x.counter
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (x *Counter) Path() string { return x.self().Path() }

// Get returns the value, and 0 if there is no znode. It blocks until a server has caught up
// with its leader and answered. By the time it returns, the value may have changed.
// ErrPathInUse is returned if the data are no integer of 64 bits. Cost: two requests.
func (x *Counter) Get(ctx context.Context) (int64, error) {
	v, err := x.self().Get(ctx)
	return v, fail("read counter", x.Path(), err)
}

// Add adds delta, which may be negative, and returns the value after it. It blocks until a
// server has answered, through disconnections. It is carried out once or not at all:
//
//   - nil: once. If the reply is lost, a receipt tells whether it was.
//   - ErrUncertain: it is not known. The session, or ctx, ended before the reply came.
//   - Any other error: not at all. ErrOverflow is returned if the sum does not fit into an
//     int64, ErrPathInUse if the data are no integer or the path is a queue's, ErrEvicted if
//     somebody deleted the Client's znode in the line, and ctx's error if ctx ended first.
//
// Cost: one request and one commit, for all calls of the Client that wait at that time
// together. If others have written in the meantime, three requests and one commit more for each
// time that they were quicker. In the line it costs what a Mutex does and one read. The first
// write in a session, and after half a minute without one, costs a read and one more request
// and commit, and the first one of all a few more.
func (x *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	v, err := x.self().Do(ctx, counter.Add(delta))
	if err != nil {
		v = 0
	}
	return v, fail("add to counter", x.Path(), err)
}

// Set sets the value, whatever it is. It blocks, fails and costs as Add does.
func (x *Counter) Set(ctx context.Context, value int64) error {
	_, err := x.self().Do(ctx, func(int64) (int64, error) { return value, nil })
	return fail("set counter", x.Path(), err)
}

// errOther is the error of a CompareAndSet that finds another value.
var errOther = errors.New("the counter has another value")

// CompareAndSet sets the value if it is old, and reports whether it was. It blocks, fails and
// costs as Add does. If the value is another one, it costs two requests, or three, and no
// commit.
func (x *Counter) CompareAndSet(ctx context.Context, old, value int64) (swapped bool, err error) {
	_, err = x.self().Do(ctx, func(v int64) (int64, error) {
		if v != old {
			return v, errOther
		}
		return value, nil
	})
	if errors.Is(err, errOther) {
		return false, nil
	}
	return err == nil, fail("compare and set counter", x.Path(), err)
}
