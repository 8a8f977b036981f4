package zkrecipes

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: candidates take turns in a line, as for a Mutex. At its turn a candidate creates
// the leader's znode, by which everybody else learns who leads (internal/election). Observers
// watch that znode alone.

// Election elects one leader among the processes that campaign on a path, fairly by
// arrival. It is only a name: the leader has a Term. Values are safe for concurrent use.
//
// Candidates wait in a line, and a change of leader wakes one of them. While there is a
// leader, the znode <path>/leader exists and its data are the leader's value, so that clients
// of any kind can find the leader. It is ephemeral, and created and deleted with the
// leadership. The path itself is the line, as for a Mutex, and <path>/leader does not count
// in it. To depose a leader, use Client.Evict, or delete <path>/leader: from then on no Commit
// of its term succeeds, the term ends with ErrLost, and the next candidate leads. Do not delete its znode
// in the line instead: where other libraries' clients stand in the line, <path>/leader may
// then stay until their turns are over.
//
// Curator's LeaderSelector on the same path stands in the same line, because it uses
// InterProcessMutex. It does not create <path>/leader, so observers see no leader while
// one of its participants leads. A Mutex on the path of an Election would take turns with the
// leaders, and the two kinds of tokens cannot be compared: it gets ErrPathInUse.
//
// As with a Mutex, an idle path is deleted. That disturbs no observer: a watch is on a name,
// whether there is a znode or not.
type Election struct {
	line    *line.Line
	maxHold time.Duration
	invalid error
}

// NewElection returns the election with that path. The options are LockDelay and MaxHold.
// NewElection sends nothing. An invalid path or option is reported on first use.
func NewElection(c *Client, path string, opts ...MutexOption) *Election {
	e := &Election{line: &line.Line{
		At: session.At{Client: c.core(), Path: path, Recipe: "election"}, Kinds: layout.LockKinds,
		Blocks: line.EveryoneBlocks, Foreign: layout.IsRWLockKind, ExtraChild: election.LeaderName[1:],
	}}
	d, err := timesOf(opts)
	if slices.ContainsFunc(opts, func(o MutexOption) bool { return o.name == "KeepFor" }) {
		err = errors.New("KeepFor is no option of an Election")
	}
	e.line.Delay, e.maxHold, e.invalid = d["LockDelay"], d["MaxHold"], err
	return e
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (e *Election) Path() string { return e.self().Path }

// Term is the time for which a candidate leads. Its Context ends when the leadership is lost,
// Commit writes only while it lasts, and Token fences writes to other stores. The Token grows from
// term to term, and observers see the same one in Leader. See Lease for what is best effort and
// what is proof.
type Term struct{ lease *Lease }

func (t *Term) held() *Lease {
	if t == nil {
		return nil
	}
	return t.lease
}

// Context returns a context that ends with parent or with the term. See Lease.Context.
func (t *Term) Context(parent context.Context) context.Context { return t.held().Context(parent) }

// Err returns nil while the term lasts, and from then on why it has ended. See Lease.Err.
func (t *Term) Err() error { return t.held().Err() }

// ValidUntil returns the time until which the term is known to last if the servers send
// nothing more. See Lease.ValidUntil.
func (t *Term) ValidUntil() time.Time { return t.held().ValidUntil() }

// Token returns the fencing token of the term: that of <path>/leader.
func (t *Term) Token() Token { return t.held().Token() }

// Commit carries out the operations in one transaction, and only if the term still lasts. See
// Lease.Commit.
func (t *Term) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return t.held().Commit(ctx, ops...)
}

// Checks returns the guards that Commit puts before its operations: of the candidate's place and of
// <path>/leader. Use all of them in a Multi on another connection. See Lease.Check.
func (t *Term) Checks() []*zk.CheckVersionRequest { return t.held().checks() }

// Get reads a znode on the session that holds the leadership. See Lease.Get.
func (t *Term) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return t.held().Get(ctx, path)
}

// Children is like Get but lists a znode's children.
func (t *Term) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return t.held().Children(ctx, path)
}

// Reentrant returns a context with which Campaign on the same path returns one more Term for
// the same leadership. See Lease.Reentrant.
func (t *Term) Reentrant(ctx context.Context) context.Context { return t.held().Reentrant(ctx) }

// Path returns the path of the Election as the caller gave it, without Options.Prefix.
func (t *Term) Path() string { return t.held().Path() }

// Campaign waits until the caller is elected and returns its Term. value is published as
// Leader.Value, an address for example. It may be empty.
//
// Campaign blocks, fails and re-enters like Mutex.Lock. With a Reentrant context of the leader it
// returns one more Term for the same leadership, and value is not published. ErrTooLarge is
// returned for a value too large for one request. ErrPathInUse is returned if <path>/leader is a
// znode that belongs to no session, so no leader has created it, and if a LeaderLatch of Curator's
// stands in the line.
//
// Cost: that of Mutex.Lock, and one request and one commit to create <path>/leader.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, "campaign", slices.Clone(value), election.Campaign)
}

func (e *Election) campaign(ctx context.Context, op string, value []byte, enter func(context.Context, *line.Line, layout.Kind, []byte) (*hold.Grant, error)) (*Term, error) {
	r := e.self()
	if err := r.check(ctx); err != nil {
		return nil, fail(op, r.Path, err)
	}
	if err := election.CheckValue(e.line, value); err != nil {
		return nil, fail(op, r.Path, err)
	}
	l, err := r.lease(ctx, op, layout.KindLock, func(ctx context.Context, k layout.Kind) (*hold.Grant, error) {
		return enter(ctx, e.line, k, value)
	}, deadlock)
	if err != nil {
		return nil, err
	}
	return &Term{l}, nil
}

// Resign gives the leadership up. It blocks, fails and can be repeated like Lease.Release. It costs
// one request and one commit.
func (t *Term) Resign() error { return t.held().Release() }

// Proclaim publishes another value for the rest of the term. If calls are concurrent, the
// value of one of them stays.
//
// Proclaim blocks until a server answers or ctx ends. If the reply is lost, it writes the
// value again. ErrLost or ErrReleased is returned if the term has ended. ErrUncertain is
// returned if ctx or the session ends before the reply comes. Cost: one request and one
// commit.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	l := t.held()
	if l.isZero() {
		return fail("proclaim under", "", errZeroValue)
	}
	write := OpSet(l.handle.Grant.At.Path+election.LeaderName, value, -1)
	for {
		_, err := l.commit(ctx, []Op{write})
		if errors.Is(err, ErrUncertain) && ctx.Err() == nil && l.Err() == nil {
			continue
		}
		return l.fail("proclaim under", err)
	}
}

func (e *Election) self() lock {
	if e == nil {
		return lock{}
	}
	return lockOn(e.line, nil, e.maxHold, e.invalid)
}

// Lead campaigns, calls f while the process leads, and resigns once f has returned. f's
// context ends with ctx or when the leadership is lost. Client.Shutdown ends it, too. f
// should return as soon as its context ends. Until it does, the process does not lead again,
// but another one may, so f should write by Term.Commit or with Term.Token.
//
// After a loss, Lead waits until f has returned, logs its error, and campaigns again, whatever the
// error is: most are due to the end of the context. Otherwise Lead ends with f and returns f's
// error, or nil, joined with the error of Resign. nil means that f has run and returned nil. If
// only the servers knew of the loss when f returned, Lead campaigns again if f failed, and returns
// ErrLost if not. It also ends when ctx ends while it campaigns, or when Campaign fails for any
// reason but an eviction from the line. While the session has no room (ErrSessionFull), Lead logs
// that and campaigns again after a pause. If f panics, Lead resigns first.
//
// In a process, at most one call of Lead campaigns or leads for a Client and path at a
// time, and others wait for it. So there are never two calls of f at once. ErrDeadlock is
// returned if ctx is a context of the leader, also a Reentrant one, and also after a loss
// while the f of that leader still runs.
func (e *Election) Lead(ctx context.Context, value []byte, f func(context.Context, *Term) error) error {
	r := e.self()
	err := r.check(ctx)
	switch {
	case err != nil:
	case f == nil:
		err = errors.New("nil function")
	default:
		if h, ok := r.holderIn(ctx); ok && (h.Handle.Failure() == nil || election.Leads(r.Client, r.Path, h.Handle.Grant)) {
			err = ErrDeadlock
		}
	}
	if err != nil {
		return fail("lead", r.Path, err)
	}
	value = slices.Clone(value)
	if !r.Client.Held.Begin() {
		return fail("lead", r.Path, ErrClosed)
	}
	defer r.Client.Held.End()
	bound, done := r.Client.BindWait(ctx)
	defer done()
	// f may pass this context to other Clients, so it must not end as if they were closed.
	leading, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(r.Client.Waiting, func() { end(ErrClosed) })()
	for {
		if again, err := e.leadOnce(bound, leading, value, f); !again {
			return err
		}
	}
}

// leadOnce campaigns with ctx and leads for one term. f's context is derived from leading.
// again: the term was lost.
func (e *Election) leadOnce(ctx, leading context.Context, value []byte, f func(context.Context, *Term) error) (again bool, err error) {
	c, path := e.line.Client, e.line.Path
	turn, err := election.BeginLead(ctx, c, path)
	if err != nil {
		return false, fail("lead", path, err)
	}
	defer turn.End()
	t, err := e.campaign(ctx, "lead", value, election.CampaignWithRoom)
	if err != nil {
		return ctx.Err() == nil && errors.Is(err, ErrEvicted), err
	}
	turn.Grant.Store(t.lease.handle.Grant)
	defer func() { // also if f panics
		why := t.Err()
		resigned := t.lease.releaseWithin(ctx, t.Resign)
		switch {
		case errors.Is(why, ErrLost), err != nil && errors.Is(resigned, ErrLost):
			c.Log(slog.LevelWarn, "leadership lost; campaigning again", "path", path, "cause", resigned, "err", err)
			again = true
		case resigned != nil:
			err = errors.Join(err, resigned)
		}
	}()
	return false, f(t.Context(leading), t)
}

// Contenders returns the leader and then the candidates in the order of the line. The leader's
// Place and Path are those of <path>/leader, HeldSince is when its term began, by the servers'
// clock, and Identity and Since are those of its znode in the line. Identity is empty if
// somebody has deleted that. Client.Evict deposes the leader by deleting <path>/leader.
//
// A candidate at its turn that has not created <path>/leader yet does not hold. Contenders blocks
// and fails like Mutex.Contenders. Cost: three requests, and one for each place in the line.
func (e *Election) Contenders(ctx context.Context) ([]Contender, error) {
	return e.self().listContenders(ctx, func(ctx context.Context, s *session.Session) ([]look.Contender, error) {
		return look.Election(ctx, s, e.line)
	})
}

// Leader is what an election's observers see. Observe yields the zero Leader where there is
// none.
type Leader struct {
	Value   []byte    // as campaigned with, or proclaimed last
	Token   Token     // of the Term
	Session int64     // ZooKeeper's session id
	Since   time.Time // when the term began, by the servers' clock
}

// None reports whether there is no leader.
func (l Leader) None() bool { return l.Token == 0 }

// ErrNoLeader is returned by Election.Leader if nobody leads.
var ErrNoLeader = errors.New("nobody leads")

// Leader returns the leader, or ErrNoLeader if there is none or the path does not exist. By
// the time it returns, that may have changed. It blocks until a server has caught up with
// its leader and answered. Cost: two requests.
func (e *Election) Leader(ctx context.Context) (l Leader, err error) {
	err = e.self().inSessions(ctx, "look at", func(ctx context.Context, s *session.Session, path string) error {
		there, err := election.Find(ctx, s, path)
		l = newLeader(there)
		if err == nil && l.None() { // also if the znode is somebody else's
			err = ErrNoLeader
		}
		return err
	})
	return l, err
}

// Observe yields the leader or none, and then each change: another leader, another value, or none.
// It never yields a term with a lower Token than one before. The path need not exist.
//
// The rules, the errors and the cost are those of Client.Watch on <path>/leader: a slow observer
// gets the latest state, nothing is yielded while disconnected, and a client that may not read that
// znode may see no leader.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return sequence(func(tell func(Leader) error) error {
		o := election.NewObserver(func(l election.Leader) error { return tell(newLeader(l)) })
		return e.self().inSessions(ctx, "observe", o.Follow)
	})
}

func newLeader(l election.Leader) Leader {
	return Leader{Value: l.Value, Token: newToken(l.Czxid), Session: l.Session, Since: l.Since}
}
