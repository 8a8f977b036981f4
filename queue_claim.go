package zkrecipes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/semaphore"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// queueState is what a session knows of one queue. All values of Queue with the same
// path share it.
type queueState struct {
	*queuelog.Log
	claiming *semaphore.Weighted // each claim being made holds 1; a sweep holds all
	// blocked has the items below which somebody has created a znode with the name of
	// the exclusion, each with a *zkconn.Watch that fires when that znode is deleted.
	blocked sync.Map
}

// unblock forgets the items whose watches have fired, which may be gone.
func (q *queueState) unblock() {
	q.blocked.Range(func(item, w any) bool {
		if w.(*zkconn.Watch).HasFired() {
			q.blocked.CompareAndDelete(item, w)
		}
		return true
	})
}

// maxClaims is how many claims of a queue can be made at the same time.
const maxClaims = 1 << 30

func newQueueState(s *session, path string) *queueState {
	return &queueState{Log: s.newQueueLog(path), claiming: semaphore.NewWeighted(maxClaims)}
}

// claim is a place that is a flag beside an item. Below the item stands a second znode,
// of a fixed name, the exclusion: creating it fails where the item is gone or somebody
// else's. Each delivery creates one, so the item's Stat tells their number. The flag
// has a name of its own, so that a deletion that is sent again never hits the next
// consumer's claim.
type claim struct {
	*place // the flag
	item   string
}

// newClaim returns a claim that is yet to be made.
func (q *Queue) newClaim(s *session, item string) *claim {
	path := item + "." + queuelog.NewMark()
	c := &claim{
		place: &place{
			placeName: placeName{name: path[strings.LastIndexByte(path, '/')+1:], kind: kindLock},
			line:      q.claims, s: s, path: path,
		},
		item: item,
	}
	c.release = c.giveBack
	return c
}

// queue returns what the session knows of the queue now: it may have forgotten what it
// knew when the claim was made.
func (c *claim) queue() *queueState { return c.s.queue(c.line.abs()) }

// exclusion returns the path of the znode below the item.
func (c *claim) exclusion() string { return c.item + queuelog.ClaimName }

// createOps make the claim. Only its session may write the exclusion, see
// sweepExclusion.
func (c *claim) createOps() (flag, exclusion *zk.CreateRequest) {
	acl := c.s.OwnedACL(c.line.c.acl)
	flag = &zk.CreateRequest{Path: c.path, Data: []byte(c.line.c.identity), Acl: acl, Flags: zk.FlagEphemeral}
	exclusion = &zk.CreateRequest{Path: c.exclusion(), Data: []byte(c.name), Acl: acl, Flags: zk.FlagEphemeral}
	return flag, exclusion
}

// ackOps delete the claim and its item. flag and exclusion alone give the item back.
type ackOps struct {
	flag, exclusion *zk.DeleteRequest
	item            []any // they delete it, or mark it as done
}

// ackOps returns the operations. The mark of an item that is done shows in listings. The
// exclusion is made again, for good: a consumer whose listing is a moment old must not
// claim the item.
func (c *claim) ackOps(marks bool) ackOps {
	del := func(path string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: path, Version: -1} }
	o := ackOps{flag: del(c.path), exclusion: del(c.exclusion())}
	if !marks {
		o.item = []any{del(c.item)}
		return o
	}
	acl := c.line.c.acl
	o.item = []any{
		&zk.CreateRequest{Path: c.exclusion(), Data: []byte("done"), Acl: acl},
		&zk.CreateRequest{Path: c.item + queuelog.DoneName, Acl: acl},
	}
	return o
}

func (o ackOps) all() []any { return append([]any{o.flag, o.exclusion}, o.item...) }

var (
	errTaken = errors.New("item has been taken")
	errGone  = errors.New("item is gone")

	// errLostAtOnce: a claim was lost before the caller had it.
	errLostAtOnce = errors.New("claim lost at once")
)

// claim takes an item at p's turn, which ends with it: one transaction creates the
// claim and deletes the place. errTaken and errGone leave p where it is. On any other
// error the item is given back, in the background if need be.
func (q *Queue) claim(ctx context.Context, p *place, item string) (*Item, error) {
	c, signal := q.newClaim(p.s, item), true
	queue := c.queue()
	if queue.claiming.Acquire(ctx, 1) != nil {
		return nil, zkconn.ContextErr(ctx)
	}
	defer queue.claiming.Release(1)
	for {
		flag, exclusion := c.createOps()
		leave := p.exitOps(signal)
		x := p.s.Retry(nil, []any{flag, exclusion}, leave.ops)
		rs, reading, failed, err := c.send(ctx, x)
		onFlag, onExclusion := failed == any(flag), failed == any(exclusion)
		made, onExit := err == nil, failed != nil && slices.Contains(leave.ops, failed)
		switch {
		case made && leave.signal != nil:
			c.czxid = rs.Stat(leave.signal).Mzxid // of the transaction that created the flag
		case onFlag && x.Repeated() && errors.Is(err, zk.ErrNodeExists):
			made, err = true, nil // an earlier attempt's; nobody else has this name
		case (onFlag || onExclusion) && errors.Is(err, zk.ErrNoNode):
			return nil, errGone
		case onExclusion && errors.Is(err, zk.ErrNodeExists) && x.Repeated():
			err = errLostAtOnce // it may be this claim's, whose flag somebody has deleted
		case onExclusion && errors.Is(err, zk.ErrNodeExists):
			return nil, errTaken
		case onExit && errors.Is(err, zk.ErrNoNode):
			if err = p.whyGone(ctx); x.Repeated() && errors.Is(err, ErrEvicted) { // or it was made, and somebody has deleted all of it
				err = errLostAtOnce
			}
			return nil, err
		case onExit && leave.signal != nil:
			leave.refused(p.s, failed, err)
			signal = false
			continue
		}
		var it *Item
		if made {
			it, err = q.claimed(ctx, c, reading)
		}
		if err != nil && (made || x.Unknown()) {
			c.line.c.tasks.Start(func() { c.leave(false) })
		}
		return it, err
	}
}

// send sends the claim, and a read of the item behind it on the same connection: the
// server has applied the claim when it reads. reading is nil if the claim was sent again.
func (c *claim) send(ctx context.Context, x *zkconn.Retry) (rs zkconn.Results, reading *zkconn.Reading, failed any, err error) {
	if err := x.Begin(ctx); err != nil {
		return rs, nil, nil, err
	}
	reading, _ = c.s.StartGet(c.item)
	rs, failed, err = x.Wait(ctx)
	if x.Attempts() > 1 { // the first one may not have been carried out
		reading = nil
	}
	return rs, reading, failed, err
}

// claimed makes the Item of a claim that was made. reading is a read of the item that
// was sent along, or nil.
func (q *Queue) claimed(ctx context.Context, c *claim, reading *zkconn.Reading) (*Item, error) {
	var data []byte
	var stat *zk.Stat
	err := zkconn.ErrNotSent
	if reading != nil {
		select {
		case <-reading.Done():
			data, stat, err = reading.Data()
		case <-ctx.Done():
			return nil, zkconn.ContextErr(ctx)
		}
	}
	if zkconn.Transient(err) {
		data, stat, err = c.s.Get(ctx, c.item)
	}
	if errors.Is(err, zk.ErrNoNode) { // an operator was quick
		return nil, errLostAtOnce
	}
	if err != nil {
		return nil, err
	}
	g, err := c.grant(ctx)
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
		ID: ItemID(c.name[:queuelog.IDLength]), Data: data, Attempt: queuelog.Claims(stat, true),
		q: q, claim: c, lease: l,
	}, nil
}

// giveBack deletes the flag and the exclusion, once.
func (c *claim) giveBack(_ bool, begin beginFunc) error {
	ops := c.ackOps(false)
	t, err := begin(ops.flag, ops.exclusion)
	if err != nil {
		return err
	}
	_, failed, err := t.Wait(c.s.Lifetime())
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if failed == any(ops.exclusion) { // somebody has deleted it: the flag has to go alone
		if t, err = begin(ops.flag); err == nil {
			_, _, err = t.Wait(c.s.Lifetime())
		}
		return err
	}
	// Given back before, or somebody has deleted the flag.
	c.line.c.tasks.Start(func() { c.sweepExclusion() })
	return err
}

// sweepExclusion deletes the exclusion where it is still this claim's, whose flag is
// gone, and reports whether it was: else nobody could take the item until the session
// ends.
//
// It must not delete another claim's, made since the znode was read because somebody has
// deleted this one too. A claim of another session refuses the write, unless the servers
// know no digests or enforce no ACLs. This session makes no claim meanwhile.
func (c *claim) sweepExclusion() bool {
	ctx := c.s.Lifetime()
	queue := c.queue()
	if err := queue.claiming.Acquire(ctx, maxClaims); err != nil {
		return false
	}
	defer queue.claiming.Release(maxClaims)
	data, stat, err := c.s.Get(ctx, c.exclusion())
	if err != nil || string(data) != c.name {
		return false
	}
	ops := []any{&zk.DeleteRequest{Path: c.exclusion(), Version: stat.Version}}
	if c.s.OwnerID() != "" {
		ops = []any{
			&zk.SetDataRequest{Path: c.exclusion(), Data: data, Version: stat.Version},
			&zk.DeleteRequest{Path: c.exclusion(), Version: stat.Version + 1},
		}
	}
	for {
		if _, _, err := c.s.Multi(ctx, ops...); !zkconn.Transient(err) {
			return true
		}
	}
}
