// Package wire is the net.Conn that go-zookeeper is handed in place of the
// TCP or TLS connection. It reads along, both ways, and mends from there what
// go-zookeeper v1.0.4 leaves open: credentials are presented before anything
// else can happen on a connection, requests wait until the watches are armed
// again, a session that has ended is never replaced by another one behind the
// caller's back, and the moment until which the session is known to be alive
// is kept.
package wire

import (
	"maps"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Credential is presented to the server in every handshake.
type Credential struct {
	Scheme string
	Auth   []byte
	// Optional credentials are given up when the server refuses them; any
	// other that is refused ends the handshake with an AuthError.
	Optional bool
}

// Event is a watch event as it came over a connection.
type Event struct {
	Type int32 // jute.EventDeleted and its like
	Path string
	Conn uint64 // the number of the connection, from Session.Attempt
}

// Config says what a Session is to do and whom it tells. The functions are
// called in the order of what came over the connection, before go-zookeeper has
// seen the frame or the connection's end; they must not block. Only Up can come
// late, after the connection's Down.
type Config struct {
	Timeout     time.Duration // asked for; the server answers with its own
	Credentials []Credential
	Leases      func() bool                    // whether any lease is out
	Armed       func(path string, conn uint64) // a data watch was confirmed on conn
	Event       func(Event)
	Up          func(conn uint64)            // requests pass
	Down        func(conn uint64, err error) // the connection has ended
}

type watchKind uint8

const (
	watchData watchKind = iota
	watchExist
	watchChild
)

type watch struct {
	path string
	kind watchKind
}

// Session is what outlives the connections of one ZooKeeper session.
type Session struct {
	cfg Config

	mu       sync.Mutex
	attempts uint64
	id       int64 // 0: none yet
	password []byte
	timeout  time.Duration
	lastZxid int64
	proved   time.Time // when the last request that was answered was sent
	refused  map[int]bool
	over     bool
	// watches mirrors go-zookeeper's table of armed watches.
	watches map[watch]struct{}
}

// NewSession returns a Session that has no connection yet.
func NewSession(cfg Config) *Session {
	return &Session{cfg: cfg, timeout: cfg.Timeout, refused: map[int]bool{}, watches: map[watch]struct{}{}}
}

// Attempt numbers the next connection. Numbers rise, and none is 0.
func (s *Session) Attempt() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	return s.attempts
}

// ID returns the session's id, 0 before the first handshake.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Timeout returns the negotiated session timeout, before the first handshake
// the one that is asked for. Another server may answer with another one.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// ValidUntil returns the moment until which the servers keep the session if
// they hear nothing more: it was alive when one answered, and its timeout counts
// from a moment after the request was sent. One per cent of the timeout is taken
// off for clocks that drift. (A follower that dies, or is cut off, before it has
// told the leader of a request that it answered makes it untrue.) The value
// carries a monotonic reading.
func (s *Session) ValidUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proved.IsZero() {
		return s.proved
	}
	return s.proved.Add(s.timeout - s.timeout/100)
}

// Over reports whether a server has said that the session has ended, because it
// had expired or because it was asked to end it.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Refused reports whether the server refused the optional credential i.
func (s *Session) Refused(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[i]
}

func (s *Session) prove(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.proved) {
		s.proved = sent
	}
}

func (s *Session) saw(zxid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastZxid = max(s.lastZxid, zxid)
}

func (s *Session) zxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastZxid
}

func (s *Session) refuse(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[i] = true
}

// arm notes the watch that an answered request has set.
func (s *Session) arm(path string, kind watchKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[watch{path, kind}] = struct{}{}
}

// fire forgets the watches that go-zookeeper forgets on such an event.
func (s *Session) fire(event int32, path string) {
	var kinds []watchKind
	switch event {
	case jute.EventCreated:
		kinds = []watchKind{watchExist}
	case jute.EventDataChanged:
		kinds = []watchKind{watchExist, watchData}
	case jute.EventChildrenChanged:
		kinds = []watchKind{watchChild}
	case jute.EventDeleted:
		kinds = []watchKind{watchExist, watchData, watchChild}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		delete(s.watches, watch{path, kind})
	}
}

// adopt takes over what a ConnectResponse granted and returns the watches that
// have to be armed again, and whether the session existed before.
func (s *Session) adopt(r connectResponse, sent time.Time) (rearm map[watch]struct{}, resumed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resumed = s.id != 0
	s.id, s.password, s.timeout = r.id, r.password, r.timeout
	if sent.After(s.proved) {
		s.proved = sent
	}
	return maps.Clone(s.watches), resumed
}

func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
