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
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What ready says of a round: which members it was opened with.

var (
	ErrExcluded = errors.New("the round was opened without this member")
	ErrWritten  = errors.New("znode ready was written by somebody else")
)

// awaitOpening waits until the round is opened with the member p, or can never be.
func (a *participant) awaitOpening(p *line.Place) (int, error) {
	s := p.Session
	if p.LineCount < 0 || p.LineCount-1 >= a.n { // ready is no member
		if index, err := a.open(p); err != errPending {
			return index, err
		}
	}
	signal, err := a.watchSignal(p)
	if err != nil {
		return 0, err
	}
	agreed := false
	index, err := await(a.ctx, p, func(late bool) (*zkconn.Watch, error) {
		switch {
		case late && !agreed:
			agreed = true
			if err := a.stillAgrees(s); err != nil {
				return nil, err
			}
		case !late && signal != nil && !signal.HasFired():
			return signal, nil
		}
		return a.watchReady(p) // which changes after the signal is raised
	}, func(w *zkconn.Watch) (int, error) {
		switch {
		case isRaised(signal):
			return int(p.Number) - 1, nil
		case w == nil:
			return a.read(s, p)
		case w == signal:
			return 0, errPending
		}
		return a.judge(p, w.Data, &w.Stat)
	})
	// The opening has checked that each of the numbers 1 to n was there, so what has become of the
	// member since does not matter.
	if isRaised(signal) {
		return int(p.Number) - 1, nil
	}
	return index, err
}

// stillAgrees returns an error if the path holds another n. If all others wait for that, nobody
// opens this round. If n cannot be read, or is not there, that is for the member that opens.
func (a *participant) stillAgrees(s *session.Session) error {
	data, stat, err := s.Get(a.ctx, a.Root.Abs())
	if err != nil || len(data) == 0 {
		return nil
	}
	_, err = a.agree(a.ctx, s, data, stat)
	return err
}

// watchReady returns a watch on ready that was answered after this member came. A watch
// that others share may have been set before.
func (a *participant) watchReady(p *line.Place) (*zkconn.Watch, error) {
	for again := false; ; again = true {
		w, err := p.Session.Watch(p.Session.UntilAnswered(), a.Ready())
		if err == nil && w.HasFired() || errors.Is(err, zk.ErrNoNode) && !again {
			continue
		}
		return w, err
	}
}

// read reads ready, and returns what judge does.
func (a *participant) read(s *session.Session, p *line.Place) (int, error) {
	data, stat, err := s.Get(s.UntilAnswered(), a.Ready())
	if err != nil {
		return 0, err
	}
	return a.judge(p, data, stat)
}

// judge returns the member's index, or why it has none. It compares ready with the czxid
// of the member's own round, because another round may have its name. If there is another
// number of names, they are those of members that wait for another n.
func (a *participant) judge(p *line.Place, data []byte, stat *zk.Stat) (int, error) {
	switch {
	case stat.Czxid != p.LineCzxid:
		return 0, zk.ErrNoNode
	case len(data) == 0 && stat.Version == 0:
		return 0, errPending
	case len(data) == 0: // it can never be opened
		return 0, fmt.Errorf("%w: it is empty", ErrWritten)
	}
	index, n, err := IndexIn(data, p.Number)
	if n > 0 && n != a.n {
		return 0, a.wrongSize(n)
	}
	return index, err
}

// open opens the round with the first n of its members that wait for n, if there are as
// many, and returns the index of p, or errPending. The transaction must check each member:
// one that the listing shows may have gone. It must check the path, too, of which this
// client may remember an n that others have replaced. What is read after the join is of
// the path in which the round stands, for as long as the members exist.
func (a *participant) open(p *line.Place) (int, error) {
	s, signaled := p.Session, true // the round has a signal of n
	stuck := 0                     // how often a signal had a child that is not its own
	for a.ctx.Err() == nil {
		ms, version, err := a.complete(p)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), zkconn.Transient(err):
			continue
		case err != nil:
			return 0, err
		}
		signal, err := a.changeSignal(s, ms, signaled)
		if err != nil {
			return 0, err
		}
		notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}
		ready := &zk.SetDataRequest{Path: a.Ready(), Data: ranges(ms), Version: 0}
		checks := []any{&zk.CheckVersionRequest{Path: a.Root.Abs(), Version: version}}
		for _, m := range ms {
			checks = append(checks, &zk.CheckVersionRequest{Path: a.Abs() + "/" + m.Name, Version: -1})
		}
		o := s.Multi(s.UntilAnswered(), slices.Concat([]any{notOpen}, signal, []any{ready}, checks)...)
		switch {
		case o.Applied():
			index, _, err := IndexIn(ready.Data, p.Number)
			return index, err
		case o.RefusedAt(notOpen, zk.ErrBadVersion, zk.ErrNoNode):
			return 0, errPending
		case stuck == zkconn.MaxTries:
			return 0, fmt.Errorf("a signal below znode ready cannot be deleted: %w", o.Err())
		case o.Is(zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNodeExists, zk.ErrNotEmpty):
			// A member has left or the path was written since, or the server lags, or the
			// signal is not as expected.
			signaled = signaled && !o.RefusedIn(signal)
			if o.Is(zk.ErrNotEmpty) {
				stuck++
			}
			if err := s.Sync(s.UntilAnswered(), a.Abs()); err != nil {
				return 0, err
			}
		case !o.Transient(): // else it is still to be opened, as long as ready is empty
			return 0, o.Err()
		}
	}
	return 0, errPending
}

// changeSignal returns the operations by which the opening with these members raises the signal, or
// deletes all signals. They come before ready is written, so that their event is the first to come
// to a member that watches both. Members that wait for another n must be woken, too. They watch
// ready, unless the round was created for their n: then all signals are deleted.
func (a *participant) changeSignal(s *session.Session, ms []layout.PlaceName, signaled bool) ([]any, error) {
	switch {
	case !signaled:
		return a.deleteSignals(s.UntilAnswered(), s)
	case ms[0].Number == 1 && int(ms[a.n-1].Number) == a.n:
		return []any{a.Raise(a.childACL(s))}, nil
	}
	return []any{&zk.DeleteRequest{Path: a.signal(), Version: -1}}, nil
}

// complete returns the members with which the round is to be opened, and the version in which
// the path holds n. It returns errPending if they are too few, or if the round is another one.
func (a *participant) complete(p *line.Place) (ms []layout.PlaceName, version int32, err error) {
	s := p.Session
	reading, sent := s.StartGet(a.Root.Abs()) // with the listing, in one round trip
	names, stat, err := s.Children(s.UntilAnswered(), a.Abs())
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != p.LineCzxid:
		return nil, 0, errPending
	case err != nil:
		return nil, 0, err
	case sent != nil:
		return nil, 0, sent
	}
	<-reading.Done()
	data, path, err := reading.Data()
	if err == nil {
		version, err = a.agree(s.UntilAnswered(), s, data, path)
	}
	if err != nil {
		return nil, 0, err
	}
	ms = slices.DeleteFunc(layout.ParsePlaces(names, MemberKinds), func(m layout.PlaceName) bool {
		return line.IsBeyondLimit(a.Client, m.Number) || !a.counts(m.Name)
	})
	if len(ms) < a.n {
		return nil, 0, errPending
	}
	slices.SortFunc(ms, layout.PlaceName.Compare)
	return ms[:a.n], version, nil
}

// The znode ready names the members as ranges of their sequence numbers ("0-3,5"), so
// that what each member reads does not grow with their number.

// ranges returns the members' numbers as ranges. ms must be sorted.
func ranges(ms []layout.PlaceName) []byte {
	numbers := make([]int32, len(ms))
	for i, m := range ms {
		numbers[i] = m.Number
	}
	return layout.AppendRanges(nil, numbers)
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
	path := &zk.CheckVersionRequest{Path: b.Root.Abs()}
	const header = 4 + 1 + 4
	member := header + 4 + len(b.Abs()) + len("/_c_-0123456789") + 36 + len(b.kind()) + 4
	return zkconn.MultiSize([]any{notOpen, b.Raise(b.Client.ACL), ready, path}) + min(b.n, jute.MaxFrame)*(member+len("0123456789,"))
}
