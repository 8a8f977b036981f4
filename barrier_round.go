package zkrecipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// A round is a generation: a znode with its ready, which is empty until the
// round is opened, and names the members from then on. Both are created in one
// transaction and deleted in one, so that there is none without the other, and
// generations, which bear one name, are told apart by their czxid. The rules
// were model-checked; sentences with "must" are there because leaving them out
// opens a round short, or leaves it shut for ever.

// attendance is one call of Barrier.Wait.
type attendance struct {
	*Barrier
	ctx     context.Context // ends when the caller leaves
	exposed atomic.Bool     // there is a member, or may be
	end     chan struct{}   // closed when it has ended
	index   int
	err     error
}

var (
	errExcluded = errors.New("the round was opened without this member")
	errPending  = errors.New("the round is not open")
	errNoRound  = errors.New("another round stands in the place of this one")
	errNoReady  = errors.New("the round has no ready: somebody has deleted it")
	errWritten  = errors.New("somebody else has written the round's ready")
	errExpired  = fmt.Errorf("the session ended while waiting: %w", zk.ErrSessionExpired)
)

// expired returns why a member's session has ended: the Client may have ended it.
func (c *Client) expired() error {
	if c.closing.Err() != nil {
		return ErrClosed
	}
	return errExpired
}

func (b *Barrier) ready() string { return b.round.abs() + "/ready" }

// attend joins round after round until one is opened with this member. Requests
// with a context that does not end are those whose outcome has to be known; the
// caller does not wait for them while there is no connection.
func (a *attendance) attend() (int, error) {
	for {
		s, err := a.line.c.live(a.ctx)
		if err != nil {
			return 0, err
		}
		p, err := a.join(s)
		if err == nil {
			var index int
			if index, err = a.turn(p); err == nil {
				return index, nil
			}
		}
		if err != errExcluded && !errors.Is(err, errSessionOver) {
			return 0, err
		}
	}
}

// join becomes a member of a round that is not open yet. errSessionOver: there
// was no member.
func (a *attendance) join(s *session) (*place, error) {
	if err := a.agree(a.ctx, s); err != nil {
		return nil, err
	}
	var last *watch // on the last member of an open round
	exists := false // a round does, it was said
	for tries := 0; tries < maxTries; {
		p, failed, err := a.become(s)
		if p != nil {
			return p, nil
		}
		switch {
		case failed == 0 && errors.Is(err, zk.ErrBadVersion):
			exists = false
			last, err = a.early(s, last)
		case failed == 0 && errors.Is(err, zk.ErrNoNode):
			last = nil
			if exists, err = a.begin(s, exists); errors.Is(err, zk.ErrNoNode) { // the path has been reaped
				tries++
				a.doubt()
				err = a.agree(a.ctx, s)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errContended
}

// become sends one join. No place and no error: there is none, and it can be tried
// again.
func (a *attendance) become(s *session) (p *place, failed int, err error) {
	if err := s.ready(a.ctx); err != nil {
		return nil, -1, err
	}
	uuid := newUUID()
	a.exposed.Store(true) // before it is sent
	t, err := s.start(
		&zk.CheckVersionRequest{Path: a.ready(), Version: 0},
		&zk.CreateRequest{
			Path: a.round.abs() + "/_c_" + uuid + "-" + string(kindMember),
			Data: []byte(a.line.c.identity), Acl: placeACL(a.line.c.acl, s.ownerID()),
			Flags: zk.FlagEphemeral | zk.FlagSequence,
		},
		&zk.SetDataRequest{Path: a.round.abs(), Data: []byte{}, Version: -1})
	failed = -1
	if err == nil {
		var rs []zk.MultiResponse
		p, rs, failed, err = a.round.outcome(context.Background(), s, t, 1, uuid)
		switch {
		case p != nil:
			if rs != nil {
				p.arrived(rs[2].Stat)
			}
			return p, -1, nil
		case errors.Is(err, errSessionOver): // others may have counted it
			return nil, -1, fmt.Errorf("%w: %w", ErrUncertain, a.line.c.expired())
		}
	}
	a.exposed.Store(false)
	if errors.Is(err, errNotSent) {
		err = nil
	}
	return nil, failed, err
}

// begin creates a round. exists: there is one already. It was there before too,
// so if it has no ready nobody will ever open it.
func (a *attendance) begin(s *session, existed bool) (exists bool, err error) {
	if existed {
		names, _, err := s.children(a.ctx, a.round.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return false, err
		case !slices.Contains(names, "ready"):
			return false, errNoReady
		}
	}
	_, _, err = s.multi(a.ctx,
		&zk.CreateRequest{Path: a.round.abs(), Data: []byte{}, Acl: a.line.c.acl},
		&zk.CreateRequest{Path: a.ready(), Data: []byte{}, Acl: a.line.c.acl})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return true, nil
	case unsettled(err):
		return false, nil
	}
	return false, err
}

// early is for who comes while the round before is open: it waits for the last
// member to leave, and must join once more when that is watched, before it waits.
// Else it can be a member of the next round that it watches, for ever. Where
// nobody is there any more it deletes the round: everyone must, since the last to
// leave may have died.
func (a *attendance) early(s *session, last *watch) (*watch, error) {
	if last != nil {
		select {
		case <-last.done:
			return nil, nil
		case <-s.over:
			return nil, errSessionOver
		case <-a.ctx.Done():
			return nil, ended(a.ctx)
		}
	}
	names, _, err := s.children(a.ctx, a.round.abs())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ms := members(names, memberKinds)
	if len(ms) == 0 {
		if i := slices.IndexFunc(names, func(name string) bool { return name != "ready" }); i >= 0 {
			return nil, fmt.Errorf("%s stands in the round, which cannot be deleted: something else uses this path", names[i])
		}
		return nil, a.clear(a.ctx, s, 1)
	}
	w, err := s.watch(a.ctx, a.round.abs()+"/"+slices.MaxFunc(ms, member.compare).name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return w, err
}

// clear deletes a round that has no members and whose ready has that version: 1
// once it was opened. What is in the way is mostly another's doing: it is no error
// that the round is not there any more.
func (b *Barrier) clear(ctx context.Context, s *session, version int32) error {
	_, failed, err := s.multi(ctx,
		&zk.DeleteRequest{Path: b.ready(), Version: version},
		&zk.DeleteRequest{Path: b.round.abs(), Version: -1})
	switch {
	case failed == 0 && errors.Is(err, zk.ErrBadVersion):
		_, stat, err := read(ctx, s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(b.ready()) })
		if err == nil && stat.Version > 1 {
			return fmt.Errorf("%w, and the round cannot be deleted", errWritten)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	case failed == 0 && errors.Is(err, zk.ErrNotEmpty):
		return fmt.Errorf("the round's ready cannot be deleted: %w", err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNotEmpty), unsettled(err):
	default:
		return err
	}
	return nil
}

// turn waits until the round is opened with the member p, or can never be.
func (a *attendance) turn(p *place) (int, error) {
	// The last to come of those who are there has seen n of them, so one that is
	// there has seen it, whoever else dies.
	if p.count < 0 || p.count-1 >= a.n { // ready is no member
		names, err := a.open(p)
		if err == nil && names != nil {
			index, err := indexIn(names, p.number)
			return a.finish(p, index, err)
		}
		if err != nil {
			return a.finish(p, 0, err)
		}
	}
	// Its own znode is watched when the wait has lasted for a while: short waits
	// do not pay for it.
	late := time.NewTimer(p.s.wire.Timeout() / 10)
	defer late.Stop()
	for {
		w, err := a.watchReady(p.s)
		if err != nil {
			return a.finish(p, 0, err)
		}
		if index, err := a.judge(p, w.data, &w.stat); err != errPending {
			return a.finish(p, index, err)
		}
		for waiting := true; waiting; {
			select {
			case <-w.done:
				waiting = false
			case <-p.own.fires():
				p.own = nil
				late.Reset(0) // deleted, mostly
			case <-late.C:
				if p.own, err = p.s.watch(a.ctx, p.path); err != nil {
					return a.finish(p, 0, err)
				}
			case <-p.s.over:
				return a.finish(p, 0, errSessionOver)
			case <-a.ctx.Done():
				return a.finish(p, 0, ended(a.ctx))
			}
		}
		// Read without a watch: mostly there is nothing more to wait for.
		data, stat, err := read(context.Background(), p.s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(a.ready()) })
		if err != nil {
			return a.finish(p, 0, err)
		}
		if index, err := a.judge(p, data, stat); err != errPending {
			return a.finish(p, index, err)
		}
	}
}

// watchReady returns a watch on ready that was answered after this member came:
// one that others share may have been asked for before.
func (a *attendance) watchReady(s *session) (*watch, error) {
	for again := false; ; again = true {
		w, err := s.watch(context.Background(), a.ready()) // ends with the session
		switch {
		case err == nil && w.fired(), errors.Is(err, zk.ErrNoNode) && !again:
			continue
		}
		return w, err
	}
}

// judge returns the member's index, or why it has none. ready is looked at with
// the czxid of the member's own round: another one may have its name.
func (a *attendance) judge(p *place, data []byte, stat *zk.Stat) (int, error) {
	switch {
	case stat.Czxid != p.era:
		return 0, errNoRound
	case len(data) == 0 && stat.Version == 0:
		return 0, errPending
	case len(data) == 0: // it can never be opened
		return 0, fmt.Errorf("%w without a name", errWritten)
	}
	return indexIn(data, p.number)
}

// open opens the round with the first n of its members, if there are as many, and
// returns what it wrote into ready; nil if it did not. The transaction must check
// each: what a listing shows may have gone.
func (a *attendance) open(p *place) ([]byte, error) {
	s := p.s
	for a.ctx.Err() == nil {
		names, stat, err := s.children(context.Background(), a.round.abs()) // ends with the session
		if errors.Is(err, zk.ErrNoNode) || err == nil && stat.Czxid != p.era {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		ms := slices.DeleteFunc(members(names, memberKinds), func(m member) bool { return m.number < 0 || m.number > a.line.c.last })
		if len(ms) < a.n {
			return nil, nil
		}
		slices.SortFunc(ms, member.compare)
		ms = ms[:a.n]
		data := ranges(ms)
		ops := []any{&zk.SetDataRequest{Path: a.ready(), Data: data, Version: 0}}
		for _, m := range ms {
			ops = append(ops, &zk.CheckVersionRequest{Path: a.round.abs() + "/" + m.name, Version: -1})
		}
		_, failed, err := s.multi(context.Background(), ops...)
		switch {
		case err == nil:
			return data, nil
		case failed == 0 && (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)):
			return nil, nil // somebody else has
		case errors.Is(err, zk.ErrNoNode): // the listing was of a server that lags, or one has left since
			if err := s.sync(context.Background(), a.round.abs()); err != nil {
				return nil, err
			}
		case !unsettled(err): // else, as long as ready is empty, it is still to be opened
			return nil, err
		}
	}
	return nil, nil
}

// finish ends the attendance of p with an index, or for that reason.
func (a *attendance) finish(p *place, index int, why error) (int, error) {
	switch {
	case why == nil:
		a.line.c.tasks.start(func() { a.leave(p) })
		return index, nil
	case why == errExcluded:
		a.exposed.Store(false)
		left := make(chan struct{})
		a.line.c.tasks.start(func() {
			a.leave(p)
			close(left)
		})
		select {
		case <-left:
		case <-a.ctx.Done():
		}
		return 0, why
	case errors.Is(why, errSessionOver):
		return a.posthumous(p, a.line.c.expired())
	case left(a.ctx, why): // whatever its cause is
	case errors.Is(why, zk.ErrNoNode), why == errNoRound:
		_, _, err := read(context.Background(), p.s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(p.path) })
		switch {
		case err == nil:
			why = errNoReady
		case errors.Is(err, zk.ErrNoNode):
			if err := p.gone(context.Background()); !errors.Is(err, errSessionOver) {
				return a.posthumous(p, err)
			}
			fallthrough
		case errors.Is(err, errSessionOver):
			return a.posthumous(p, a.line.c.expired())
		default:
			why = err
		}
	}
	return a.withdraw(p, why)
}

// leave deletes the member; the one that sees that it was the last deletes the
// round.
func (a *attendance) leave(p *place) {
	rs, _, err := p.s.multi(context.Background(),
		&zk.DeleteRequest{Path: p.path, Version: -1},
		&zk.SetDataRequest{Path: a.round.abs(), Data: []byte{}, Version: -1})
	if err != nil { // whether it was the last is not known then
		p.leave(false)
	}
	if err != nil || rs[1].Stat.NumChildren == 1 {
		_ = a.clear(context.Background(), p.s, 1) // the next to come does it else
	}
}

// withdraw deletes a member that will not wait any more, for that reason, unless
// the round is open: then it must look whether it names the member, while that
// still stands and holds the round in place.
func (a *attendance) withdraw(p *place, why error) (int, error) {
	for again := false; ; {
		rs, failed, err := p.s.multi(context.Background(),
			&zk.DeleteRequest{Path: p.path, Version: -1},
			&zk.CheckVersionRequest{Path: a.ready(), Version: 0},
			&zk.SetDataRequest{Path: a.round.abs(), Data: []byte{}, Version: -1})
		switch {
		case err == nil && rs[2].Stat.NumChildren == 1:
			a.line.c.tasks.start(func() { _ = a.clear(context.Background(), p.s, 0) }) // the next to come uses it else
			fallthrough
		case err == nil:
			return 0, why
		case unsettled(err):
			again = again || !errors.Is(err, errNotSent)
			continue
		case errors.Is(err, errSessionOver):
			return a.posthumous(p, why)
		case failed == 0 && errors.Is(err, zk.ErrNoNode):
			if !again { // else it was done before, or is somebody else's doing all the same
				why = fmt.Errorf("%w: %w", why, ErrEvicted)
			}
			return a.posthumous(p, why)
		case failed == 1 && errors.Is(err, zk.ErrBadVersion):
			data, stat, err := read(context.Background(), p.s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(a.ready()) })
			if errors.Is(err, errSessionOver) {
				return a.posthumous(p, why)
			}
			index := 0
			if err == nil {
				index, err = a.judge(p, data, stat)
			}
			a.line.c.tasks.start(func() { a.leave(p) })
			switch {
			case err == nil:
				return index, nil
			case err == errExcluded:
				return 0, why
			}
			return 0, uncertain(why, err)
		}
		a.line.c.tasks.start(func() { p.leave(false) })
		return 0, uncertain(why, err)
	}
}

// uncertain: whether the round was opened with the member cannot be found out.
func uncertain(why, err error) error {
	if errors.Is(err, why) || errors.Is(why, errNoReady) || errors.Is(why, errWritten) { // it says as much
		return fmt.Errorf("%w: %w", ErrUncertain, why)
	}
	return fmt.Errorf("%w: %w: %w", ErrUncertain, why, err)
}

// posthumous finds out whether the round was opened with a member that is gone,
// for that reason, which else is the outcome: it can never be from now on. It
// must not believe another round's ready.
func (a *attendance) posthumous(p *place, why error) (int, error) {
	ctx, done := a.line.c.bind(context.Background())
	defer done()
	for {
		s, err := a.line.c.live(ctx)
		if err == nil {
			err = s.sync(ctx, a.ready())
		}
		var data []byte
		var stat *zk.Stat
		if err == nil {
			data, stat, err = read(ctx, s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(a.ready()) })
		}
		if errors.Is(err, errSessionOver) {
			continue
		}
		var index int
		if err == nil {
			index, err = a.judge(p, data, stat)
		}
		switch {
		case err == nil:
			return index, nil
		case err == errPending, err == errExcluded:
			return 0, why
		}
		return 0, uncertain(why, err)
	}
}

// ready holds the members as ranges of their sequence numbers ("0-3,5"), so that
// what each of them reads does not grow with their number.

// ranges writes the numbers of members, which are in order.
func ranges(ms []member) []byte {
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
		return fmt.Errorf("a %s of %d members: %w", recipe, n, tooLarge(size))
	}
	return nil
}
