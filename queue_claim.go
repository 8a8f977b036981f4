package zkrecipes

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// A claim is a grant whose place is the flag beside the item. Below the item
// stands a second znode, of a fixed name: creating it fails where the item is
// gone or is somebody else's, and the item's Stat counts with it how often it
// was taken. The flag has a name of its own, so that what deletes it, when sent
// again, never touches the claim of the next one.

// newClaim returns the place of a claim that is yet to be made.
func (q *Queue) newClaim(s *session, item string) *place {
	path := item + "." + newMark()
	return &place{
		member: member{name: path[strings.LastIndexByte(path, '/')+1:]},
		line:   q.claims, s: s, path: path, claims: item + claimName,
	}
}

// item returns the path of what a claim claims.
func (p *place) item() string { return strings.TrimSuffix(p.claims, claimName) }

// claimOps make a claim. Only its session may write what stands below the item,
// see sweepClaim.
func (p *place) claimOps() []any {
	c, acl := p.line.c, placeACL(p.line.c.acl, p.s.ownerID())
	return []any{
		&zk.CreateRequest{Path: p.path, Data: []byte(c.identity), Acl: acl, Flags: zk.FlagEphemeral},
		&zk.CreateRequest{Path: p.claims, Data: []byte(p.name), Acl: acl, Flags: zk.FlagEphemeral},
	}
}

// nackOps end a claim, and ackOps its item too.
func (p *place) nackOps() []any {
	return []any{&zk.DeleteRequest{Path: p.path, Version: -1}, &zk.DeleteRequest{Path: p.claims, Version: -1}}
}

func (p *place) ackOps() []any {
	return append(p.nackOps(), &zk.DeleteRequest{Path: p.item(), Version: -1})
}

// maxClaims is how many claims of a queue can be made at the same time.
const maxClaims = 1 << 30

// errTaken: the item is gone, or somebody else's.
var (
	errTaken = errors.New("item has been taken")
	errGone  = errors.New("item is gone")
)

// claim takes an item with p's turn, which is over then. errTaken and errGone
// leave p where it is; on any other error the item is given back, in the
// background if need be.
func (q *Queue) claim(ctx context.Context, p *place, item string) (*Item, error) {
	claim, signal := q.newClaim(p.s, item), true
	st := p.s.stockOf(q.abs())
	if st.claiming.Acquire(ctx, 1) != nil {
		return nil, ended(ctx)
	}
	defer st.claiming.Release(1)
	for {
		ops, leave := claim.claimOps(), p.farewell(signal)
		x := newSending(p.s, ops, leave)
		if err := x.begin(ctx); err != nil {
			return nil, err
		}
		// Behind it on the same connection: the server has seen the claim by then.
		reading, _ := p.s.sendRead(jute.OpGetData, item)
		rs, failed, err := x.wait(ctx)
		if x.times > 1 { // that was behind one that was not carried out, perhaps
			reading = nil
		}
		part, op := partOf(failed, ops, leave)
		made := err == nil
		switch {
		case made && len(leave) > 1:
			claim.token = Token(rs[len(ops)].Stat.Mzxid) // set in the transaction that created it
		case part == 0 && op == 0 && x.again && errors.Is(err, zk.ErrNodeExists):
			made, err = true, nil // a reply was lost; whose else could it be
		case part == 0 && errors.Is(err, zk.ErrNoNode):
			return nil, errGone
		case part == 0 && op == 1 && errors.Is(err, zk.ErrNodeExists) && x.again:
			err = errLostAtOnce // it may be this one's, whose flag somebody has deleted
		case part == 0 && op == 1 && errors.Is(err, zk.ErrNodeExists):
			return nil, errTaken
		case part == 1 && errors.Is(err, zk.ErrNoNode):
			err := p.gone(ctx)
			if x.again && errors.Is(err, ErrEvicted) { // or it was made, and somebody has deleted all of it
				err = errLostAtOnce
			}
			return nil, err
		case part == 1 && len(leave) > 1:
			signal = false // it is refused; the place can go without
			continue
		}
		var it *Item
		if made {
			it, err = q.claimed(ctx, claim, reading)
		}
		if err != nil && (made || x.open()) {
			p.line.c.tasks.start(func() { claim.leave(false) })
		}
		return it, err
	}
}

// claimed makes the Item of a claim that was made. reading, which may be nil, is
// a read of the item that was sent along.
func (q *Queue) claimed(ctx context.Context, claim *place, reading *wire.Call) (*Item, error) {
	var data []byte
	var stat *zk.Stat
	err := errNotSent
	if reading != nil {
		select {
		case <-reading.Done():
			data, stat, err = dataIn(reading.Result())
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
	if unsettled(err) {
		data, stat, err = claim.s.get(ctx, claim.item())
	}
	if errors.Is(err, zk.ErrNoNode) { // an operator was quick
		return nil, errLostAtOnce
	}
	if err != nil {
		return nil, err
	}
	g, err := claim.grant(ctx)
	var l *Lease
	if err == nil {
		l, err = g.enter(kindLock)
	}
	if errors.Is(err, ErrEvicted) || errors.Is(err, ErrLost) {
		return nil, errLostAtOnce
	}
	if err != nil {
		return nil, err
	}
	return &Item{
		ID: ItemID(claim.name[:idLength]), Data: data, Attempt: int(created(stat)),
		q: q, lease: l,
	}, nil
}

// errLostAtOnce: a claim was lost before anybody had it.
var errLostAtOnce = errors.New("claim lost at once")

// giveBack is remove for a claim: it deletes the flag and what stands below the
// item, once.
func (p *place) giveBack(begin func(...any) (*transaction, error)) error {
	t, err := begin(p.nackOps()...)
	if err != nil {
		return err
	}
	_, failed, err := t.wait(context.Background())
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if failed == 1 { // somebody has deleted what excludes others: the flag has to go alone
		if t, err = begin(p.nackOps()[0]); err == nil {
			_, _, err = t.wait(context.Background())
		}
		return err
	}
	// Given back before, or somebody has deleted the flag.
	p.line.c.tasks.start(func() { p.sweepClaim() })
	return err
}

// sweepClaim deletes what stands below the item where it is still this claim's,
// whose flag is gone, and reports whether it was: else nobody could take the item
// until the session ends.
//
// It must not be another's, who has claimed the item since it was looked at because
// somebody has deleted this too. Of another session's the write is refused, unless
// the servers know no digests or enforce no ACLs; the own session claims nothing
// meanwhile.
func (p *place) sweepClaim() bool {
	ctx := context.Background() // ends with the session
	st := p.s.stockOf(p.line.abs())
	if err := st.claiming.Acquire(ctx, maxClaims); err != nil {
		return false
	}
	defer st.claiming.Release(maxClaims)
	data, stat, err := p.s.get(ctx, p.claims)
	if err != nil || string(data) != p.name {
		return false
	}
	ops := []any{&zk.DeleteRequest{Path: p.claims, Version: stat.Version}}
	if p.s.ownerID() != "" {
		ops = []any{
			&zk.SetDataRequest{Path: p.claims, Data: data, Version: stat.Version},
			&zk.DeleteRequest{Path: p.claims, Version: stat.Version + 1},
		}
	}
	for {
		if _, _, err := p.s.multi(ctx, ops...); !unsettled(err) {
			return true
		}
	}
}
