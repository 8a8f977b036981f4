package barrier

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How a round is opened: with n of its members, all at once, whose numbers ready names.

// open opens the round with the first n of its members that wait for n, if there are as
// many, and returns what it wrote into ready, nil if nothing. The transaction must check
// each member: one that the listing shows may have gone. It must check the path, too, of
// which this client may remember an n that others have replaced. What is read after the
// join is of the path in which the round stands, for as long as the members exist.
func (a *participant) open(p *line.Place) ([]byte, error) {
	s, signaled := p.Session, true // the round has a signal of n
	for a.ctx.Err() == nil {
		ms, version, err := a.complete(p)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), zkconn.Transient(err):
			continue
		case err != nil || ms == nil:
			return nil, err
		}
		notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}
		ready := &zk.SetDataRequest{Path: a.Ready(), Data: Ranges(ms), Version: 0}
		signal, left, err := a.signalOpening(s, ms, signaled)
		if err != nil {
			return nil, err
		}
		o := s.Multi(s.Lifetime(), slices.Concat([]any{notOpen}, signal, []any{ready}, a.checks(ms, version))...)
		switch {
		case o.Applied():
			a.left = left
			return ready.Data, nil
		case o.RefusedAt(notOpen, zk.ErrBadVersion, zk.ErrNoNode):
			return nil, nil
		case o.Is(zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNodeExists, zk.ErrNotEmpty):
			// A member has left or the path was written since, or the server lags, or the
			// signal is not as expected.
			signaled = signaled && !o.RefusedIn(signal)
			if err := s.Sync(s.Lifetime(), a.Round.Abs()); err != nil {
				return nil, err
			}
		case !o.Transient(): // else it is still to be opened, as long as ready is empty
			return nil, o.Err()
		}
	}
	return nil, nil
}

// complete returns the members with which the round is to be opened, and the version in which
// the path holds n. There are none as long as they are too few, or if the round is another one.
func (a *participant) complete(p *line.Place) (ms []placename.Parts, version int32, err error) {
	// It is sent with the listing, in one round trip.
	reading, _ := p.Session.StartGet(a.Line.Abs())
	names, stat, err := p.Session.Children(p.Session.Lifetime(), a.Round.Abs())
	if errors.Is(err, zk.ErrNoNode) || err == nil && stat.Czxid != p.LineCzxid {
		return nil, 0, nil
	}
	if err == nil {
		version, err = a.agreeOn(p.Session, reading)
	}
	if err != nil {
		return nil, 0, err
	}
	if ms = a.countable(names); len(ms) < a.N {
		return nil, 0, nil
	}
	return ms[:a.N], version, nil
}

// signalOpening returns what the transaction that opens the round with those members does
// to wake the others, and in which state it leaves the signal. It comes before ready is
// written, so that its event is the first to come to a member that watches both. Members that
// wait for another n must be woken, too. They watch ready, unless the round was created
// for their n and not for this one: then all signals are deleted.
func (a *participant) signalOpening(s *session.Session, ms []placename.Parts, signaled bool) (ops []any, left signalState, err error) {
	switch {
	case !signaled:
		ops, _, err = a.deleteSignals(s.Lifetime(), s)
		if errors.Is(err, zk.ErrNoNode) { // ready is gone, too, and the transaction will fail
			err = nil
		}
		return ops, noSignal, err
	case allThere(ms):
		return []any{a.Raise(a.childACL(s))}, signalRaised, nil
	}
	return a.deleteSignal(signalDown), noSignal, nil
}

// agreeOn returns the version in which the path holds n, by a read that was sent before.
func (a *participant) agreeOn(s *session.Session, reading *zkconn.Reading) (version int32, err error) {
	var data []byte
	var stat *zk.Stat
	err = zkconn.ErrNotSent
	if reading != nil {
		<-reading.Done()
		data, stat, err = reading.Data()
	}
	if zkconn.Transient(err) {
		data, stat, err = s.Get(s.Lifetime(), a.Line.Abs())
	}
	if err != nil {
		return 0, err
	}
	return a.agree(s.Lifetime(), s, data, stat)
}

// checks returns what must still be so when the round is opened with those members: that
// they exist, and that the path has that version.
func (b *Barrier) checks(ms []placename.Parts, version int32) []any {
	round := b.Round.Abs() + "/"
	ops := []any{&zk.CheckVersionRequest{Path: b.Line.Abs(), Version: version}}
	for _, m := range ms {
		ops = append(ops, &zk.CheckVersionRequest{Path: round + m.Name, Version: -1})
	}
	return ops
}

// countable returns the members that wait for n, in order.
func (a *participant) countable(names []string) []placename.Parts {
	ms := slices.DeleteFunc(placename.ParseAll(names, MemberKinds), func(m placename.Parts) bool {
		size := memberSize(m.Name)
		return line.IsBeyondLimit(a.Line.Client, m.Number) || size != 0 && size != a.N
	})
	slices.SortFunc(ms, placename.Parts.Compare)
	return ms
}

// The znode ready names the members as ranges of their sequence numbers ("0-3,5"), so
// that what each member reads does not grow with their number.

// Ranges returns the members' numbers as ranges. ms must be sorted.
func Ranges(ms []placename.Parts) []byte {
	var b []byte
	for i := 0; i < len(ms); {
		j := i
		for j+1 < len(ms) && ms[j+1].Number == ms[j].Number+1 {
			j++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(ms[i].Number), 10)
		if j > i {
			b = strconv.AppendInt(append(b, '-'), int64(ms[j].Number), 10)
		}
		i = j + 1
	}
	return b
}

// IndexIn returns how many of the numbers in data come before number, or ErrExcluded
// if number is not among them, and how many there are.
func IndexIn(data []byte, number int32) (index, n int, err error) {
	index, err = 0, ErrExcluded
	for part := range bytes.SplitSeq(data, []byte{','}) {
		from, to, ok := strings.Cut(string(part), "-")
		if !ok {
			to = from
		}
		a, err1 := strconv.ParseInt(from, 10, 32)
		b, err2 := strconv.ParseInt(to, 10, 32)
		if err1 != nil || err2 != nil || b < a {
			return 0, 0, fmt.Errorf("%w: %.40q", ErrWritten, data)
		}
		if a <= int64(number) && int64(number) <= b {
			index, err = n+int(int64(number)-a), nil
		}
		n += int(b-a) + 1
	}
	return index, n, err
}

// OpeningSize returns the largest size that the transaction that opens a round can
// have.
func (b *Barrier) OpeningSize() int {
	ready := &zk.SetDataRequest{Path: b.Ready()}
	notOpen := &zk.CheckVersionRequest{Path: b.Ready()}
	path := &zk.CheckVersionRequest{Path: b.Line.Abs()}
	const header = 4 + 1 + 4
	member := header + 4 + len(b.Round.Abs()) + len("/_c_-0123456789") + 36 + len(MemberKindOf(b.N)) + 4
	n := min(b.N, jute.MaxFrame)
	return zkconn.MultiSize([]any{notOpen, b.Raise(b.Line.Client.ACL), ready, path}) + n*(member+len("0123456789,"))
}
