package barrier

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The signal tells the members of a round that it is open, by an event that needs no read
// after it: with many members, it is the reads of all that cost the time. It is a znode
// below ready, whose name holds the n of the member that has created the round. A round
// that is opened with the numbers 1 to n gets a child of its signal in the same
// transaction. So a member of that round whose number is n at most is in it, and knows
// its index. Otherwise the signal is deleted, and the members read ready. Ready stays the
// authority. Members that wait for another n than the signal's watch ready.

const (
	signalOf   = "signal-of" // and n
	signalOpen = "open"      // the child that raises the signal
)

// signalState is what a participant knows of the signal of a round that stands.
type signalState int

const (
	noSignal signalState = iota
	signalDown
	signalRaised
)

func (b *Barrier) signal() string { return b.Ready() + "/" + signalOf + strconv.Itoa(b.N) }

// Raise returns the operation that raises the signal, by a znode with that list.
func (b *Barrier) Raise(acl []zk.ACL) *zk.CreateRequest {
	return &zk.CreateRequest{Path: b.signal() + "/" + signalOpen, Data: []byte{}, Acl: acl}
}

// deleteSignal returns the operations that delete a signal of that state.
func (b *Barrier) deleteSignal(state signalState) (ops []any) {
	if state == signalRaised {
		ops = append(ops, &zk.DeleteRequest{Path: b.signal() + "/" + signalOpen, Version: -1})
	}
	if state != noSignal {
		ops = append(ops, &zk.DeleteRequest{Path: b.signal(), Version: -1})
	}
	return ops
}

// deleteSignals returns the operations that delete all signals there are, and the path of
// a znode below ready that is not a signal, or that has another child.
func (b *Barrier) deleteSignals(ctx context.Context, s *session.Session) (ops []any, foreign string, err error) {
	names, _, err := s.Children(ctx, b.Ready())
	for _, name := range names {
		path := b.Ready() + "/" + name
		if !strings.HasPrefix(name, signalOf) {
			foreign = path
			continue
		}
		children, _, err := s.Children(ctx, path)
		switch i := slices.IndexFunc(children, func(name string) bool { return name != signalOpen }); {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, "", err
		case i >= 0:
			foreign = path + "/" + children[i]
			continue
		case len(children) > 0:
			open := path + "/" + signalOpen
			if stat, err := s.Exists(ctx, open); err == nil && stat.NumChildren > 0 {
				foreign = open
				continue // it has told its members already, and cannot be deleted
			}
			ops = append(ops, &zk.DeleteRequest{Path: open, Version: -1})
		}
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
	}
	return ops, foreign, err
}

// allThere reports whether the members have the numbers 1 to the number of members. ms
// must be sorted.
func allThere(ms []placename.Parts) bool {
	for i, m := range ms {
		if int(m.Number) != i+1 { // number 0 is ready
			return false
		}
	}
	return true
}

// watchSignal returns the watch on the children of the signal of the member's round, or
// nil if the round has none for its n. Nor is there one for a member beyond n: if it is in
// the round, another one has left. A signal with another czxid than the round is another
// round's, or was created by somebody else.
func (a *participant) watchSignal(p *line.Place) (*zkconn.Watch, error) {
	if int(p.Number) > a.N {
		return nil, nil
	}
	w, err := p.Session.WatchChildren(p.Session.Lifetime(), a.signal())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	case w.Stat.Czxid != p.LineCzxid, len(w.Children) > 0 && !slices.Contains(w.Children, signalOpen):
		return nil, nil
	}
	return w, nil
}

// isRaised reports whether the signal is known to be raised: by the watch's answer, or by
// its event. That must be believed only on the connection on which the watch was answered.
// After a reconnect the servers compare zxids, and the signal may be another round's.
func isRaised(w *zkconn.Watch) bool {
	if len(w.Children) > 0 {
		return true
	}
	if !w.HasFired() {
		return false
	}
	conn, changed := w.ChildrenChanged()
	return changed && w.ConfirmedOn(conn)
}

// indexBySignal returns the member's index in the round whose signal was raised. The
// transaction has checked that each of the numbers 1 to n was there, so what has become of
// the member since does not matter.
func (a *participant) indexBySignal(p *line.Place) int {
	a.left = signalRaised
	return int(p.Number) - 1
}
