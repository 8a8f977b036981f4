package zkconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Config is what a Session needs of its owner. No function may block. Event, OnShortened and Failed
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
	// RolledBack: the servers have lost transactions, and the session goes on. These znodes, which
	// it had deleted, are back, and so many are missing.
	RolledBack func(returned []string, lost int)
	// Failed: an attempt to connect to that server has failed.
	Failed func(server string, err error)
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
	account *account

	conn  *zk.Conn
	ended <-chan struct{} // closed when go-zookeeper's last goroutine is ending

	established chan struct{} // closed when requests passed for the first time
	over        chan struct{} // closed when the session has ended
	dialing     context.Context
	stopDialing context.CancelFunc
	order       []Server      // in which the servers are tried, the next one first; only dial uses it
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
		cfg:         cfg,
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
		MaxRequest:  MaxRequest(cfg.MaxBuffer),
		Watches:     s.setWatches,
		Event:       s.onEvent,
		Up:          s.onUp,
		Down:        s.onDown,
		OnShortened: cfg.OnShortened,
		Ephemerals:  s.onEphemerals,
	})
	return s
}

// UntilAnswered returns the context of a request whose outcome must be known. It never
// ends: the request returns when it is answered, or with ErrSessionOver when the
// session ends.
func (s *Session) UntilAnswered() context.Context { return context.Background() }

// Name returns the session id as ZooKeeper's tools print it, which is unsigned.
func (s *Session) Name() string { return wire.SessionName(s.ID()) }

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
	if s.cause != nil {
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

// Ready waits until requests pass. Callers wait here, before there is a request, and so can give up.
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

// passing returns the connection, if the frames can be sent on it now.
func (s *Session) passing(frames ...[]byte) (*wire.Conn, error) {
	for _, frame := range frames {
		if err := CheckSize(len(frame)-4, s.cfg.MaxBuffer); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	nc, up, over := s.nc, s.up, s.cause != nil
	s.mu.Unlock()
	switch {
	case over:
		return nil, ErrSessionOver
	case !up || nc == nil:
		return nil, ErrNotSent
	}
	return nc, nil
}

// MaxRequest returns the size of the largest request that servers with that jute.maxbuffer
// accept; 0: the default. The session itself needs smallestBuffer.
func MaxRequest(maxBuffer int) int { return max(cmp.Or(maxBuffer, jute.MaxFrame), smallestBuffer) }

// smallestBuffer is less than the jute.maxbuffer of any server.
const smallestBuffer = 4 << 10

// CheckSize returns ErrTooLarge for a request of n bytes, if that is more than servers with
// that jute.maxbuffer accept.
func CheckSize(n, maxBuffer int) error {
	if most := MaxRequest(maxBuffer); n > most {
		return Errorf(ErrTooLarge, "request of %d bytes: servers accept %d (jute.maxbuffer)", n, most)
	}
	return nil
}

// ACL returns the list of everything that the session creates, outside of lines that have another.
// Servers give each distinct list a number, and free it with the last znode that has the list (class
// ReferenceCountedACLCache). A list of a session's or a place's own would come and go with it. Up to
// ZooKeeper 3.9.5, a server that is killed then may never start again (ZOOKEEPER-4799,
// ZOOKEEPER-4846, ZOOKEEPER-4689).
func (s *Session) ACL() []zk.ACL { return s.cfg.ACL }
