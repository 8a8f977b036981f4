package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// queueState is what a session knows of one queue. All values of Queue with the same
// path share it.
type queueState struct {
	*queuelog.Log
	// passed is the number of the last place in the consumers' line that left an item unused,
	// -1 without one.
	passed atomic.Int32
	// spread is how many of the first items a claim without a place may leave to others, and
	// lateAt when another one was quicker last.
	spread atomic.Int32
	lateAt atomic.Int64
	// blocked has the items whose claims were refused, because of a claim that the listing did not show or
	// a znode of somebody else's, each with a watch that fires when what stands in the way goes.
	blocked map[string]*zkconn.Watch
	mu      sync.Mutex // guards blocked
}

// Where others take, too, a claim without a place chooses among the first items, so that they do
// not collide: among more after each collision, and fewer after each claim. A consumer that has
// met nobody for crowdLasts claims in order.
const (
	maxSpread  = queuelog.SegmentSize
	crowdLasts = 2 * time.Second
)

// choice returns how many of the first items a claim may leave to others.
func (q *queueState) choice() int {
	if time.Now().UnixNano()-q.lateAt.Load() > int64(crowdLasts) {
		q.spread.Store(0)
	}
	return int(q.spread.Load())
}

// noteLate notes that a claim was refused. If the item was taken, another consumer is there. If it was
// gone, an operator may have removed it, and a consumer that is alone must go on in order. So it
// takes two of these to make a crowd.
func (q *queueState) noteLate(taken bool) {
	now := time.Now().UnixNano()
	if last := q.lateAt.Swap(now); taken || now-last <= int64(crowdLasts) {
		q.spread.Store(min(2*q.spread.Load()+4, maxSpread))
	}
}

func (q *queueState) noteClaim() { q.spread.Store(q.spread.Load() * 15 / 16) }

// blockedBy returns what fires when a blocked item can be claimed, or nil. The item has just been listed.
// The servers send a watch's event before a listing that shows the change, so nothing that could be
// claimed by then is passed over.
func (q *queueState) blockedBy(item string) *zkconn.Watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.blocked[item]; w != nil && !w.HasFired() {
		return w
	}
	return nil
}

// block notes a blocked item, and forgets those whose watches have fired.
func (q *queueState) block(item string, w *zkconn.Watch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.blocked, func(_ string, w *zkconn.Watch) bool { return w.HasFired() })
	q.blocked[item] = w
}

// maxBatch is how many items one transaction claims at most.
const maxBatch = 100

// claim is a flag beside an item (Q2), and below the item a second znode of a fixed name, the
// exclusion (Q1). Each delivery creates one, so the item's Stat tells their number.
type claim struct {
	hold.Znode // the flag
	at         session.At
	q          *Queue
	name       string // of the flag
	Item       string
	fate       atomic.Int32
	// sweeping: one sweep at a time.
	sweeping sync.Mutex
	// Attempt is how often the item was taken, this time included, once the claim was made.
	// Item.Attempt is the user's to change, and so is Item.ID: see id.
	Attempt int
}

// The fates of a claim.
const (
	open int32 = iota
	seen
	unseen
)

// see decides that a consumer gets the item, unless the claim has ended before (Q9).
func (c *claim) see() bool { return c.fate.CompareAndSwap(open, seen) || c.fate.Load() == seen }

// NewClaim returns a claim that is yet to be made.
func (q *Queue) NewClaim(s *session.Session, item string) *claim {
	path := item + "." + queuelog.NewMark() // Q2
	return &claim{
		Znode: hold.Znode{Session: s, Path: path},
		at:    q.At,
		q:     q,
		name:  path[strings.LastIndexByte(path, '/')+1:],
		Item:  item,
	}
}

// Queue returns what the session knows of the queue now: it may have forgotten what it
// knew when the claim was made.
func (c *claim) Queue() *queueState { return QueueIn(c.Session, c.at.Abs()) }

// Exclusion returns the path of the znode below the item.
func (c *claim) Exclusion() string { return c.Item + queuelog.ClaimName }

// ID returns the item's ID.
func (c *claim) ID() string { return c.name[:queuelog.IDLength] }

// logged returns the item's ID as it is logged.
func (c *claim) logged() any { return c.q.hooks.Logged(c.ID()) }

// createOps make the claim (Q1).
func (c *claim) createOps() (flag, exclusion *zk.CreateRequest) {
	acl := c.Session.ACL()
	flag = &zk.CreateRequest{Path: c.Path, Data: []byte(c.at.Client.Identity), Acl: acl, Flags: zk.FlagEphemeral}
	exclusion = &zk.CreateRequest{Path: c.Exclusion(), Data: []byte(c.name), Acl: acl, Flags: zk.FlagEphemeral}
	return flag, exclusion
}

// ackOps delete the claim and its item. flag and exclusion alone give the item back.
type ackOps struct {
	flag, exclusion *zk.DeleteRequest
	item            []any
}

// AckOps returns the operations. marks: the item is marked as done, which listings show (Q8).
func (c *claim) AckOps(marks bool) ackOps {
	del := func(path string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: path, Version: -1} }
	o := ackOps{flag: del(c.Path), exclusion: del(c.Exclusion())}
	if !marks {
		o.item = []any{del(c.Item)}
		return o
	}
	acl := c.Session.ACL()
	o.item = []any{
		&zk.CreateRequest{Path: c.Exclusion(), Data: []byte("done"), Acl: acl},
		&zk.CreateRequest{Path: c.Item + queuelog.DoneName, Acl: acl},
	}
	return o
}

func (o ackOps) All() []any { return append([]any{o.flag, o.exclusion}, o.item...) }

// unclaimable is the error of a claim of an item that is not free.
type unclaimable struct {
	item  string
	taken bool
}

func (u *unclaimable) Error() string { return fmt.Sprintf("item %s is not free", u.item) }

// ErrLostAtOnce is returned if a claim was lost before the caller had it.
var ErrLostAtOnce = errors.New("claim lost at once")

// claimTransaction claims items of one queue, all or none. A consumer that stands in line
// leaves it by the same transaction.
type claimTransaction struct {
	s      *session.Session
	claims []*claim
	// p is the place that it deletes, nil without one.
	p *line.Place

	// items and errs are as many as claims: an item, or why there is none. errs has nil for
	// those that were lost at once.
	items []*Item
	errs  []error
}

// claimParts are the operations of an attempt, in their order.
type claimParts struct {
	creates []any
	stamp   []any // a write of the first flag, where leave has no signal
	leave   line.Deletion
	tells   *zk.SetDataRequest // its Stat tells the czxid of the flags
}

// run carries the transaction out, or learns that it was not. done: it was. If it is not
// known, what was claimed is given back (Q6). A place is left where it is, unless done is true.
func (a *claimTransaction) run(ctx context.Context) (done bool, err error) {
	for signal := true; ; signal = false {
		parts := a.parts(signal)
		x := a.s.Retry(nil, parts.creates, parts.stamp, parts.leave.Ops)
		o, readings := a.send(ctx, x)
		if o.RefusedAt(parts.leave.Signal) && !o.Is(zk.ErrNoNode) {
			continue
		}
		if o.Applied() {
			for _, c := range a.claims {
				c.Czxid = o.Stat(parts.tells).Mzxid
			}
		} else if err := a.whyRefused(ctx, parts, x, o); err != nil {
			if x.Unknown() {
				a.withdraw(a.claims...)
			}
			return false, err
		} else {
			x.AppliedBefore()
		}
		a.read(ctx, readings)
		return true, nil
	}
}

// parts makes the operations. signal: they notify the successor that it is next.
func (a *claimTransaction) parts(signal bool) (parts claimParts) {
	for _, c := range a.claims {
		flag, exclusion := c.createOps()
		parts.creates = append(parts.creates, flag, exclusion)
	}
	if a.p != nil {
		parts.leave = a.p.Deletion(signal)
	}
	if parts.tells = parts.leave.Signal; parts.tells == nil {
		first := a.claims[0]
		parts.tells = &zk.SetDataRequest{Path: first.Path, Data: []byte(first.at.Client.Identity), Version: -1}
		parts.stamp = []any{parts.tells}
	}
	return parts
}

// whyRefused returns nil if an earlier attempt of the transaction was carried out.
func (a *claimTransaction) whyRefused(ctx context.Context, parts claimParts, x *zkconn.Retry, o zkconn.Outcome) error {
	switch {
	case o.RefusedIn(parts.creates):
		return a.whyNotCreated(o, o.IndexIn(parts.creates), x.Repeated())
	case o.RefusedIn(parts.leave.Ops, zk.ErrNoNode):
		err := a.p.WhyGone(ctx)
		if x.Repeated() && errors.Is(err, errs.ErrEvicted) { // or it was made, and somebody has deleted all of it
			err = ErrLostAtOnce
		}
		return err
	}
	return o.Err()
}

// whyNotCreated is whyRefused for the ith of the creates, which are the flag and the
// exclusion of each claim. repeated: an earlier attempt may have been carried out.
func (a *claimTransaction) whyNotCreated(o zkconn.Outcome, i int, repeated bool) error {
	c, onFlag := a.claims[i/2], i%2 == 0
	switch {
	case i == 0 && repeated && o.Is(zk.ErrNodeExists):
		return nil // an earlier attempt's; nobody else has this name
	case repeated && o.Is(zk.ErrNoNode):
		return ErrLostAtOnce // the item may have been buried together with its claim
	case o.Is(zk.ErrNoNode):
		return &unclaimable{item: c.Item}
	case repeated && o.Is(zk.ErrNodeExists):
		return ErrLostAtOnce // it may be one of these claims, of which somebody has deleted a part
	case !onFlag && o.Is(zk.ErrNodeExists):
		return &unclaimable{item: c.Item, taken: true}
	}
	return o.Err()
}

// send sends the transaction, and reads of the items behind it on the same connection:
// the server has applied it when it reads. There are no readings if it was sent again.
func (a *claimTransaction) send(ctx context.Context, x *zkconn.Retry) (o zkconn.Outcome, readings []*zkconn.Reading) {
	if err := x.Begin(ctx); err != nil {
		return zkconn.Failure(err), nil
	}
	readings = make([]*zkconn.Reading, len(a.claims))
	for i, c := range a.claims {
		readings[i], _ = a.s.StartGet(c.Item)
	}
	o = x.Wait(ctx)
	if x.Attempts() > 1 { // the first one may not have been carried out
		clear(readings)
	}
	return o, readings
}

// read makes the items of claims that were made.
func (a *claimTransaction) read(ctx context.Context, readings []*zkconn.Reading) {
	a.items, a.errs = make([]*Item, len(a.claims)), make([]error, len(a.claims))
	for i, c := range a.claims { // so that they are under way together
		if c.Czxid == 0 {
			a.s.StartWatch(c.Path)
		}
		if readings[i] == nil {
			readings[i], _ = a.s.StartGet(c.Item)
		}
	}
	for i, c := range a.claims {
		it, err := c.q.claimed(ctx, c, i, readings[i])
		switch {
		case err == nil:
			a.items[i] = it
			continue
		case !errors.Is(err, ErrLostAtOnce) && !errors.Is(err, zkconn.ErrSessionOver):
			a.errs[i] = err
		}
		a.withdraw(c)
	}
}

// withdraw deletes claims in the background.
func (a *claimTransaction) withdraw(claims ...*claim) {
	for _, c := range claims {
		c.at.Client.Tasks.Start(func() { hold.Withdraw(c) })
	}
}

// claimed makes the item of a claim that was made, the nth of its transaction. reading is a read of
// the item that was sent along, or nil.
func (q *Queue) claimed(ctx context.Context, c *claim, nth int, reading *zkconn.Reading) (*Item, error) {
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
		data, stat, err = c.Session.Get(ctx, c.Item)
	}
	if errors.Is(err, zk.ErrNoNode) { // an operator was quick
		return nil, ErrLostAtOnce
	}
	if err != nil {
		return nil, err
	}
	g, err := hold.New(ctx, c.at, c, nth)
	var h *hold.Handle
	if err == nil {
		h, err = g.AddHandle(true)
	}
	if errors.Is(err, errs.ErrEvicted) || errors.Is(err, errs.ErrLost) {
		return nil, ErrLostAtOnce
	}
	if err != nil {
		return nil, err
	}
	c.Attempt = queuelog.Claims(stat, true)
	it := &Item{Queue: q, Claim: c, Handle: h}
	it.data, it.failure = CutNote(c.name, data)
	return it, nil
}

// Delete deletes the flag and the exclusion, once. zk.ErrNoNode: one of them was gone.
func (c *claim) Delete(_ bool, begin hold.BeginFunc) error {
	var uncount []any
	if c.fate.CompareAndSwap(open, unseen) || c.fate.Load() == unseen {
		uncount = c.uncountOps()
	}
	return c.releaseWith(begin, uncount)
}

func (c *claim) releaseWith(begin hold.BeginFunc, uncount []any) error {
	ops := c.AckOps(false)
	t, err := begin(append([]any{ops.flag, ops.exclusion}, uncount...)...)
	o := zkconn.Failure(err)
	if err == nil {
		o = t.Wait(c.Session.UntilAnswered())
	}
	if o.RefusedIn(uncount) || o.Is(zkconn.ErrTooLarge) && len(uncount) > 0 {
		return c.releaseWith(begin, nil) // it counts: somebody has changed the item, or the servers refuse it
	}
	if !o.Is(zk.ErrNoNode) {
		return o.Err()
	}
	if o.RefusedAt(ops.exclusion) { // somebody has deleted it: the flag has to go alone
		if t, err = begin(ops.flag); err == nil {
			err = t.Wait(c.Session.UntilAnswered()).Err()
		}
		return cmp.Or(err, zk.ErrNoNode) // the claim was lost
	}
	// Given back before, or somebody has deleted the flag.
	c.at.Client.Tasks.Start(func() { c.sweepExclusion() })
	return fmt.Errorf("%w: %w", c.whyDeleted(c.Session.UntilAnswered()), o.Err())
}

// whyDeleted returns how a claim ended that was deleted.
func (c *claim) whyDeleted(ctx context.Context) error {
	if c.isItemGone(ctx) {
		return errs.ErrItemDeleted
	}
	return errs.ErrDeleted
}

// isItemGone reports whether the item of a claim that was deleted is gone or done, too, as far as
// a server can be asked now and answers before ctx ends.
func (c *claim) isItemGone(ctx context.Context) bool {
	item, err := c.Session.StartGet(c.Item)
	if err != nil {
		return false
	}
	mark, err := c.Session.StartGet(c.Item + queuelog.DoneName)
	if err != nil {
		return false
	}
	for _, r := range []*zkconn.Reading{item, mark} { // they end in any order if the connection is lost
		select {
		case <-r.Done():
		case <-ctx.Done():
			return false
		}
	}
	_, _, gone := item.Data()
	_, _, notDone := mark.Data()
	return errors.Is(gone, zk.ErrNoNode) || notDone == nil
}

// uncountOps take back the attempt that the claim counts as: they write the item's data as they
// are, see queuelog.Claims. They cost a read.
func (c *claim) uncountOps() []any {
	data, stat, err := c.Session.Get(c.Session.UntilAnswered(), c.Item)
	if err != nil {
		return nil
	}
	return []any{&zk.SetDataRequest{Path: c.Item, Data: data, Version: stat.Version}}
}

// sweepExclusion deletes the exclusion where it is still this claim's, whose flag is
// gone, and reports whether it was: else nobody could take the item until the session
// ends. It writes the znode first, as it is, and looks which one the reply says it is (Q7).
func (c *claim) sweepExclusion() (swept bool) {
	c.sweeping.Lock() // another sweep's write would count as this one's
	defer c.sweeping.Unlock()
	ctx := c.Session.UntilAnswered()
	for czxid := int64(0); ; {
		data, stat, err := c.Session.GetOwn(ctx, c.Exclusion())
		switch {
		case err != nil, !swept && !c.owns(stat, data), swept && stat.Czxid != czxid:
			return swept
		}
		swept, czxid = true, stat.Czxid
		write := &zk.SetDataRequest{Path: c.Exclusion(), Data: data, Version: stat.Version}
		wrote := c.Session.Multi(ctx, write)
		switch {
		case wrote.Applied():
			stat = wrote.Stat(write)
		case wrote.Transient(), wrote.Is(zk.ErrBadVersion):
			continue
		case wrote.Is(zk.ErrNoNode): // what is there from now on is another one
			return swept
		} // else the servers refuse it, by an ACL or a quota
		if stat.Czxid != czxid {
			return swept
		}
		o := c.Session.Multi(ctx, &zk.DeleteRequest{Path: c.Exclusion(), Version: stat.Version})
		if !o.Transient() && !o.Is(zk.ErrBadVersion) {
			return swept
		}
	}
}

// owns reports whether the exclusion with that Stat and those data is this claim's, or that of
// an earlier one of the session, which is back because the servers have lost its deletion.
func (c *claim) owns(stat *zk.Stat, data []byte) bool {
	if stat.EphemeralOwner != c.Session.ID() {
		return false
	}
	return stat.Czxid <= c.Czxid || c.Czxid == 0 && string(data) == c.name
}
