package zkrecipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// kindMember is the kind of a barrier's members. Locks and barriers do not see each
// other's places.
const kindMember kind = "member-"

var memberKinds = []kind{kindMember}

// Barrier holds its members back until n of them are there, and then lets those n go,
// round after round on one path. A member that arrives early for the next round waits
// until the last member of the open one has left. Surplus arrivals wait for the next
// round. A member that cancels, or whose process dies, before the round is opened is
// not counted. A Barrier is only a name. Values are safe for concurrent use, and each
// call of Wait is a member of its own.
//
// The znode at the path holds n as decimal text. Members that disagree on n get an
// error that names both numbers. The znode is a container, which the servers delete
// when it has been idle.
type Barrier struct {
	line  *line // the path
	round *line // the generation: one znode, created anew for each round
	n     int

	mu          sync.Mutex
	sizeChecked time.Time // when the path's data was last known to be n
}

// NewBarrier returns the barrier of n members with that path. It sends nothing. An
// invalid path, an n below 1, and an n for which a transaction has no room are
// reported on first use.
func NewBarrier(c *Client, path string, n int) *Barrier {
	return &Barrier{
		line:  &line{c: c, path: path, recipe: "barrier"},
		round: &line{c: c, path: path + "/round", recipe: "round", kinds: memberKinds},
		n:     n,
	}
}

// Wait joins the round and returns once the round has been opened. It returns the
// member's number in the round: 0 to n-1, each once, so that one member can be made
// the leader. It blocks until n members are there, through disconnections.
//
//   - ctx's error is returned if the round was not, and will not be, opened with this
//     member. While connected, Wait asks the servers whether that is so, and succeeds
//     if the round was opened after all.
//   - ErrUncertain is returned if ctx ended while disconnected, or if the reply was
//     lost. The round may have been opened with this member. The next Wait of this
//     Client begins when the outcome is known.
//   - zk.ErrSessionExpired is returned if the session ended first, and with it the
//     membership. Wait does not join a round again behind the caller's back.
//   - ErrEvicted is returned if somebody deleted the member's znode. If that happened
//     before the znode was known to exist, Wait creates another one instead.
//   - ErrClosed is returned if the Client was closed.
//
// Each of the last three comes with ErrUncertain if it can no longer be found out
// whether the round had been opened with the member.
//
// A member costs three requests and one commit, and one of each to leave. The last to
// arrive joins with one request and one commit, lists the members with one request,
// and opens the round for all with one of each. The first member of a round costs one
// commit more, or two if members of the round before are still leaving. Each member
// wakes once.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	r := b.self()
	if err := b.check(ctx); err != nil {
		return 0, fail("wait", r.path(), err)
	}
	index, err := b.wait(ctx)
	return index, fail("wait", r.path(), err)
}

func (b *Barrier) self() recipe {
	if b == nil {
		return recipe{}
	}
	return recipe{b.line}
}

func (b *Barrier) check(ctx context.Context) error {
	if err := b.self().check(ctx); err != nil {
		return err
	}
	return checkMembers("barrier", b.n, openingSize(b.round.abs(), b.n))
}

func (b *Barrier) wait(ctx context.Context) (int, error) {
	c := b.line.c
	ctx, done := c.bind(ctx)
	defer done()
	if err := c.awaitAbandoned(ctx, b.line.path); err != nil {
		return 0, err
	}
	m := &participant{Barrier: b, ctx: ctx, end: make(chan struct{})}
	c.tasks.Start(func() {
		defer c.endAbandoned(b.line.path, m.end)
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
		s, changed := c.session()
		up, flipped := s.Connected()
		if !up && m.exposed.Load() && c.abandon(b.line.path, m.end) {
			return 0, fmt.Errorf("%w: the round may be opened with this member: %w", ErrUncertain, zkconn.ContextErr(ctx))
		}
		select {
		case <-m.end:
			return m.index, m.err
		case <-flipped:
		case <-changed:
		}
	}
}

// checkSize makes sure that the path's znode holds n, and creates the znode if there
// is none. The servers delete an idle container, so this is believed for a while only.
func (b *Barrier) checkSize(ctx context.Context, s *session) error {
	b.mu.Lock()
	known := time.Since(b.sizeChecked) < idleLine
	if known {
		b.sizeChecked = time.Now()
	}
	b.mu.Unlock()
	if known {
		return nil
	}
	path, n := b.line.abs(), []byte(strconv.Itoa(b.n))
	for range zkconn.MaxTries {
		data, stat, err := s.Get(ctx, path)
		switch {
		case isContextErr(ctx, err): // whatever the cause of ctx is
			return err
		case errors.Is(err, zk.ErrNoNode):
			err = s.CreateContainer(ctx, path, n, b.line.c.acl)
		case err != nil:
		case stat.EphemeralOwner != 0:
			return zk.ErrNoChildrenForEphemerals
		case len(data) == 0: // created as the parent of another znode
			_, _, err = s.Multi(ctx, &zk.SetDataRequest{Path: path, Data: n, Version: stat.Version})
		case string(data) != string(n):
			if other, err := strconv.Atoi(string(data)); err == nil && other > 0 {
				return fmt.Errorf("a barrier of %d members is used as one of %d", other, b.n)
			}
			return fmt.Errorf("the znode holds other data than a barrier's number of members: %.40q", data)
		}
		switch {
		case err == nil:
			b.mu.Lock()
			b.sizeChecked = time.Now()
			b.mu.Unlock()
			return nil
		case isContextErr(ctx, err):
			return err
		case zkconn.Transient(err), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		default:
			return err
		}
	}
	return zkconn.ErrContended
}

// forgetSize makes checkSize read the path again.
func (b *Barrier) forgetSize() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizeChecked = time.Time{}
}

// The znode ready names the members as ranges of their sequence numbers ("0-3,5"), so
// that what each member reads does not grow with their number.

// ranges returns the members' numbers as ranges. ms must be sorted.
func ranges(ms []placeName) []byte {
	var b []byte
	for i := 0; i < len(ms); {
		j := i
		for j+1 < len(ms) && ms[j+1].number == ms[j].number+1 {
			j++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(ms[i].number), 10)
		if j > i {
			b = strconv.AppendInt(append(b, '-'), int64(ms[j].number), 10)
		}
		i = j + 1
	}
	return b
}

// indexIn returns how many of the numbers in data come before number, or errExcluded
// if number is not among them.
func indexIn(data []byte, number int32) (int, error) {
	index := 0
	for part := range bytes.SplitSeq(data, []byte{','}) {
		from, to, ok := strings.Cut(string(part), "-")
		if !ok {
			to = from
		}
		a, err := strconv.ParseInt(from, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%w: %.40q", errWritten, data)
		}
		b, err := strconv.ParseInt(to, 10, 32)
		if err != nil || b < a {
			return 0, fmt.Errorf("%w: %.40q", errWritten, data)
		}
		switch n := int64(number); {
		case n < a:
			return 0, errExcluded
		case n <= b:
			return index + int(n-a), nil
		}
		index += int(b-a) + 1
	}
	return 0, errExcluded
}

// openingSize returns the largest size that the transaction that opens a round can
// have.
func openingSize(round string, n int) int {
	const header = 4 + 1 + 4
	member := header + 4 + len(round) + len("/_c_-member-0123456789") + 36 + 4
	ready := header + 4 + len(round) + len("/ready") + 4 + 4
	n = min(n, jute.MaxFrame) // more is too large anyway
	return 8 + header + ready + n*(member+len("0123456789,"))
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
