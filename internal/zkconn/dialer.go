package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// dialCall is a call of Config.Dial.
type dialCall struct {
	began time.Time
	left  bool // nobody wants its result; Session.mu guards it
	done  chan struct{}
	nc    net.Conn
	err   error
}

// dialNet calls Config.Dial, which is the user's and may ignore its context. The next
// attempts wait for a call that does so, see dialCall.
func (s *Session) dialNet(ctx context.Context, address string) (net.Conn, error) {
	d := s.dialCall(ctx, address)
	select {
	case <-d.done:
	case <-ctx.Done():
		select {
		case <-d.done: // a Dialer that returns when its context ends says what has failed
		case <-time.After(10 * time.Millisecond):
			return nil, fmt.Errorf("the dialer has not returned: %w", ContextErr(ctx))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dials, address)
	return d.nc, d.err
}

// maxHanging bounds the calls of Config.Dial that hang for longer than the session
// timeout.
const maxHanging = 3

// dialCall returns the call that an attempt has left, or a new one: if there is none, if
// it failed too late for its attempt, and if it has hung for very long.
func (s *Session) dialCall(ctx context.Context, address string) *dialCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.dials[address]; d != nil {
		hangs := !isClosed(d.done) && time.Since(d.began) > s.Timeout() && s.hanging < maxHanging
		failed := isClosed(d.done) && d.err != nil
		if !hangs && !failed {
			return d
		}
		s.leaveDial(d)
	}
	d := &dialCall{began: time.Now(), done: make(chan struct{})}
	s.dials[address] = d
	go s.runDial(ctx, address, d)
	return d
}

func (s *Session) runDial(ctx context.Context, address string, d *dialCall) {
	nc, err := s.cfg.Dial(ctx, "tcp", address)
	if nc == nil && err == nil {
		err = errors.New("the dialer has returned no connection")
	}
	s.mu.Lock()
	unwanted := err == nil && (d.left || s.cause != nil || s.nc != nil)
	if unwanted {
		err = errors.New("the dialer has returned too late")
	}
	d.nc, d.err = nc, err
	close(d.done)
	if d.left {
		s.hanging--
	}
	s.mu.Unlock()
	if unwanted {
		nc.Close()
	}
}

// leaveDials leaves the calls of Config.Dial to themselves: all of them, or those that have come too
// late. Then the next attempt at a server waits for a call that still hangs. s.mu must be held.
func (s *Session) leaveDials(all bool) {
	for address, d := range s.dials {
		if all || isClosed(d.done) {
			s.leaveDial(d)
			delete(s.dials, address)
		}
	}
}

func (s *Session) leaveDial(d *dialCall) {
	switch {
	case !isClosed(d.done):
		d.left = true
		s.hanging++
	case d.err == nil:
		go d.nc.Close() // the user's
	}
}
