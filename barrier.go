package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// kindMember is the kind of a barrier's members. Locks and barriers do not see each
// other's places.
const kindMember line.Kind = "member-"

var memberKinds = []line.Kind{kindMember}

// Barrier holds its members back until n of them are there, and then lets those n go,
// round after round on one path. A member that arrives early for the next round waits
// until the last member of the open one has left. Surplus arrivals wait for the next
// round. A member that cancels, or whose process dies, before the round is opened is
// not counted. A Barrier is only a name. Values are safe for concurrent use, and each
// call of Wait is a member of its own.
//
// The znode at the path holds n as decimal text. A member with another n gets ErrSize, and is
// not counted. The znode is a container, which the servers delete when it has been idle. (The
// Client deletes idle lines itself, but not this znode.) They do not do so if all members of a
// round died together: then the znode round remains, with what is below it. The next round uses
// or replaces it. If there is none to come, delete the path. Do not create or write anything
// below round, and delete only members' znodes there. In particular, a znode that is created by
// hand below round/ready lets members through.
type Barrier struct {
	line  *line.Line // the path
	round *line.Line // the generation: one znode, created anew for each round
	n     int

	mu          sync.Mutex
	sizeChecked time.Time    // when the path's data was last read and was n
	bears       line.LineACL // what the path's ACL was then
	leaves      []func()     // that leaveLater has put off; some may have been called since
}

// NewBarrier returns the barrier of n members with that path. It sends nothing. An
// invalid path, an n below 1, and an n for which a transaction has no room are
// reported on first use.
func NewBarrier(c *Client, path string, n int) *Barrier {
	return &Barrier{
		line:  &line.Line{Client: c.core(), Path: path, Recipe: "barrier"},
		round: &line.Line{Client: c.core(), Path: path + "/round", Recipe: "round", Kinds: []line.Kind{memberKindOf(n), kindMember}},
		n:     n,
	}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (b *Barrier) Path() string { return b.self().path() }

// Wait joins the round and returns once the round has been opened. It returns the
// member's number in the round: 0 to n-1, each once, so that one member can be made
// the leader. It blocks until n members are there, through disconnections. With an error
// it returns -1, so a caller that ignores the error is never member 0.
//
//   - ctx's error is returned if the round was not, and will not be, opened with this
//     member. While connected, Wait asks the servers whether that is so, and succeeds
//     if the round was opened after all.
//   - ErrUncertain is returned if ctx ended while disconnected, or if the reply was
//     lost. The round may have been opened with this member. The next Wait of this
//     Client begins when the outcome is known, or fails while the servers refuse to tell.
//   - ErrSize is returned if the path holds another n. It is noticed at the first use,
//     when the member could open the round, when it has waited for a tenth of the
//     session timeout, and when a round is opened for another n.
//   - ErrLost, which also is zk.ErrSessionExpired, is returned if the session ended
//     first, and with it the membership. Wait does not join a round again behind the
//     caller's back. A call that is not a member yet goes on in the next session.
//   - ErrEvicted is returned if somebody deleted the member's znode. If that happened
//     before the znode was known to exist, Wait creates another one instead, although the
//     round may have been opened with the first.
//   - ErrClosed is returned if the Client was closed.
//
// Each of the last three comes with ErrUncertain if the Client can no longer find out
// whether the round had been opened with the member.
//
// A member costs two requests and one commit, and one of each to leave. It wakes once, by
// an event that says that the round is open. It reads once more then if a member has left
// before, or if its connection was lost. The last to arrive reads n and lists the members,
// with one request each, in one round trip, and opens the round with one request and one
// commit more. The first member of a round costs one commit more, or two if members of the
// round before are still leaving. A member that waits for long reads n once, and watches its
// own znode and the round's ready, with one request each. A Barrier reads n every half
// minute.
//
// A member leaves in the background, a little after Wait has returned: n times 50 µs, but at
// most 100 ms. It leaves at once when the next Wait of this Barrier begins, or the Client is
// closed. Close the Client before the process exits. Otherwise the next round may begin only
// when the session expires.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	r := b.self()
	if err := b.check(ctx); err != nil {
		return -1, fail("wait", r.path(), err)
	}
	ctx, traced := startAcquire(ctx, r.Client, RecipeBarrier, r.path(), "wait")
	index, err := b.wait(ctx)
	err = fail("wait", r.path(), err)
	traced.end(nil, err)
	if err != nil {
		return -1, err
	}
	return index, nil
}

// Contenders returns the members of the round, in the order of their arrival. Those with
// Held no longer wait, because the round was opened with them, and are about to leave.
// Members that wait for another n are returned, too. A call of Wait that came while the
// previous round was open is not a member until its members have left. ErrUnused is returned
// if there is no barrier, and ErrPathInUse if the path is another recipe's. Contenders blocks
// until the servers answer. It costs two requests, and one for each member.
func (b *Barrier) Contenders(ctx context.Context) ([]Contender, error) {
	return b.self().listContenders(ctx, b.contendersIn)
}

func (b *Barrier) self() recipe {
	if b == nil {
		return recipe{}
	}
	return recipe{Line: b.line}
}

func (b *Barrier) check(ctx context.Context) error {
	if err := b.self().check(ctx); err != nil {
		return err
	}
	return checkMembers("barrier", b.n, b.openingSize())
}

func (b *Barrier) wait(ctx context.Context) (int, error) {
	c := b.line.Client
	ctx, done := c.BindWait(ctx)
	defer done()
	b.leaveNow()
	if err := c.AwaitAbandoned(ctx, b.line.Path); err != nil {
		return 0, err
	}
	m := &participant{Barrier: b, ctx: ctx, end: make(chan struct{})}
	c.Tasks.Start(func() {
		defer c.EndAbandoned(b.line.Path, m.end)
		m.index, m.err = m.run()
	})
	select {
	case <-m.end:
		return m.index, m.err
	case <-ctx.Done():
	}
	// Only the servers know whether the round was opened with this member. They are
	// asked for as long as there is a connection.
	for {
		s, changed := c.Session()
		up, flipped := s.Connected()
		if !up && m.exposed.Load() && c.Abandon(b.line.Path, m.end) {
			return 0, fmt.Errorf("%w: the round may be opened with this member: %w", ErrUncertain, c.ContextErr(ctx))
		}
		select {
		case <-m.end:
			return m.index, m.err
		case <-flipped:
		case <-changed:
		}
	}
}

// checkMembers refuses a number of members below 1, and one for which the transaction
// that lets them go has no room.
func checkMembers(recipe string, n, size int) error {
	switch {
	case n < 1:
		return fmt.Errorf("a %s of %d members", recipe, n)
	case size > jute.MaxFrame:
		return fmt.Errorf("a %s of %d members: %w", recipe, n, zkconn.TooLarge(size))
	}
	return nil
}

// For how many members a barrier waits: its size. The path's znode holds it, and each
// member's name says for how many that one waits.

// memberKindOf is kindMember of a barrier of n members. Members say in their names how
// many they wait for, so that a listing tells who disagrees, and costs nothing more.
func memberKindOf(n int) line.Kind {
	return line.Kind("of" + strconv.Itoa(n) + "-" + string(kindMember))
}

// memberSize returns for how many members the member with that name waits, or 0 if the
// name does not say so.
func memberSize(name string) int {
	_, size, _ := strings.Cut(name, "-of") // which no uuid contains
	size, _, _ = strings.Cut(size, "-"+string(kindMember))
	n, _ := strconv.Atoi(size)
	return n
}

// knowsSize reports whether checkSize has nothing to read.
func (b *Barrier) knowsSize() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.sizeChecked) < line.IdleLine
}

// checkSize makes sure that the path's znode holds n, and creates the znode if there
// is none. The servers delete an idle container, and others may use the path then, so
// it reads n again every idleLine. A round is opened by what is read then: see open.
func (b *Barrier) checkSize(ctx context.Context, s *line.Session) error {
	if b.knowsSize() {
		return nil
	}
	for range zkconn.MaxTries {
		data, stat, err := s.Get(ctx, b.line.Abs())
		var bears line.LineACL
		switch {
		case line.IsContextErr(ctx, err): // whatever the cause of ctx is
			return err
		case errors.Is(err, zk.ErrNoNode):
			err, bears = s.CreateContainer(ctx, b.line.Abs(), line.SizeData(b.n)), line.LineACL{}
		case err == nil:
			if _, err = b.agree(ctx, s, data, stat); err == nil {
				bears, err = b.readACL(ctx, s, stat)
			}
		}
		switch {
		case err == nil:
			b.mu.Lock()
			b.sizeChecked, b.bears = time.Now(), bears
			b.mu.Unlock()
			return nil
		case line.IsContextErr(ctx, err):
			return err
		case zkconn.Transient(err), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		default:
			return err
		}
	}
	return zkconn.ErrContended
}

// readACL returns what is known of the path's list. It costs a read, once for each znode.
func (b *Barrier) readACL(ctx context.Context, s *line.Session, stat *zk.Stat) (line.LineACL, error) {
	b.mu.Lock()
	known := b.bears
	b.mu.Unlock()
	if known.Czxid == stat.Czxid && known.Aversion == stat.Aversion {
		return known, nil
	}
	return line.ReadACL(ctx, s, b.line.Abs(), stat)
}

// childACL returns the list of what the session creates below the path.
func (b *Barrier) childACL(s *line.Session) []zk.ACL {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bears.Written(s)
}

// agree returns the version in which the path's znode, of which data and stat were
// read, holds n. It writes n if the znode is empty.
func (b *Barrier) agree(ctx context.Context, s *line.Session, data []byte, stat *zk.Stat) (version int32, err error) {
	size, err := b.line.SizeIn(data, stat, "members")
	switch {
	case err == nil && size == 0:
		if err := b.line.CheckNoQueue(ctx, s); err != nil {
			return 0, err
		}
		_, err := b.line.WriteSize(ctx, s, b.n, stat.Version)
		return stat.Version + 1, err
	case size == b.n:
		return stat.Version, nil
	}
	b.forgetSize()
	if err == nil {
		err = line.WrongSize(b.line.Recipe, "members", size, b.n)
	}
	return 0, err
}

// forgetSize makes checkSize read the path again.
func (b *Barrier) forgetSize() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizeChecked = time.Time{}
}
