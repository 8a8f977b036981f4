package zkrecipes

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Contender is a place in the line of a lock, an election or a semaphore, a slot, a leader, or a
// member of a Barrier or DoubleBarrier, of a client of this library or of another one.
// [Client.Evict] deletes its znode.
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
	// Token is the fencing token once it holds. For a downgraded lease it is that of the reader's
	// znode, while Lease.Token stays the writer's. If the lock is kept, this is the token of the
	// process's first hold: the servers do not know the number of the present one. It is zero for a
	// member of a barrier.
	Token Token
}

// listContenders returns what in finds in one session.
func (r recipe) listContenders(ctx context.Context, in func(context.Context, *session.Session) ([]look.Contender, error)) (cs []Contender, err error) {
	err = r.inSessions(ctx, "list", func(ctx context.Context, s *session.Session, _ string) error {
		found, err := in(ctx, s)
		cs = newContenders(found)
		return err
	})
	return cs, err
}

// listPlaces returns the places in the line of a lock, in order.
func (r lock) listPlaces(ctx context.Context) ([]Contender, error) {
	return r.listContenders(ctx, func(ctx context.Context, s *session.Session) ([]look.Contender, error) {
		return look.Line(ctx, s, r.line)
	})
}

func newContenders(found []look.Contender) (cs []Contender) {
	for _, c := range found {
		cs = append(cs, Contender{
			Place: c.Place, Path: c.Path, Czxid: c.Czxid, Identity: c.Identity, Session: c.Session,
			Since: c.Since, HeldSince: c.HeldSince, Held: c.Held, Reader: c.Reader, Token: Token(c.Token),
		})
	}
	return cs
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
// is deleted only while somebody is there for whom it waits. So a candidate of an Election at its
// turn counts as a holder here, although it does not lead yet. A slot and a leader always hold.
// For a member of a barrier, its field Held decides.
//
// If a slot is evicted, the lease is lost, and its Client gives the lease's other slots back. A
// process that hangs does not, so evict each of them. A leader is deposed by deleting its
// <path>/leader, as Election.Contenders returns it. If its place in the line has gone before,
// Evict returns an error: the next candidate replaces the znode.
//
// It works for places of other libraries too, and needs the right to delete in the line. It
// blocks while there is no connection, until ctx ends. If a reply is lost, true may mean that
// somebody else has deleted the znode. ErrUncertain comes with an error if the znode may have been
// deleted all the same: the reply did not come before ctx ended, or it was lost and what followed
// failed.
//
// Cost: a sync, two reads, of which one lists the line, and one write; with opts.Holder a
// sync, a read and a write. For the first in the line it costs one read more, and for a leader
// three more.
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
	found := look.Contender{Path: contender.Path, Czxid: contender.Czxid, Held: contender.Held}
	evicted, err = found.Evict(ctx, c.client, opts != nil && opts.Holder)
	return evicted, fail("evict", contender.Path, err)
}
