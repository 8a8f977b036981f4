package look

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	elections "github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	semaphores "github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Contender is a znode with which somebody holds or waits. The root says what its fields are.
type Contender struct {
	Place, Path      string
	Czxid            int64
	Identity         string
	Session          int64
	Since, HeldSince time.Time
	Held, Reader     bool
	Token            int64
}

// checkUse returns ErrUnused or ErrPathInUse unless the path's data say that this recipe uses
// it, or belong to somebody else. empty: there are none. Then a lock of another library may
// stand there.
func checkUse(ctx context.Context, s *session.Session, l *line.Line) (empty bool, err error) {
	data, _, err := s.Get(ctx, l.Abs())
	if err != nil {
		return false, errs.Unused(err)
	}
	return len(data) == 0, l.CheckData(data)
}

// checkDeserted returns nil if the path, below which nobody stands, is of this recipe by its
// data, and else ErrUnused or ErrPathInUse.
func checkDeserted(ctx context.Context, s *session.Session, l *line.Line) error {
	empty, err := checkUse(ctx, s, l)
	if err == nil && empty {
		err = layout.CheckUnused(ctx, s.Session, l.Abs())
	}
	return err
}

// Line returns the places in the line of a lock, in order.
func Line(ctx context.Context, s *session.Session, l *line.Line) ([]Contender, error) {
	empty, err := checkUse(ctx, s, l)
	if err != nil {
		return nil, err
	}
	ms, err := l.List(ctx, s)
	switch {
	case err != nil:
		return nil, errs.Unused(err)
	case empty && len(ms) == 0:
		return nil, errs.ErrUnused
	}
	slices.SortFunc(ms, layout.PlaceName.Compare)
	ms, cs, err := readContenders(ctx, s, l.At, ms)
	var standing []layout.PlaceName
	for i, m := range ms {
		if stepsAside(s, m) {
			continue
		}
		cs[i].Held = !slices.ContainsFunc(standing, func(ahead layout.PlaceName) bool {
			return l.Blocks(m.Kind, ahead.Kind) && !m.SharesWith(ahead)
		})
		if cs[i].Held {
			cs[i].HeldSince = hold.HeldSince(s, l.Abs()+"/"+m.Name)
		}
		standing = append(standing, m)
	}
	return cs, err
}

// Round returns the members of the round, in order.
func Round(ctx context.Context, s *session.Session, b *barrier.Barrier) ([]Contender, error) {
	children, _, err := s.Children(ctx, b.Line.Abs())
	if errors.Is(err, zk.ErrNoNode) {
		_, err = layout.SizeAt(ctx, s.Session, b.Root.Abs(), b.Root.Recipe, "members")
		return nil, err
	}
	var opened []byte
	stat := &zk.Stat{}
	if err == nil { // if this is another round's by now, the members listed above are gone
		if opened, stat, err = s.Get(ctx, b.Ready()); errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	ms := layout.ParsePlaces(children, barrier.MemberKinds)
	slices.SortFunc(ms, layout.PlaceName.Compare)
	ms, cs, err := readContenders(ctx, s, b.At, ms)
	for i, m := range ms {
		_, _, excluded := barrier.IndexIn(opened, m.Number)
		cs[i].Held, cs[i].Token = excluded == nil, 0
		if cs[i].Held {
			cs[i].HeldSince = time.UnixMilli(stat.Mtime)
		}
	}
	return cs, err
}

// Double returns the members, in the order of their znodes' creation: the names of other
// libraries' members have no number.
func Double(ctx context.Context, s *session.Session, d *barrier.DoubleBarrier) ([]Contender, error) {
	names, _, isReady, err := d.Members(ctx, s)
	if err == nil && len(names) == 0 && !isReady {
		err = checkDeserted(ctx, s, d.Line)
	}
	var since int64 // the token of ready
	var opened time.Time
	if err == nil && isReady {
		since, opened, err = opening(ctx, s, d)
	}
	if err != nil {
		return nil, errs.Unused(err)
	}
	ms := make([]layout.PlaceName, len(names))
	for i, name := range names {
		ms[i] = layout.PlaceName{Name: name}
	}
	_, cs, err := readContenders(ctx, s, d.At, ms)
	slices.SortStableFunc(cs, func(a, b Contender) int {
		if (a.Token == 0) != (b.Token == 0) { // it may not be read
			return cmp.Compare(b.Token, a.Token)
		}
		return cmp.Compare(a.Token, b.Token)
	})
	for i := range cs {
		cs[i].Held, cs[i].Token = cs[i].Token != 0 && cs[i].Token < since, 0
		if cs[i].Held {
			cs[i].HeldSince = opened
		}
	}
	return cs, err
}

// opening returns when ready was created, as a token and by the servers' clock; zero if it is
// gone.
func opening(ctx context.Context, s *session.Session, d *barrier.DoubleBarrier) (since int64, at time.Time, err error) {
	ready, err := s.Exists(ctx, d.Ready())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return 0, time.Time{}, nil
	case err != nil:
		return 0, time.Time{}, err
	}
	return hold.TokenOf(ready.Czxid, 0), time.UnixMilli(ready.Ctime), nil
}

// Slots returns the holders of a semaphore, once for each slot, in the order of the slots, and then
// the waiters. Those are listed before the slots: a waiter that takes slots leaves the line by the
// same transaction.
func Slots(ctx context.Context, s *session.Session, x *semaphores.Semaphore) ([]Contender, error) {
	names, _, err := s.Children(ctx, x.Line.Abs())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	waiting := layout.ParsePlaces(names, x.Line.Kinds)
	slices.SortFunc(waiting, layout.PlaceName.Compare)
	slots := session.At{Client: x.At.Client, Path: x.At.Path + "/slots"}
	children, _, err := s.Children(ctx, slots.Abs())
	if errors.Is(err, zk.ErrNoNode) {
		_, err = layout.SizeAt(ctx, s.Session, x.At.Abs(), x.At.Recipe, "slots")
	}
	if err != nil {
		return nil, err
	}
	taken := semaphores.SlotsAmong(children)
	var ms []layout.PlaceName
	for _, name := range slices.SortedFunc(maps.Keys(taken), func(a, b string) int {
		return cmp.Or(cmp.Compare(taken[a], taken[b]), cmp.Compare(a, b))
	}) {
		ms = append(ms, layout.PlaceName{Name: name})
	}
	_, holders, err := readContenders(ctx, s, slots, ms)
	if err != nil {
		return nil, err
	}
	for i := range holders {
		holders[i].Held, holders[i].HeldSince = true, holders[i].Since
	}
	_, there, err := readContenders(ctx, s, x.Line.At, waiting)
	return append(holders, there...), err
}

// Election returns the leader and then the candidates, in the order of the line.
func Election(ctx context.Context, s *session.Session, l *line.Line) ([]Contender, error) {
	cs, err := Line(ctx, s, l)
	if err != nil {
		return nil, err
	}
	for i := range cs {
		cs[i].Held, cs[i].HeldSince = false, time.Time{}
	}
	path := l.Path + elections.LeaderName
	stat, err := s.Exists(ctx, l.Client.Abs(path))
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && stat.EphemeralOwner == 0: // somebody else's
		return cs, nil
	case err != nil:
		return nil, err
	}
	began := time.UnixMilli(stat.Ctime)
	if len(cs) == 0 || cs[0].Session != stat.EphemeralOwner {
		cs = slices.Insert(cs, 0, Contender{Session: stat.EphemeralOwner, Since: began})
	}
	cs[0].Place, cs[0].Path = elections.LeaderName[1:], path
	cs[0].Czxid, cs[0].Token = stat.Czxid, hold.TokenOf(stat.Czxid, 0)
	cs[0].Held, cs[0].HeldSince = true, began
	return cs, nil
}

// readContenders reads znodes below an address, several at a time. It returns those that are
// still there.
func readContenders(ctx context.Context, s *session.Session, at session.At, ms []layout.PlaceName) (there []layout.PlaceName, cs []Contender, err error) {
	all := make([]Contender, len(ms))
	errs := make([]error, len(ms))
	zkconn.AtATime(len(ms), func(i int) { all[i], errs[i] = readContender(ctx, s, at, ms[i]) })
	for i, err := range errs {
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil && !errors.Is(err, zk.ErrNoAuth): // without the permission READ only the name is known
			return nil, nil, err
		}
		there, cs = append(there, ms[i]), append(cs, all[i])
	}
	return there, cs, nil
}

// readContender reads the znode of one. On an error only its name is known.
func readContender(ctx context.Context, s *session.Session, at session.At, m layout.PlaceName) (Contender, error) {
	c := Contender{Place: m.Name, Path: at.Path + "/" + m.Name, Reader: m.Kind.Shared()}
	data, stat, err := s.Get(ctx, at.Abs()+"/"+m.Name)
	if err == nil {
		c.Identity, c.Session, c.Since = string(data), stat.EphemeralOwner, time.UnixMilli(stat.Ctime)
		c.Czxid, c.Token = stat.Czxid, hold.TokenOf(stat.Czxid, 0)
	}
	return c, err
}
