package zkconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Config is what a Session needs of its owner. No function may block. Event and OnShortened
// are called without the session's lock. Up and Down are called with it, in the
// order of what happened: they must not call the Session's methods, except ID and Timeout.
type Config struct {
	Servers     *Servers
	Timeout     time.Duration // requested; the server may change it
	Credentials []wire.Credential
	SASL        *SASL       // nil: none
	ACL         []zk.ACL    // of what the session creates
	TLS         *tls.Config // nil: none
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Tasks       *Tasks    // goroutines that outlive their callers are counted here
	Since       time.Time // when State of the session before has changed last
	Losses      int64     // of the session before, see Session.Losses
	MaxBuffer   int       // the servers' jute.maxbuffer; 0: the default

	Event       func(wire.Event)               // a watch event came; the watches that it fires have fired
	Up          func(server string)            // requests pass, for the first time or again
	Down        func(server string, err error) // they no longer do, and not because of Close
	OnShortened func()                         // ValidUntil has moved to an earlier time
	// RolledBack: the servers have lost transactions, and the session goes on.
	RolledBack func(Rollback)
	// Failed: an attempt to connect to that server has failed. Like Down, it must not
	// call the Session's methods, except ID and Timeout.
	Failed func(server string, err error)
	// NearlyFull: the session has passed 3/4 of its limit.
	NearlyFull func(Load)
	// Kills: servers close the connection at requests of so many bytes, which are given up.
	// It must not call the Session's methods.
	Kills func(bytes int)
	// Refused: servers have begun to refuse an operation for now, for a reason that may pass.
	// It must not block.
	Refused func(operation string, err error)
	// Created: CreateContainer has created a container.
	Created func(path string, data []byte, stat *zk.Stat)
	// ReadACL: a server has told the ACL of the znode at path. It must not block.
	ReadACL func(path string, acl []zk.ACL)
	// Left: an ephemeral znode of the session right below path has gone. It must not call the
	// Session's methods, nor block.
	Left func(path string)
	Log  func(level slog.Level, msg string, args ...any)
}

// Session is one ZooKeeper session on one zk.Conn. go-zookeeper would open the
// next session inside the same Conn and run there what was meant for the old one.
// Here the dialer holds it once the session has ended, and the owner opens the next
// session on a new Conn.
type Session struct {
	cfg     Config
	wire    *wire.Session
	hosts   *hosts
	account *account

	conn    *zk.Conn
	ended   <-chan struct{} // closed when go-zookeeper's last goroutine is ending
	calling Tasks           // calls of conn

	established chan struct{} // closed when requests passed for the first time
	over        chan struct{} // closed when the session has ended
	dialing     context.Context
	stopDialing context.CancelFunc
	parked      chan struct{} // closed when go-zookeeper's loop is held in the dialer
	releaseLoop chan struct{} // closed when that loop may return

	mu        sync.Mutex
	up        bool
	upChanged chan struct{} // closed and replaced whenever up changes
	upSince   time.Time
	since     time.Time            // when State has changed last
	unserved  map[Server]*contact  // see isHopeless
	failures  int                  // attempts to connect since a connection has lasted
	dials     map[string]*dialCall // by address, see dialNet
	hanging   int                  // calls that leaveDial has left
	nc        *wire.Conn
	number    uint64 // of nc
	server    Server // of nc
	ncSince   time.Time
	lastErr   error // why there is no connection
	cause     error // why the session has ended
	draining  bool  // no request begins any more
	watches   map[watchKey]*Watch
	// predecessors has the PredecessorWatches that have not fired, by their paths.
	predecessors map[string]*PredecessorWatch
	trees        []*TreeWatch    // those that are not lost
	treesApart   uint64          // the last connection on which other watches on their paths do no harm
	withoutZxids uint64          // the last connection of which an event bore no zxid
	newHistory   chan struct{}   // closed and replaced when the servers may have lost transactions
	lost         map[string]bool // see WasLost
	mayBeLost    []string        // those of which it is known when requests pass; see noteRearmed

	killers  killers
	refusals refusals

	treeCalls sync.Mutex // orders the requests that add and remove the watches of trees; before mu
}

// New returns a Session that has not begun to connect.
func New(cfg Config) *Session {
	s := &Session{
		cfg: cfg, hosts: &hosts{servers: cfg.Servers},
		established: make(chan struct{}), over: make(chan struct{}),
		parked: make(chan struct{}), releaseLoop: make(chan struct{}),
		upChanged:    make(chan struct{}),
		unserved:     map[Server]*contact{},
		dials:        map[string]*dialCall{},
		watches:      map[watchKey]*Watch{},
		predecessors: map[string]*PredecessorWatch{},
		newHistory:   make(chan struct{}),
		lost:         map[string]bool{},
		since:        cfg.Since,
	}
	s.account = newAccount(cmp.Or(cfg.MaxBuffer, jute.MaxFrame), cfg.Left)
	s.dialing, s.stopDialing = context.WithCancel(context.Background())
	s.wire = wire.NewSession(wire.Config{
		Timeout:     cfg.Timeout,
		Credentials: cfg.Credentials,
		Losses:      cfg.Losses,
		Armed:       s.onArmed,
		Event:       s.onEvent,
		Up:          s.onUp,
		Down:        s.onDown,
		OnShortened: cfg.OnShortened,
		Ephemerals:  s.onEphemerals,
	})
	return s
}

// Open starts to connect, and returns at once.
func (s *Session) Open() error {
	// The dialer may run before Connect has returned. Nothing that it calls touches
	// s.conn.
	conn, events, err := zk.Connect([]string{"unused"}, s.cfg.Timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(provider{s.releaseLoop}),
		zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		// The largest request, and some room: go-zookeeper panics on one that just
		// fills its buffer.
		zk.WithMaxConnBufferSize(1<<20+1024))
	if err != nil {
		s.stopDialing()
		return err
	}
	s.conn = conn
	done := make(chan struct{})
	s.ended = done
	go func() {
		defer close(done)
		for range events { // closed last of all; go-zookeeper drops what does not fit
		}
	}()
	return nil
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Lifetime returns the context of a request whose outcome must be known. It never
// ends: the request returns when it is answered, or with ErrSessionOver when the
// session ends.
func (s *Session) Lifetime() context.Context { return context.Background() }

// ID returns ZooKeeper's session id, 0 before the first handshake.
func (s *Session) ID() int64 { return s.wire.ID() }

// Timeout returns the negotiated session timeout.
func (s *Session) Timeout() time.Duration { return s.wire.Timeout() }

// ValidUntil returns the moment until which the session is known to be alive if the
// servers say nothing more.
func (s *Session) ValidUntil() time.Time { return s.wire.ValidUntil() }

// Established returns a channel that is closed when requests pass for the first
// time.
func (s *Session) Established() <-chan struct{} { return s.established }

// IsEstablished reports whether requests have ever passed.
func (s *Session) IsEstablished() bool { return isClosed(s.established) }

// Over returns a channel that is closed when the session has ended.
func (s *Session) Over() <-chan struct{} { return s.over }

// IsOver reports whether the session has ended.
func (s *Session) IsOver() bool { return isClosed(s.over) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Cause returns why the session has ended, nil while it has not.
func (s *Session) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Connected reports whether requests pass, and returns a channel that is closed
// when that changes.
func (s *Session) Connected() (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up, s.upChanged
}

// State returns what Connected does, false once the session has ended, together with the
// server and since when that is so. The server is empty if requests do not pass.
func (s *Session) State() (up bool, server string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if up = s.up && s.cause == nil; up {
		server = s.server.String()
	}
	return up, server, s.since
}

// Connection returns the number of the newest connection, or ErrSessionOver if
// requests are no longer accepted. Numbers grow.
func (s *Session) Connection() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil || s.draining {
		return s.number, ErrSessionOver
	}
	return s.number, nil
}

// LastError returns why there is no connection.
func (s *Session) LastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr
}

// Ready waits until requests pass. Callers that can give up wait here, before there
// is a request: calls that wait inside go-zookeeper cannot be taken back, and would
// all be sent after the reconnect.
func (s *Session) Ready(ctx context.Context) error {
	for {
		up, changed := s.Connected()
		if up && ctx.Err() == nil {
			return nil
		}
		select {
		case <-changed:
		case <-s.over:
			return ErrSessionOver
		case <-ctx.Done():
			return s.ContextErr(ctx)
		}
	}
}

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
	s.cfg.Up(s.server.String())
}

// onDown is called by internal/wire.
func (s *Session) onDown(conn uint64, err error) {
	s.mu.Lock()
	s.losePredecessors(conn)
	s.loseTrees(nil, func(w *TreeWatch) bool { return w.conn == conn })
	if s.nc == nil || s.number != conn { // there is a newer connection
		s.mu.Unlock()
		return
	}
	s.noteContact(err)
	s.noteKiller(err)
	switch {
	case s.up && s.cause == nil: // else the owner has closed the session, and knows
		s.cfg.Down(s.server.String(), err)
	case s.cause == nil && !s.wire.Over(): // else the server is not at fault
		s.cfg.Failed(s.server.String(), err)
	}
	s.setUp(false)
	s.nc = nil
	s.lastErr = fmt.Errorf("%s: %w", s.server, err)
	s.mu.Unlock()
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
func (s *Session) noteKiller(err error) {
	if !s.up || !wire.IsServers(err) {
		return
	}
	if n := s.killers.note(s.nc.LargestUnanswered(), s.wire.LargestAnswered()); n > 0 {
		s.cfg.Kills(n)
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

// finish notes that the session has ended, once.
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
	s.leaveDials()
}

// Close ends the session's goroutines and, where it has not ended, the session,
// for that cause. If orderly it waits for go-zookeeper's calls under way and tells the
// server to end the session; it returns true if the server did.
func (s *Session) Close(orderly bool, cause error) bool {
	s.mu.Lock()
	s.draining = true
	up := s.up
	s.mu.Unlock()
	orderly = orderly && up
	late := time.After(s.Timeout() / 4)
	if orderly {
		// Conn.Close with calls under way is a data race in go-zookeeper.
		select {
		case <-s.calling.Done():
		case <-late:
			orderly = false
		}
	}
	s.finish(cause) // no connection is made from here on
	closed := make(chan struct{})
	closeConn := func() {
		defer close(closed)
		s.conn.Close()
	}
	if orderly {
		go closeConn()
		<-closed // with the server's answer, or after a second
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
	<-s.calling.Done()
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
