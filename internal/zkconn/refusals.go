package zkconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// A server may answer that it does not carry out a request for now: it is overloaded, or does
// not take the session for one that it serves. Such requests are sent again, at a pace that
// all callers of the session share: the longer the server refuses an operation, the slower.

const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
	// forgetRefusal is how long a refusal counts if the operation is not asked for again.
	forgetRefusal = 5 * mostPause
)

// opWatch stands for all requests that set watches.
const opWatch int32 = -1

// refusals are the operations that the servers refuse for now.
type refusals struct {
	any atomic.Bool // there are some

	mu sync.Mutex
	by map[int32]*refusal
}

type refusal struct {
	err   error
	at    time.Time // of the last one
	pause time.Duration
	since time.Time // the pause has this length
	steps int       // how often it has grown
}

// backOff is called with each answer to a request, before its caller asks again. If the server
// refuses the operation for now, it waits.
func (s *Session) backOff(ctx context.Context, op int32, err error) {
	if !isForNow(err) {
		if !Transient(err) { // else nothing was answered
			s.refusals.end(op)
		}
		return
	}
	if isOfSession(err) {
		err = fmt.Errorf("%w (the server serves the connection: is the session local to one server, as localSessionsEnabled has it?)", err)
	}
	r, began, grown := s.refusals.note(op, err)
	if began {
		s.cfg.Refused(operationName(op), err)
	}
	if grown && isOfSession(err) && r.steps >= 4 && r.steps&(r.steps-1) == 0 {
		s.shakeHands(err)
	}
	select {
	case <-time.After(r.pause/2 + rand.N(r.pause/2)):
	case <-s.over:
	case <-ctx.Done():
	}
}

// isForNow reports whether a server has answered that the request may succeed later.
func isForNow(err error) bool {
	return errors.Is(err, zk.ErrNothing) || isOfSession(err) && !errors.Is(err, ErrSessionOver)
}

func isOfSession(err error) bool {
	return errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved)
}

// shakeHands closes the connection on which the server answers that the session has expired
// or moved: the handshake of the next one tells. It is called seldom, since other requests
// may be answered well: a follower that has let the session be local refuses only
// transactions.
func (s *Session) shakeHands(err error) {
	s.mu.Lock()
	nc := s.nc
	s.mu.Unlock()
	if nc != nil {
		nc.Reject(err)
	}
}

func operationName(op int32) string {
	if op == opWatch {
		return "watch"
	}
	return jute.OpName(op)
}

// note notes a refusal. began: it is the first, or the first for that reason. grown: the pause
// has become longer. It does so at most once while callers pause.
func (r *refusals) note(op int32, err error) (now refusal, began, grown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Now()
	one := r.by[op]
	switch {
	case one == nil || at.Sub(one.at) > forgetRefusal:
		one = &refusal{pause: firstPause, since: at}
		if r.by == nil {
			r.by = map[int32]*refusal{}
		}
		r.by[op] = one
		r.any.Store(true)
		began = true
	case at.Sub(one.since) >= one.pause/2:
		one.pause, one.since = min(2*one.pause, mostPause), at
		one.steps++
		grown = true
	}
	began = began || one.err.Error() != err.Error()
	one.err, one.at = err, at
	return *one, began, grown
}

// end notes that an operation was not refused.
func (r *refusals) end(op int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, op)
	r.any.Store(len(r.by) > 0)
}

// last returns why an operation was refused last, nil if none is.
func (r *refusals) last() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var at time.Time
	for op, one := range r.by {
		if time.Since(one.at) <= forgetRefusal && one.at.After(at) {
			at, err = one.at, fmt.Errorf("%s: %w", operationName(op), one.err)
		}
	}
	return err
}
