package line

import (
	"context"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
)

// A downgrade moves a grant from the writer's place to a reader's place with the same
// uuid and number, in one transaction. So no other place can come between, and if the
// reply is lost the name tells whether the transaction was carried out. No signal is
// sent: the successor lists the line and finds the place that it has to wait for.

// Downgrade turns an exclusive grant of a place into a shared one, if h is its only handle.
func Downgrade(ctx context.Context, h *hold.Handle) error {
	p := PlaceOf(h.Grant)
	next := p.asReader()
	return h.Replace(ctx, next, func() error { return p.replace(next) })
}

// asReader returns the reader's place that replaces this one. It is no copy: this one may be deleted
// meanwhile, since the lease may be lost.
func (p *Place) asReader() *Place {
	number := strings.TrimPrefix(p.Name[strings.LastIndex(p.Name, string(p.Kind)):], string(p.Kind))
	next := &Place{PlaceName: p.PlaceName, Line: p.Line, ACL: p.ACL, granted: true}
	next.Kind = layout.KindRead
	next.Name = "_c_" + p.UUID + "-" + string(layout.KindRead) + number
	next.Session, next.Path = p.Session, p.Line.Abs()+"/"+next.Name
	return next
}

// replace creates next and deletes the place, in one transaction that is sent until
// its outcome is known. It returns zk.ErrNoNode if the place was gone, and also if the
// outcome cannot be found out.
func (p *Place) replace(next *Place) error {
	s := p.Session
	create := &zk.CreateRequest{
		Path: next.Path, Data: []byte(p.Line.Client.Identity), Acl: p.ACL.ForPlaces(s.Session), Flags: zk.FlagEphemeral,
	}
	x := s.Retry(nil, []any{create, &zk.DeleteRequest{Path: p.Path, Version: -1}})
	o := x.Wait(s.UntilAnswered())
	switch {
	case x.Repeated() && o.RefusedAt(create, zk.ErrNodeExists):
		return x.AppliedBefore().Err()
	case o.Applied(), !x.Repeated(), o.SessionOver():
		return o.Err()
	}
	// The attempt whose reply was lost may have been carried out all the same:
	// the servers check what refuses this one, an ACL for example, before they
	// check whether next exists. If the grant went on as a writer's, the
	// successor might hold at the same time.
	check := s.Retry(nil, []any{&zk.CheckVersionRequest{Path: next.Path, Version: -1}}).Wait(s.UntilAnswered())
	switch {
	case check.Applied():
		return x.AppliedBefore().Err()
	case check.Is(zk.ErrNoNode):
		return o.Err()
	case check.SessionOver():
		return check.Err()
	}
	p.Line.Client.Tasks.Start(next.Withdraw) // the outcome cannot be found out
	return zk.ErrNoNode
}
