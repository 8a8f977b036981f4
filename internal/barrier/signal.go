package barrier

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
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

func (b *Barrier) signal() string { return b.Ready() + "/" + signalOf + strconv.Itoa(b.n) }

// Raise returns the operation that raises the signal, by a znode with that list.
func (b *Barrier) Raise(acl []zk.ACL) *zk.CreateRequest {
	return &zk.CreateRequest{Path: b.signal() + "/" + signalOpen, Data: []byte{}, Acl: acl}
}

// deleteSignals returns the operations that delete all signals there are.
func (b *Barrier) deleteSignals(ctx context.Context, s *session.Session) (ops []any, err error) {
	names, _, err := s.Children(ctx, b.Ready())
	if errors.Is(err, zk.ErrNoNode) { // and the transaction will fail
		return nil, nil
	}
	for _, name := range names {
		if !strings.HasPrefix(name, signalOf) {
			continue
		}
		path := b.Ready() + "/" + name
		children, _, err := s.Children(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, err
		case slices.Contains(children, signalOpen):
			ops = append(ops, &zk.DeleteRequest{Path: path + "/" + signalOpen, Version: -1})
		}
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
	}
	return ops, err
}

// watchSignal returns the watch on the children of the signal of the member's round, or
// nil if the round has none for its n. Nor is there one for a member beyond n: if it is in
// the round, another one has left. A signal with another czxid than the round is another
// round's, or was created by somebody else.
func (a *participant) watchSignal(p *line.Place) (*zkconn.Watch, error) {
	if int(p.Number) > a.n {
		return nil, nil
	}
	w, err := p.Session.WatchChildren(p.Session.UntilAnswered(), a.signal())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err == nil && (w.Stat.Czxid != p.LineCzxid || len(w.Children) > 0 && !slices.Contains(w.Children, signalOpen)):
		return nil, nil
	}
	return w, err
}

// isRaised reports whether the signal is known to be raised: by the watch's answer, or by
// its event. That must be believed only on the connection on which the watch was answered.
// After a reconnect the servers compare zxids, and the signal may be another round's.
func isRaised(w *zkconn.Watch) bool {
	switch {
	case w == nil:
		return false
	case len(w.Children) > 0:
		return true
	case !w.HasFired():
		return false
	}
	conn, changed := w.ChildrenChanged()
	return changed && w.ConfirmedOn(conn)
}
