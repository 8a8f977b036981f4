package zktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// run is the time from a start of the server to its stop.
type run struct {
	listener net.Listener // nil in memory
	over     chan struct{}
	wg       sync.WaitGroup // the accept loop and the connections
}

func (r *run) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

var (
	errClosed  = errors.New("zktest: server is closed")
	errStopped = errors.New("zktest: server is stopped")
	errRunning = errors.New("zktest: server is running")
	errOutside = errors.New("zktest: server was started outside the synctest bubble of its client")
)

// begin begins a run that listens on addr. Sessions and containers count their time
// from now.
func (s *Server) begin(addr string) error {
	r := &run{over: make(chan struct{})}
	if !s.opt.inMemory {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
		if err != nil {
			return err
		}
		r.listener = l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case s.closed:
		err = errClosed
	case s.run != nil && !s.run.isOver(): // another Restart was quicker
		err = errRunning
	}
	if err != nil {
		if r.listener != nil {
			r.listener.Close()
		}
		return err
	}
	if r.listener != nil {
		if s.run == nil {
			s.addr = r.listener.Addr().String()
		}
		r.wg.Add(1)
		go s.acceptLoop(r)
	}
	s.run, s.started = r, time.Now()
	// As on a real server, the low 16 bits count sessions and the bits above
	// them are the start time (SessionTrackerImpl.initializeNextSessionId).
	s.nextID = max(s.nextID, int64(uint64(s.started.UnixMilli())<<24>>8))
	for _, ss := range s.sessions {
		s.touch(ss, s.started)
	}
	s.scheduleContainerCheck(s.started)
	s.wakeBefore(s.started)
	return nil
}

// Stop stops the server, as if its process had ended: it closes all connections and
// does not listen any more. In memory, Dial fails. The znodes and the sessions stay,
// and time stands still for them, until Restart. Stop returns when no request is being
// served any more. It does nothing if the server is stopped.
func (s *Server) Stop() {
	s.mu.Lock()
	r := s.run
	if !r.isOver() {
		close(r.over)
		if r.listener != nil {
			r.listener.Close()
		}
		for c := range s.conns {
			c.drop()
		}
	}
	s.mu.Unlock()
	r.wg.Wait()
}

// Restart starts a stopped server again, on the same address. As after the restart of
// a real server, clients can resume their sessions, each of which has its whole
// timeout from now on. Watches are gone; clients set them again when they resume.
// Restart returns an error if the server runs or is closed, or if it cannot listen.
func (s *Server) Restart() error {
	s.mu.Lock()
	r, closed := s.run, s.closed
	s.mu.Unlock()
	err := errRunning
	switch {
	case closed:
		err = errClosed
	case r.isOver():
		r.wg.Wait() // for a Stop that has not returned yet
		err = s.begin(s.addr)
	}
	if err != nil {
		return fmt.Errorf("zktest: start again: %w", err)
	}
	return nil
}

// Close closes all connections and waits for the server's goroutines to return.
// The data is lost. It is safe to call Close more than once.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.opt.plan.end()
		close(s.done)
	}
	s.mu.Unlock()
	s.Stop()
	s.clock.Wait()
}
