package zkconn

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// A session from Open to its end, and what internal/wire says of its connections meanwhile.

// Open starts to connect, and returns at once.
func (s *Session) Open() {
	// The dialer may run before Connect has returned. Nothing that it calls touches s.conn.
	conn, events, err := zk.Connect([]string{"unused"}, s.cfg.Timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(provider{s.releaseLoop}),
		zk.WithMaxBufferSize(connBuffer), zk.WithMaxConnBufferSize(connBuffer),
		zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		panic(err) // it fails only if there is no server in the list, or Init of the provider fails
	}
	s.conn = conn
	done := make(chan struct{})
	s.ended = done
	go func() {
		defer close(done)
		for range events { // closed last of all; go-zookeeper drops what does not fit
		}
	}()
}

// connBuffer is room for what go-zookeeper sends and is shown, which are headers. By default it has two
// buffers of 1.5 MB for each connection.
const connBuffer = 1 << 10

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// onUp is called by internal/wire.
func (s *Session) onUp(conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nc == nil || s.number != conn { // that connection has ended in the meantime
		return
	}
	s.setUp(true)
	s.mayBeLost = nil
	s.upSince, s.lastErr = time.Now(), nil
	if !s.IsEstablished() {
		close(s.established)
	}
	s.cfg.Up(s.server.String()) // Z6
}

// onDown is called by internal/wire.
func (s *Session) onDown(conn uint64, lost wire.Lost) {
	err := lost.Cause
	s.mu.Lock()
	s.losePredecessors(conn)
	s.loseTrees(nil, func(w *TreeWatch) bool { return w.conn == conn })
	if s.nc == nil || s.number != conn { // there is a newer connection
		s.mu.Unlock()
		return
	}
	s.noteContact(lost)
	s.noteKiller(lost)
	server, failed := s.server.String(), false
	switch {
	case s.up && s.cause == nil: // else the owner has closed the session, and knows
		s.cfg.Down(server, err)
	case s.cause == nil && !s.wire.Over(): // else the server is not at fault
		failed = true
	}
	s.setUp(false)
	s.nc = nil
	s.lastErr = fmt.Errorf("%s: %w", s.server, err)
	s.mu.Unlock()
	if failed {
		s.cfg.Failed(server, err)
	}
	if s.wire.Over() {
		s.finish(zk.ErrSessionExpired)
		return
	}
	s.endIfRefused(err)
}

// endIfRefused ends a session that was never established if that is because a credential, or the
// principal of SASL, was refused. A session that lives tries on: its servers may have been
// configured anew, one after the other.
func (s *Session) endIfRefused(err error) {
	var refused *wire.AuthError
	if errors.As(err, &refused) && !s.IsEstablished() {
		s.finish(refused)
	}
}

// noteKiller notes that the server has closed the connection, perhaps because of a request. s.mu
// must be held.
func (s *Session) noteKiller(lost wire.Lost) {
	if !s.up || !wire.IsServers(lost.Cause) {
		return
	}
	if n := s.killers.note(lost.Unanswered); n > 0 {
		s.cfg.Log(slog.LevelError, "servers close the connection at a request of this size, so it is given up", "session", s.Name(), "bytes", n)
	}
}

// setUp is called with s.mu held.
func (s *Session) setUp(up bool) {
	if s.up != up {
		s.up = up
		if s.cause == nil {
			s.since = time.Now()
		}
		close(s.upChanged)
		s.upChanged = make(chan struct{})
	}
}

// finish notes that the session has ended, once (Z7).
func (s *Session) finish(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = cause
	if s.up { // it is being closed
		s.since = time.Now()
	}
	close(s.over)
	s.stopDialing()
	s.leaveDials(true)
}

// Close ends the session's goroutines and, where it has not ended, the session,
// for that cause. If orderly it tells the server to end the session; it returns true if the server did.
func (s *Session) Close(orderly bool, cause error) bool {
	s.finish(cause) // no connection is made, and no request begins, from here on
	up, _ := s.Connected()
	orderly = orderly && up
	late := time.After(s.Timeout() / 4)
	closed := make(chan struct{})
	closeConn := func() {
		defer close(closed)
		s.conn.Close()
	}
	if orderly {
		closeConn() // returns with the server's answer, or after a second
		if !s.wire.Over() {
			// go-zookeeper still reads the answer, behind which the server closes the connection.
			select {
			case <-s.ended:
			case <-s.parked: // the connection was lost before
			case <-late:
			}
		}
	}
	clean := orderly && s.wire.Over()
	s.endLoop(orderly, closeConn)
	<-closed
	return clean
}

// endLoop ends go-zookeeper's loop. zk.Conn.Close takes a second where the Conn is not
// connected, unless its loop is at the host provider. So the loop is held in the dialer
// until zk.Conn.Close has begun, and then sent round once more with retryStart, which
// makes it look whether it should quit.
func (s *Session) endLoop(closed bool, closeConn func()) {
	s.mu.Lock()
	nc := s.nc
	s.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
	select {
	case <-s.parked:
	case <-s.ended: // only once Conn.Close was called
	}
	if !closed {
		go closeConn()
		// Close has to queue its request before the loop goes round. If it has not
		// run by then, it takes its second.
		select {
		case <-s.ended:
		case <-time.After(3 * time.Millisecond):
		}
	}
	close(s.releaseLoop)
	<-s.ended
}
