package zktest

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
)

// Server is an in-process ZooKeeper server. Its methods may be called from any
// goroutine.
type Server struct {
	opt    options
	addr   string
	secret [32]byte

	done  chan struct{} // closed by Close
	wake  chan struct{} // wakes the clock
	clock sync.WaitGroup

	// mu is never held across an operation that blocks, because a goroutine that
	// waits for a sync.Mutex stops the time of a synctest bubble.
	mu                 sync.Mutex
	closed             bool
	run                *run      // the latest
	started            time.Time // when run began
	leader             *replica
	lagging            map[*replica]*conn
	keepLog            bool   // set if the plan has Lag faults
	log                []*txn // all transactions, if keepLog is set
	zxid               int64  // the last one assigned
	pending            map[string]changeRecord
	sessions           map[int64]*session
	conns              map[*conn]struct{}
	nextID             int64
	nextWake           time.Time // zero: the clock sleeps until it is woken
	nextContainerCheck time.Time
	counts             Counts
	packets            packets
	results            []result // scratch
}

// TB is the part of testing.TB that NewServer uses.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// NewServer starts a server and closes it when the test ends. If the server
// cannot start, NewServer fails the test with Fatalf. If the test has failed when
// it ends, the server's znodes, sessions and plan are logged.
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

// Start starts a server without a test. The caller must close it. Start returns
// an error only if the server cannot listen on its address.
func Start(opts ...Option) (*Server, error) {
	s := &Server{
		opt:      newOptions(opts),
		addr:     tuning.InMemory,
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		lagging:  map[*replica]*conn{},
		pending:  map[string]changeRecord{},
		sessions: map[int64]*session{},
		conns:    map[*conn]struct{}{},
		counts:   newCounts(),
	}
	s.leader = newReplica(s)
	s.keepLog = s.opt.plan.begin()
	rand.Read(s.secret[:])
	if err := s.begin(s.opt.listen); err != nil {
		s.opt.plan.end()
		return nil, fmt.Errorf("zktest: start: %w", err)
	}
	s.clock.Add(1)
	go s.runClock()
	return s, nil
}

// Addr returns the server's address as host:port. For a server in memory it is a
// placeholder that nothing listens on, for clients that require an address. zkrecipes.Dial
// refuses it at once if Options.Dialer is not set.
func (s *Server) Addr() string { return s.addr }

// Plan returns the plan that the server follows. Use its Add method to add
// faults while the server runs.
func (s *Server) Plan() *Plan { return s.opt.plan }

// newPreparer returns a preparer for a batch of requests that are in flight
// together. The previous preparer must not be used any more.
func (s *Server) newPreparer() *preparer {
	clear(s.pending)
	return &preparer{server: s, pending: s.pending}
}

// commit applies a transaction to the leader and appends it to the log for
// lagging replicas. The results are valid until the next commit.
func (s *Server) commit(t *txn) []result {
	s.notifyOnChange(t) // before watches fire
	s.results = s.leader.apply(t, s.results[:0])
	if len(t.changes) > 0 {
		s.counts.Transactions++
	}
	for i := range t.changes {
		if op := t.changes[i].op; op == jute.OpCreateContainer || op == jute.OpCreateTTL {
			if len(s.leader.tree.reapable) == 1 { // the clock ran no checks before
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

// SetCounter sets the counter from which the sequential children of path get
// their numbers. The next number is n. Use it to test what happens when the
// counter reaches its end, 2147483647. SetCounter returns an error if path does
// not exist.
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
