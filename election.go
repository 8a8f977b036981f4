package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: candidates take turns in a line, as for a Mutex. At its turn a candidate creates
// the leader's znode, by which everybody else learns who leads (internal/election). Observers
// watch that znode alone (election_observe.go).

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
// The client creates the path as a container znode, and deletes it with its data once it has
// not used it for half a minute. If the client is gone, the servers do. That disturbs no
// observer: a watch is on a name, whether there is a znode or not.
type Election struct {
	line    *line.Line
	invalid error // why the options are; nil: they are not
}

// NewElection returns the election with that path. The only option is LockDelay. NewElection
// sends nothing. An invalid path or option is reported on first use.
func NewElection(c *Client, path string, opts ...MutexOption) *Election {
	e := &Election{line: &line.Line{
		Client: c.core(), Path: path, Recipe: "election", Kinds: placename.LockKinds,
		Blocks: line.EveryoneBlocks, Foreign: placename.IsRWLockKind, Extra: election.LeaderName[1:],
	}}
	e.invalid = delayLine(e.line, opts)
	if slices.ContainsFunc(opts, func(o MutexOption) bool { return o.keeps }) {
		e.invalid = errors.New("KeepFor is no option of an Election")
	}
	return e
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (e *Election) Path() string { return e.self().path() }

// Term is the time for which a candidate leads. Its Context ends when the leadership is lost,
// Commit writes only while it lasts, and Token fences writes to other stores. The Token grows
// from term to term, and observers see the same one in Leader. See Lease for what is best
// effort and what is proof. The methods of a zero Term return an error, like those of a zero
// Lease.
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

// Check returns the guard that Commit puts before its operations, for the candidate's place. See
// Lease.Check. Commit also checks <path>/leader. A Multi on another connection should do so, too:
// otherwise it may succeed for up to a tenth of the session timeout after somebody has deposed
// the leader by deleting that znode.
func (t *Term) Check() *zk.CheckVersionRequest { return t.held().Check() }

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
// Campaign blocks, fails and re-enters like Mutex.Lock. In particular, it waits through
// disconnections, and if the session ends before Campaign returns, it waits in the next
// one, at the end of the line. With a Reentrant context of the leader it returns one more
// Term for the same leadership, and value is not published. ErrTooLarge is returned for a
// value too large for one request. ErrPathInUse is returned if <path>/leader is a znode that
// belongs to no session, so no leader has created it, and if a LeaderLatch of Curator's
// stands in the line.
//
// Cost: that of Mutex.Lock, and one request and one commit to create <path>/leader.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, "campaign", slices.Clone(value), election.Enter)
}

func (e *Election) campaign(ctx context.Context, op string, value []byte, enter func(context.Context, *line.Line, placename.Kind, []byte) (*line.Grant, error)) (*Term, error) {
	r := e.self()
	if err := r.check(ctx); err != nil {
		return nil, fail(op, r.path(), err)
	}
	if err := election.CheckValue(e.line, value); err != nil {
		return nil, fail(op, r.path(), err)
	}
	l, err := r.acquireBy(ctx, op, placename.KindLock, func(ctx context.Context, k placename.Kind) (*line.Grant, error) {
		return enter(ctx, e.line, k, value)
	})
	if err != nil {
		return nil, err
	}
	return &Term{l}, nil
}

// Resign gives the leadership up. It is Lease.Release: it blocks for one round trip at
// most and can be called again. If the connection is lost, the client goes on in the
// background until both znodes are gone. Cost: one request and one commit.
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
	write := OpSet(l.handle.Grant.Line.Path+election.LeaderName, value, -1)
	for {
		_, err := l.commit(ctx, []Op{write})
		if errors.Is(err, ErrUncertain) && ctx.Err() == nil && l.Err() == nil {
			continue
		}
		return l.fail("proclaim under", err)
	}
}

func (e *Election) self() recipe {
	if e == nil {
		return recipe{}
	}
	return recipe{Line: e.line, invalid: e.invalid}
}

// Lead campaigns, calls f while the process leads, and resigns once f has returned. f's
// context ends with ctx or when the leadership is lost. Client.Shutdown ends it, too. f
// should return as soon as its context ends. Until it does, the process does not lead again,
// but another one may, so f should write by Term.Commit or with Term.Token.
//
// After a loss, Lead waits until f has returned, logs its error, and campaigns again,
// whatever the error is: most are due to the end of the context. Otherwise Lead ends with f
// and returns f's error, or nil, joined with the error of Resign. If only the servers knew of
// the loss when f returned, Lead campaigns again if f failed, and returns ErrLost if not. It
// also ends when ctx ends while it campaigns, or when Campaign fails for any reason but an
// eviction from the line. While the session has no room (ErrSessionFull), Lead logs that and
// campaigns again after a pause. If f panics, Lead resigns first.
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
		if h, ok := r.holderIn(ctx); ok && (h.Handle.Failure() == nil || leadsWith(r.Client, r.Line.Path, h.Handle.Grant)) {
			err = ErrDeadlock
		}
	}
	if err != nil {
		return fail("lead", r.path(), err)
	}
	value = slices.Clone(value)
	if !r.Client.Held.Begin() {
		return fail("lead", r.path(), ErrClosed)
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
	turn, err := takeLead(ctx, c, path)
	if err != nil {
		return false, fail("lead", path, err)
	}
	defer endLead(c, path, turn)
	t, err := e.campaign(ctx, "lead", value, enterWithRoom)
	if err != nil {
		return ctx.Err() == nil && errors.Is(err, ErrEvicted), err
	}
	turn.g.Store(t.lease.handle.Grant)
	defer func() { // also if f panics
		why := t.Err()
		resigned := t.Resign()
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

// leadTurn is the turn of a call of Lead in its process.
type leadTurn struct {
	g   atomic.Pointer[line.Grant] // with which it leads or has led; nil: none yet
	end chan struct{}              // closed at the end
}

// leadTurns are the turns of a Client, by path.
type leadTurns struct {
	mu    sync.Mutex
	turns map[string]*leadTurn
}

func leadsOf(c *session.Client) *leadTurns {
	return session.Attached(c, func() *leadTurns { return &leadTurns{turns: map[string]*leadTurn{}} })
}

// takeLead waits, until ctx ends, until no other call of Lead campaigns or leads on that
// path. endLead must be called in the end.
func takeLead(ctx context.Context, c *session.Client, path string) (*leadTurn, error) {
	for all := leadsOf(c); ; {
		all.mu.Lock()
		busy := all.turns[path]
		if busy == nil {
			mine := &leadTurn{end: make(chan struct{})}
			all.turns[path] = mine
			all.mu.Unlock()
			return mine, nil
		}
		all.mu.Unlock()
		if err := c.AwaitEnd(ctx, busy.end); err != nil {
			return nil, err
		}
	}
}

func endLead(c *session.Client, path string, turn *leadTurn) {
	all := leadsOf(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.turns, path)
	close(turn.end)
}

// leadsWith reports whether the function of a call of Lead still runs with that grant,
// which may have been lost.
func leadsWith(c *session.Client, path string, g *line.Grant) bool {
	all := leadsOf(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	turn := all.turns[path]
	return turn != nil && turn.g.Load() == g
}

// enterWithRoom is like enterAsLeader. As long as the session has no room for a candidate, it
// tries again, without a place in the line: others lead meanwhile.
func enterWithRoom(ctx context.Context, l *line.Line, k placename.Kind, value []byte) (*line.Grant, error) {
	for logged := false; ; logged = true {
		g, err := election.Enter(ctx, l, k, value)
		if !errors.Is(err, ErrSessionFull) {
			return g, err
		}
		if !logged {
			l.Client.Log(slog.LevelWarn, "session is full; it does not campaign until there is room", "path", l.Path, "err", err)
		}
		if err := l.Client.PauseWhileFull(ctx); err != nil {
			return nil, err
		}
	}
}
