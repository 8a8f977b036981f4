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

// Barrier holds its members back until n of them are there, and then lets those
// n go: round after round, on one path. Who comes early for the next round waits
// until the last one has left; who comes as one too many waits for the next. A
// member that cancels, or whose process dies, before the round is opened is not
// counted. It is only a name; values are safe for concurrent use, and each call
// of Wait is a member of its own.
//
// The znode at the path holds n as decimal text: members that disagree get an
// error that names both numbers. It is a container, which the servers delete
// when it has been idle.
type Barrier struct {
	line  *line // the path
	round *line // the generation: one znode, created anew for each round
	n     int

	mu          sync.Mutex
	sizeChecked time.Time // when the path's data was last known to be n
}

// NewBarrier returns the barrier of n members with that path. It sends nothing; a
// path that is none, an n below 1, and one that no transaction has room for are
// errors at the first use.
func NewBarrier(c *Client, path string, n int) *Barrier {
	return &Barrier{
		line:  &line{c: c, path: path, recipe: "barrier"},
		round: &line{c: c, path: path + "/round", recipe: "round", kinds: memberKinds},
		n:     n,
	}
}

// Wait joins the round and returns once it has been opened, with the number that
// the member has in it: 0 to n-1, each once, so that one of them can be told to
// lead. It blocks until n members are there, through disconnections.
//
// Errors: that of ctx, and the round was not, and will not be, opened with this
// member; while connected it is asked of the servers whether that is so, and
// where the round was opened after all Wait succeeds. ErrUncertain: ctx ended
// while disconnected, or the reply was lost, so it may have been; the next Wait of
// this Client begins when it is known. zk.ErrSessionExpired: the session ended
// first, which is no member any more; a round is not joined again behind the
// caller's back. ErrEvicted: somebody deleted the member's znode (where that was
// before it was known that there is one, another takes its place). ErrClosed.
// Either of the last three with ErrUncertain where it cannot be found out any more
// whether the round had been opened with it.
//
// Cost: three requests and one commit for a member (two for the last to come,
// beside one that lists the members and one, with a commit, that opens the round
// for all), one commit to leave; for the first member of a round one more, two
// where members of the round before are still leaving. A wake is one for each
// member.
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
	// Whether the round is opened with this member is for the servers to say, as
	// long as one can be asked.
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

// checkSize makes sure that the path's znode holds n, and creates it where there is
// none. An idle container is reaped, so this is believed for a while only.
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
		case isContextErr(ctx, err): // whatever its cause is
			return err
		case errors.Is(err, zk.ErrNoNode):
			err = s.CreateContainer(ctx, path, n, b.line.c.acl)
		case err != nil:
		case stat.EphemeralOwner != 0:
			return zk.ErrNoChildrenForEphemerals
		case len(data) == 0: // made as the parent of something
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

// ready holds the members as ranges of their sequence numbers ("0-3,5"), so that
// what each of them reads does not grow with their number.

// ranges writes the numbers of members, which are in order.
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

// indexIn returns how many numbers stand before number, or errExcluded.
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

// openingSize returns the size of a transaction that opens a round, at most.
func openingSize(round string, n int) int {
	const header = 4 + 1 + 4
	member := header + 4 + len(round) + len("/_c_-member-0123456789") + 36 + 4
	ready := header + 4 + len(round) + len("/ready") + 4 + 4
	n = min(n, jute.MaxFrame) // more is too large anyway
	return 8 + header + ready + n*(member+len("0123456789,"))
}

// checkMembers refuses a number of members that is none, or for which there is no
// room in the transaction that lets them go.
func checkMembers(recipe string, n, size int) error {
	switch {
	case n < 1:
		return fmt.Errorf("a %s of %d members", recipe, n)
	case size > jute.MaxFrame:
		return fmt.Errorf("a %s of %d members: %w", recipe, n, zkconn.TooLarge(size))
	}
	return nil
}
