package wire

import (
	"fmt"
	"sync"
	"time"
)

// Credential is presented to the server in every handshake. If the server refuses it, the
// handshake fails with an AuthError.
type Credential struct {
	Scheme string
	Auth   []byte
}

// Event is a watch event as the server sent it.
type Event struct {
	Type int32 // jute.EventDeleted and so on
	Path string
	Conn uint64 // the number of the connection, from Session.Attempt
	// Zxid is that of the transaction that fired it (ZOOKEEPER-4655). -1: unknown, as for all
	// events of servers before 3.9, and for those with which a watch fires as it is armed again.
	Zxid int64
	// Rearmed: it came on a resumed connection before requests passed there.
	Rearmed bool
}

// Config configures a Session. The functions are called in the order of what came over the connection,
// before go-zookeeper has seen its end. They must not block. Only Up, Event and Ephemerals can be called
// late, after Down of the same connection.
type Config struct {
	Timeout     time.Duration // requested; the server may change it
	Credentials []Credential
	Losses      int64 // of the session before
	MaxRequest  int   // the size of the largest request that the servers accept
	// Watches returns those that were answered and have not fired.
	Watches     func() Watches
	Event       func(Event)
	Up          func(conn uint64)            // requests pass
	Down        func(conn uint64, lost Lost) // the connection is closed
	OnShortened func()                       // ValidUntil has moved to an earlier time
	// Ephemerals is called with the session's ephemeral znodes when it is resumed. mayHaveLost:
	// the servers may have lost transactions since it was called before, see epoch.go.
	Ephemerals func(paths []string, mayHaveLost bool)
}

// Lost is how a connection was when it was closed.
type Lost struct {
	Cause      error
	Answered   bool // the server had sent a ConnectResponse
	Served     bool // it had done more: it had answered a request, or the gate had opened
	Unanswered int  // the size of the largest Call under way; 0 if there was none, or one as large was ever answered
}

// Session is the state of one ZooKeeper session that outlives its connections.
type Session struct {
	cfg Config

	mu         sync.Mutex
	attempts   uint64
	id         int64 // 0 before the first handshake
	password   []byte
	timeout    time.Duration
	replyZxid  int64 // the highest of a reply, see armedFrom
	seenZxid   int64 // the highest of a reply or an event, see sawEvent
	history    history
	validUntil time.Time
	over       bool
	largest    int // see largestAnswered
}

// NewSession returns a Session that has no connection yet.
func NewSession(cfg Config) *Session {
	return &Session{
		cfg: cfg, timeout: cfg.Timeout,
		history: history{epoch: -1, times: cfg.Losses, compared: cfg.Losses},
	}
}

// SessionName returns a session id as ZooKeeper's tools print it: unsigned. Those of servers
// whose myid is above 127 are negative numbers in Go.
func SessionName(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// Attempt returns a number for the next connection. Numbers increase from 1.
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

// Over reports whether a server has reported that the session has ended:
// because it expired, or because it was closed.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// sawEvent notes the zxid of an event, so that no server takes the session that is behind what the
// client may act upon. But watches must not be armed again from there (W6): other events of the same
// transaction may be yet to come, and so may those of watches that were not armed at the time.
func (s *Session) sawEvent(zxid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seenZxid = max(s.seenZxid, zxid)
}

// armedFrom returns the zxid from which watches are armed again.
func (s *Session) armedFrom() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replyZxid
}

// accept stores what a ConnectResponse granted.
func (s *Session) accept(r connectResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == 0 {
		s.history.compared = s.history.times
	}
	s.id, s.password, s.timeout = r.id, r.password, r.timeout
}

// shorten notes that a server has granted this timeout in answer to a ConnectRequest
// that was sent at this time. It reports whether ValidUntil has moved to an earlier
// time: the last server may have granted a longer one.
func (s *Session) shorten(timeout time.Duration, sent time.Time) (sooner bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := validFrom(sent, timeout); until.Before(s.validUntil) {
		s.validUntil, sooner = until, true
	}
	return sooner
}

// largestAnswered returns the size of the largest request that any server has answered.
func (s *Session) largestAnswered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largest
}

func (s *Session) markOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
