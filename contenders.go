package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/work"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Contender is a place in the line of a lock, an election or a semaphore, a slot, a leader, or a
// member of a Barrier or DoubleBarrier, of a client of this library or of another one.
// [Client.Evict] deletes its znode. Never set the znode's data: a super user's write looks like
// a release, and the next in line gets the lock beside the holder.
type Contender struct {
	Place    string    // the znode's name
	Path     string    // the znode's path, below Options.Prefix
	Czxid    int64     // of the znode: the zxid of the transaction that created it
	Identity string    // the znode's data; for this library's places, Options.Identity
	Session  int64     // ZooKeeper's session id
	Since    time.Time // when it joined, by the servers' clock
	// HeldSince is since when it holds; zero if it does not, or if that is not known. For a
	// slot and a leader it is when the znode was created, and for a member of a barrier when
	// the round was opened, by the servers' clock. For a lock, only the Client that holds or
	// keeps it knows it, by its own clock: the servers record no more than the join, so anyone
	// else knows that it has held since Since or later. Two lists with the same Place and Held
	// show a hold that has lasted from the first to the second.
	HeldSince time.Time
	// Held: it holds the lock, or its process keeps it (KeepFor). A member of a barrier no
	// longer waits: its round was opened with it, or it has entered the DoubleBarrier.
	Held   bool
	Reader bool // it shares the lock with other readers, as a lease that is Shared
	// Token is the fencing token once it holds. A downgraded lease keeps its writer's. If
	// the lock is kept, this is the token of the process's first hold: the servers do not
	// know the number of the present one. It is zero for a member of a barrier.
	Token Token
}

// listContenders returns what in returns in one session.
func (r recipe) listContenders(ctx context.Context, in func(context.Context, *session.Session) ([]Contender, error)) (cs []Contender, err error) {
	err = r.inSessions(ctx, "list", func(ctx context.Context, s *session.Session, _ string) error {
		cs, err = in(ctx, s)
		return err
	})
	return cs, err
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
		err = l.CheckUnused(ctx, s)
	}
	return err
}

// contendersIn returns the places in the line of a lock, in order.
func (r recipe) contendersIn(ctx context.Context, s *session.Session) ([]Contender, error) {
	empty, err := checkUse(ctx, s, r.Line)
	if err != nil {
		return nil, err
	}
	ms, err := r.List(ctx, s)
	switch {
	case err != nil:
		return nil, errs.Unused(err)
	case empty && len(ms) == 0:
		return nil, ErrUnused
	}
	slices.SortFunc(ms, placename.Parts.Compare)
	ms, cs, err := readContenders(ctx, s, r.Line, ms)
	var standing []placename.Parts
	for i, m := range ms {
		if m.Ours() && line.IsBeyondLimit(r.Client, m.Number) { // about to go, see beyondLimit
			continue
		}
		cs[i].Held = !slices.ContainsFunc(standing, func(ahead placename.Parts) bool {
			return r.Blocks(m.Kind, ahead.Kind) && !m.SharesWith(ahead)
		})
		if cs[i].Held {
			cs[i].HeldSince = line.HeldSince(s, r.Abs()+"/"+m.Name)
		}
		standing = append(standing, m)
	}
	return cs, err
}

// contendersIn returns the members of the round, in order.
func (b *Barrier) contendersIn(ctx context.Context, s *session.Session) ([]Contender, error) {
	children, _, err := s.Children(ctx, b.rounds.Round.Abs())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, b.rounds.Line.CheckSized(ctx, s, "members")
	}
	var opened []byte
	stat := &zk.Stat{}
	if err == nil { // if this is another round's by now, the members listed above are gone
		if opened, stat, err = s.Get(ctx, b.rounds.Ready()); errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	ms := placename.ParseAll(children, barrier.MemberKinds)
	slices.SortFunc(ms, placename.Parts.Compare)
	ms, cs, err := readContenders(ctx, s, b.rounds.Round, ms)
	for i, m := range ms {
		_, _, excluded := barrier.IndexIn(opened, m.Number)
		cs[i].Held, cs[i].Token = excluded == nil, 0
		if cs[i].Held {
			cs[i].HeldSince = time.UnixMilli(stat.Mtime)
		}
	}
	return cs, err
}

// contendersIn returns the members, in the order of their znodes' creation: the names of
// other libraries' members have no number.
func (d *DoubleBarrier) contendersIn(ctx context.Context, s *session.Session) ([]Contender, error) {
	names, _, isReady, err := d.doubles.Members(ctx, s)
	if err == nil && len(names) == 0 && !isReady {
		err = checkDeserted(ctx, s, d.doubles.Line)
	}
	var since Token // of ready
	var opened time.Time
	if err == nil && isReady {
		since, opened, err = d.opening(ctx, s)
	}
	if err != nil {
		return nil, errs.Unused(err)
	}
	ms := make([]placename.Parts, len(names))
	for i, name := range names {
		ms[i] = placename.Parts{Name: name}
	}
	_, cs, err := readContenders(ctx, s, d.doubles.Line, ms)
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
func (d *DoubleBarrier) opening(ctx context.Context, s *session.Session) (since Token, at time.Time, err error) {
	ready, err := s.Exists(ctx, d.doubles.Ready())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return 0, time.Time{}, nil
	case err != nil:
		return 0, time.Time{}, err
	}
	return newToken(ready.Czxid), time.UnixMilli(ready.Ctime), nil
}

// readContenders reads places of the line, several at a time. It returns those that are
// still there.
func readContenders(ctx context.Context, s *session.Session, l *line.Line, ms []placename.Parts) (there []placename.Parts, cs []Contender, err error) {
	all := make([]Contender, len(ms))
	errs := make([]error, len(ms))
	work.AtATime(len(ms), func(i int) { all[i], errs[i] = readContender(ctx, s, l, ms[i]) })
	for i, err := range errs {
		switch {
		case errors.Is(err, zk.ErrNoNode): // left in the meantime
			continue
		case err != nil && !errors.Is(err, zk.ErrNoAuth): // without the permission READ only the name is known
			return nil, nil, err
		}
		there, cs = append(there, ms[i]), append(cs, all[i])
	}
	return there, cs, nil
}

// readContender reads a place's znode. On an error only its name is known.
func readContender(ctx context.Context, s *session.Session, l *line.Line, m placename.Parts) (Contender, error) {
	c := Contender{Place: m.Name, Path: l.Path + "/" + m.Name, Reader: m.Kind.Shared()}
	data, stat, err := s.Get(ctx, l.Abs()+"/"+m.Name)
	if err == nil {
		c.Identity, c.Session, c.Since = string(data), stat.EphemeralOwner, time.UnixMilli(stat.Ctime)
		c.Czxid, c.Token = stat.Czxid, newToken(stat.Czxid)
	}
	return c, err
}

// EvictOptions configures [Client.Evict]. nil is the same as the zero value.
type EvictOptions struct {
	Holder bool // evict also a holder of a lock or a slot, a leader, or a member of a barrier that has opened
}

// Evict deletes the znode of a contender, as Contenders has returned it, and no znode that
// came after it. It reports false if that znode had gone before.
//
// A waiter's call returns [ErrEvicted]. A holder's lease ends with [ErrLost], and the next
// waiter holds: that may be before the holder has noticed, so evict holders only where their
// writes are fenced, or if they are dead. Without opts.Holder, Evict returns [ErrHolder] for
// a holder. That is decided by the servers when they delete a place in the line of a lock: it
// is deleted only while somebody is there for whom it waits. A slot and a leader always hold.
// For a member of a barrier, its field Held decides.
//
// If a slot is evicted, the lease is lost, and its Client gives the lease's other slots back. A
// process that hangs does not, so evict each of them. A leader is deposed by deleting its
// <path>/leader, as Election.Contenders returns it. If its place in the line has gone before,
// Evict returns an error: the next candidate replaces the znode.
//
// It works for places of other libraries too, and needs the right to delete in the line. It
// blocks while there is no connection, until ctx ends. If the connection is lost meanwhile,
// true may mean that somebody else has deleted the znode, and if the session is lost, false
// that this call has.
//
// Cost: a sync, two reads, of which one lists the line, and one write; with opts.Holder a
// sync, a read and a write. For the first in the line it costs one read more, and for a leader
// two more.
func (c *Client) Evict(ctx context.Context, contender Contender, opts *EvictOptions) (evicted bool, err error) {
	err = c.core().Check(ctx, contender.Path)
	if err == nil && contender.Czxid == 0 {
		err = errors.New("the contender has no Czxid: its znode could not be read")
	}
	if err != nil {
		return false, fail("evict", contender.Path, err)
	}
	ctx, done := c.client.Bind(ctx)
	defer done()
	evicted, err = session.InSessions(ctx, c.client, func(s *session.Session) (bool, error) {
		path := c.client.Abs(contender.Path)
		if err := s.Sync(ctx, path); err != nil { // the list may be of a server that is ahead
			return false, err
		}
		return contender.evict(ctx, s, path, opts != nil && opts.Holder)
	})
	return evicted, fail("evict", contender.Path, err)
}

// evict deletes the contender's znode, which is at path; that of a holder only if holder is
// true.
func (c Contender) evict(ctx context.Context, s *session.Session, path string, holder bool) (evicted bool, err error) {
	for sent := false; ; {
		stat, err := s.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != c.Czxid:
			return sent, nil
		case err != nil:
			return false, err
		}
		checks, err := c.checks(ctx, s, path, stat, holder)
		if err != nil {
			return false, err
		}
		ops := append(checks, &zk.DeleteRequest{Path: path, Version: -1})
		switch o := s.Multi(ctx, ops...); {
		case o.Applied():
			return true, nil
		case o.Transient():
			sent = true
		case !o.Is(zk.ErrNoNode): // else it has gone, or the one for whom it waits: look again
			return false, o.Err()
		}
	}
}

// checks returns the operations that a transaction needs in order to delete the contender's
// znode, which has that Stat, and nobody else's; that of a holder only if holder is true.
func (c Contender) checks(ctx context.Context, s *session.Session, path string, stat *zk.Stat, holder bool) ([]any, error) {
	switch {
	case !strings.HasSuffix(path, election.LeaderName) && holder:
		return nil, nil
	case !strings.HasSuffix(path, election.LeaderName):
		return c.checksOfWaiter(ctx, s, path)
	case holder:
		return checksOfLeader(ctx, s, path, stat)
	}
	return nil, ErrHolder
}

// checksOfWaiter returns the operations that a transaction needs in order to fail if the place
// holds by then, or ErrHolder.
func (c Contender) checksOfWaiter(ctx context.Context, s *session.Session, path string) (checks []any, err error) {
	dir := zkconn.Parent(path)
	own, ok := placename.Parse(path[len(dir)+1:], placename.LockKinds)
	switch {
	case !ok && (c.Held || len(semaphore.SlotsAmong([]string{path[len(dir)+1:]})) > 0): // a member of a barrier, or a slot
		return nil, ErrHolder
	case !ok:
		return nil, nil
	}
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, m := range placename.ParseAll(names, placename.LockKinds) {
		if m.Compare(own) < 0 && line.WritersBlock(own.Kind, m.Kind) && !own.SharesWith(m) {
			return []any{&zk.CheckVersionRequest{Path: dir + "/" + m.Name, Version: -1}}, nil
		}
	}
	if later, err := grantsLater(ctx, s, dir); later || err != nil {
		return nil, err
	}
	return nil, ErrHolder
}
