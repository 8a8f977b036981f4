package zktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Server is a ZooKeeper server inside the process. Its methods may be called
// from any goroutine.
type Server struct {
	opt      options
	listener net.Listener // nil in memory
	addr     string
	started  time.Time
	secret   [32]byte

	done chan struct{} // closed by Close
	wake chan struct{} // the clock's
	wg   sync.WaitGroup

	// mu is held for moments only, never while something blocks: a goroutine
	// that waits for a Mutex holds up the time of a synctest bubble.
	mu                 sync.Mutex
	closed             bool
	leader             *replica
	lagging            map[*replica]*conn
	keepLog            bool   // the plan lets replicas lag
	log                []*txn // all transactions, then
	zxid               int64  // the last that was taken
	pending            map[string]changeRecord
	sessions           map[int64]*session
	conns              map[*conn]struct{}
	nextID             int64
	nextWake           time.Time // zero: the clock sleeps until it is woken
	nextContainerCheck time.Time // of containers
	counts             Counts
	results            []result // scratch
}

// TB is what NewServer needs of a testing.TB.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// NewServer starts a server that is closed when the test ends. If the test has
// failed by then, the server's data is logged. A server that cannot be started
// fails the test at once.
func NewServer(t TB, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("zktest: at the end of the test:\n%s", firstLines(s.Tree(), 100))
			if plan := s.opt.plan.String(); plan != "" {
				t.Logf("zktest: the plan:\n%s", plan)
			}
		}
		s.Close()
	})
	return s
}

// Start starts a server outside of tests; the caller closes it. The error is
// that of listening.
func Start(opts ...Option) (*Server, error) {
	s := &Server{
		opt:      newOptions(opts),
		addr:     inMemoryAddr,
		started:  time.Now(),
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		lagging:  map[*replica]*conn{},
		pending:  map[string]changeRecord{},
		sessions: map[int64]*session{},
		conns:    map[*conn]struct{}{},
		counts:   newCounts(),
	}
	s.leader = newReplica(s)
	s.keepLog = s.opt.plan.hasLag()
	s.scheduleContainerCheck(s.started)
	// As on the real server the low 16 bits count sessions, and those above
	// are the time of its start (SessionTrackerImpl.initializeNextSessionId).
	s.nextID = int64(uint64(s.started.UnixMilli()) << 24 >> 8)
	rand.Read(s.secret[:])
	if !s.opt.inMemory {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.opt.listen)
		if err != nil {
			return nil, fmt.Errorf("zktest: start: %w", err)
		}
		s.listener, s.addr = l, l.Addr().String()
		s.wg.Add(1)
		go s.acceptLoop()
	}
	s.wg.Add(1)
	go s.runClock()
	return s, nil
}

var errClosed = errors.New("zktest: server is closed")

// Close closes all connections and ends the server's goroutines, which it
// waits for. The data is gone then. It can be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		if s.listener != nil {
			s.listener.Close()
		}
		for c := range s.conns {
			c.drop()
		}
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Addr returns host:port of the server. That of a server in memory is an
// address that is nobody's, for clients that insist on one.
func (s *Server) Addr() string { return s.addr }

// Plan returns the plan that the server follows, to which faults can be added.
func (s *Server) Plan() *Plan { return s.opt.plan }

// preparer starts the preparation of transactions that are in flight together.
func (s *Server) newPreparer() *preparer {
	clear(s.pending)
	return &preparer{server: s, pending: s.pending}
}

// commit applies a transaction to the leader, and puts it in the log for
// replicas that lag. The results are valid until the next commit.
func (s *Server) commit(t *txn) []result {
	s.notifyOnChange(t) // before watchers hear of it
	s.results = s.leader.apply(t, s.results[:0])
	if len(t.changes) > 0 {
		s.counts.Transactions++
	}
	for i := range t.changes {
		if op := t.changes[i].op; op == jute.OpCreateContainer || op == jute.OpCreateTTL {
			if len(s.leader.tree.reapable) == 1 { // nobody looked at the time before
				s.scheduleContainerCheck(t.at)
			}
			s.wakeBefore(s.nextContainerCheck)
		}
	}
	if s.keepLog {
		s.log = append(s.log, t)
		for r := range s.lagging {
			s.applyDue(r, t.at)
		}
	}
	return s.results
}

// SetCounter sets the number of children that path is taken to have had, from
// which the names of sequential znodes come: the next is n. It is for tests of
// what happens when the counter ends, at 2147483647. It fails if there is no
// such znode.
func (s *Server) SetCounter(path string, n int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader.tree.node(path) == nil {
		return fmt.Errorf("zktest: set counter of %s: no such znode", path)
	}
	s.zxid++
	s.commit(&txn{zxid: s.zxid, at: time.Now(), changes: []change{{op: opSetCounter, path: path, creates: n}}})
	return nil
}
