package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// session is one ZooKeeper session on one zk.Conn. go-zookeeper would open the
// next session inside the same Conn and run there what was meant for the old
// one; here the dialer holds it once the session has ended, and the Client
// opens the next session on a new Conn.
type session struct {
	c     *Client
	wire  *wire.Session
	hosts *hosts
	owner string // id of the session's own digest identity, see placeACL

	conn    *zk.Conn
	ended   <-chan struct{} // the last of go-zookeeper's goroutines is ending
	calling tasks           // calls of conn

	first  chan struct{} // closed when requests passed for the first time
	over   chan struct{} // closed when the session has ended
	hold   context.Context
	stop   context.CancelFunc // from then on no connection is made
	parked chan struct{}      // closed when go-zookeeper's loop is held in the dialer
	letGo  chan struct{}      // closed when it may return

	mu         sync.Mutex
	up         bool
	flipped    chan struct{} // closed and replaced whenever up changes
	upSince    time.Time
	snubbed    map[string]time.Time // see isForgotten
	failures   int                  // attempts to connect since requests last passed
	nc         *wire.Conn
	number     uint64 // of nc
	server     string // of nc
	lastErr    error  // why there is no connection
	cause      error  // why the session has ended
	draining   bool   // no call begins any more
	watches    map[watchKey]*watch
	grants     map[string]*grant   // by the path of the place
	ticking    bool                // see tick
	unresolved map[string]struct{} // uuids of joins whose outcome is not known
	stocks     map[string]*stock   // by the path of the queue

	nextSlot atomic.Int64 // number of the last receipt

	probe *probe // of whether the server enforces ACLs
}

// openSession starts to connect, and returns at once.
func openSession(c *Client) (*session, error) {
	s := &session{
		c: c, hosts: newHosts(c.servers),
		first: make(chan struct{}), over: make(chan struct{}),
		parked: make(chan struct{}), letGo: make(chan struct{}),
		flipped:    make(chan struct{}),
		snubbed:    map[string]time.Time{},
		watches:    map[watchKey]*watch{},
		grants:     map[string]*grant{},
		unresolved: map[string]struct{}{},
		stocks:     map[string]*stock{},
	}
	s.hosts.letGo = s.letGo
	s.hold, s.stop = context.WithCancel(context.Background())
	identity, owner := newIdentity()
	s.owner = owner
	var creds []wire.Credential
	for _, a := range c.auth {
		creds = append(creds, wire.Credential{Scheme: a.Scheme, Auth: a.Data})
	}
	creds = append(creds, wire.Credential{Scheme: identity.Scheme, Auth: identity.Data, Optional: true})
	s.wire = wire.NewSession(wire.Config{
		Timeout:     c.timeout,
		Credentials: creds,
		Leases:      s.holds,
		Armed:       s.onArmed,
		Event:       s.onEvent,
		Up:          s.onUp,
		Down:        s.onDown,
	})
	// The dialer may run before Connect has returned; nothing it calls touches
	// s.conn.
	conn, events, err := zk.Connect(c.servers, c.timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(s.hosts),
		zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		// The largest request, and room: go-zookeeper panics on one that just
		// fills its buffer.
		zk.WithMaxConnBufferSize(1<<20+1024))
	if err != nil {
		s.stop()
		return nil, err
	}
	s.conn = conn
	done := make(chan struct{})
	s.ended = done
	go func() {
		defer close(done)
		for range events { // closed last of all; what does not fit is dropped
		}
	}()
	return s, nil
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// ownerID returns the id of the session's own identity, empty where the server
// refuses it.
func (s *session) ownerID() string {
	if s.wire.Refused(len(s.c.auth)) {
		return ""
	}
	return s.owner
}

func (s *session) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.grants) > 0
}

func (s *session) onUp(conn uint64) {
	s.mu.Lock()
	if s.nc == nil || s.number != conn { // it has ended in the meantime
		s.mu.Unlock()
		return
	}
	s.setUp(true)
	s.upSince, s.failures, s.lastErr = time.Now(), 0, nil
	select {
	case <-s.first:
	default:
		close(s.first)
	}
	s.c.hooks.log(slog.LevelInfo, "session up", "session", s.wire.ID(), "timeout", s.wire.Timeout())
	s.c.hooks.tell(s.c.hooks.trace.SessionUp, TraceEvent{Session: s.wire.ID()})
	s.mu.Unlock()
}

func (s *session) onDown(conn uint64, err error) {
	s.mu.Lock()
	if s.nc == nil || s.number != conn { // there is a newer one
		s.mu.Unlock()
		return
	}
	if s.nc.Answered() {
		clear(s.snubbed)
	} else if !wire.IsRejected(err) {
		delete(s.snubbed, s.server)
	} else if _, ok := s.snubbed[s.server]; !ok {
		s.snubbed[s.server] = time.Now()
	}
	if s.up {
		s.c.hooks.log(slog.LevelWarn, "connection lost", "session", s.wire.ID(), "err", err)
		s.c.hooks.tell(s.c.hooks.trace.SessionDown, TraceEvent{Session: s.wire.ID(), Err: err})
	}
	s.setUp(false)
	s.nc = nil
	s.lastErr = err
	known := s.isKnown()
	s.mu.Unlock()
	var refused *wire.AuthError
	switch {
	case s.wire.Over():
		s.finish(zk.ErrSessionExpired)
	case errors.As(err, &refused) && !known && !s.optional(refused):
		s.finish(refused)
	}
}

// isKnown reports whether requests have ever passed; s.mu need not be held.
func (s *session) isKnown() bool {
	select {
	case <-s.first:
		return true
	default:
		return false
	}
}

// optional reports that the server refused the session's own identity, which
// it can do without.
func (s *session) optional(e *wire.AuthError) bool {
	return s.wire.Refused(len(s.c.auth)) && e.Scheme == "digest"
}

// setUp is called with s.mu held.
func (s *session) setUp(up bool) {
	if s.up != up {
		s.up = up
		close(s.flipped)
		s.flipped = make(chan struct{})
	}
}

// connected reports whether requests pass, and returns a channel that is
// closed when that changes.
func (s *session) connected() (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up, s.flipped
}

// ready waits until requests pass. Whoever can give up waits here, before there
// is a call: calls that wait inside go-zookeeper cannot be taken back, and would
// all be sent after the reconnect.
func (s *session) ready(ctx context.Context) error {
	for {
		up, flipped := s.connected()
		if up && ctx.Err() == nil {
			return nil
		}
		select {
		case <-flipped:
		case <-s.over:
			return errSessionOver
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// finish notes that the session has ended, once.
func (s *session) finish(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = cause
	close(s.over)
	s.stop()
}

func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// whyDown returns why there is no connection.
func (s *session) whyDown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr
}

// errMoved: the place was granted by an event of an earlier connection. Events
// advance no zxid, and as no lease was out the reconnect did without a sync, so
// the server may be behind what the grant rests on.
var errMoved = errors.New("connection has changed")

// addGrant makes g one of the leases that end with the session.
func (s *session) addGrant(g *grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.c.closing.Err() != nil:
		return ErrClosed // endGrants may have been here already
	case s.cause != nil || s.draining:
		return errSessionOver
	case g.place().heardBefore(s.number):
		return errMoved
	}
	s.grants[g.place().path] = g
	if !s.ticking {
		s.ticking = true
		time.AfterFunc(s.wire.Timeout()/10, s.tick)
	}
	return nil
}

// moved reports that p's turn was told by an event of an earlier connection.
func (s *session) moved(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.heardBefore(s.number)
}

func (s *session) dropGrant(g *grant) { s.forget(g, g.place().path) }

// expect lets g hear of path too, where its place is about to move.
func (s *session) expect(g *grant, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[path] = g
}

// forget takes g away from path.
func (s *session) forget(g *grant, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants[path] == g {
		delete(s.grants, path)
	}
}

// tick ends the leases when the session's clock runs out, and has the places of
// those watched that live for longer than a tenth of its timeout: short critical
// sections do not pay for that, long ones hear of their places' deletion. It is
// one timer for all, which runs on until it finds none, so that quick ones do
// not pay for timers either.
func (s *session) tick() {
	age := s.wire.Timeout() / 10
	s.mu.Lock()
	if len(s.grants) == 0 {
		s.ticking = false
		s.mu.Unlock()
		return
	}
	now := time.Now()
	next := s.wire.ValidUntil()
	silent := !now.Before(next)
	if silent {
		next = now.Add(age)
	}
	for _, g := range s.grants {
		if g.guarded {
			continue
		}
		if at := g.since.Add(age); at.After(now) {
			if at.Before(next) {
				next = at
			}
			continue
		}
		g.guarded = true
		s.c.tasks.start(g.guard)
	}
	time.AfterFunc(next.Sub(now), s.tick)
	s.mu.Unlock()
	if silent {
		for _, g := range s.leases() {
			g.check()
		}
	}
}

// leases returns the grants that are out.
func (s *session) leases() []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.grants))
}

// endGrants ends every lease that is out.
func (s *session) endGrants(cause error) {
	for _, g := range s.leases() {
		g.end(cause)
	}
}

// close ends the session's goroutines. orderly: the server is told to end the
// session, where it can be, and true is returned if it did; false for a session
// that is over.
//
// go-zookeeper's Close takes a second where the Conn is not connected, unless
// its loop is at the host provider: so the loop is held in the dialer until
// Close has begun, and then sent round once more with retryStart, which makes
// it look whether it should quit.
func (s *session) close(orderly bool) bool {
	s.mu.Lock()
	s.draining = true
	up := s.up
	s.mu.Unlock()
	orderly = orderly && up
	if orderly {
		// Conn.Close with calls under way is a data race in go-zookeeper.
		select {
		case <-s.calling.done():
		case <-time.After(s.wire.Timeout() / 4):
			orderly = false
		}
	}
	s.finish(ErrClosed) // no connection is made from here on
	closed := make(chan struct{})
	closing := func() {
		defer close(closed)
		s.conn.Close()
	}
	if orderly {
		go closing()
		<-closed // with the server's answer, or after a second
	}
	clean := orderly && s.wire.Over()
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
	if !orderly {
		go closing()
		// It has to queue its request before the loop goes round. Should it not
		// have run by then, it takes its second.
		select {
		case <-s.ended:
		case <-time.After(3 * time.Millisecond):
		}
	}
	close(s.letGo)
	<-s.ended
	<-closed
	<-s.calling.done()
	return clean
}
