package zkrecipes

import (
	"context"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: members are ephemeral znodes. The one that makes them n opens the barrier, by a
// transaction on the znode ready, and all others learn it by one event (internal/barrier,
// members.go). A Barrier does so round after round (round.go and open.go). A DoubleBarrier closes
// when all have left (double.go and visit.go).

// Barrier holds its members back until n of them are there, and then lets those n go,
// round after round on one path. A member that arrives early for the next round waits
// until the last member of the open one has left. Surplus arrivals wait for the next
// round. A member that cancels, or whose session ends, before the round is opened is
// not counted. One whose process has died is, until its session has expired. A Barrier is
// only a name. Values are safe for concurrent use, and each call of Wait is a member of its own.
//
// The znode at the path holds n as decimal text. A member with another n gets ErrSize, and is
// not counted. The znode is a container, which the servers delete when it has been idle. They do
// not do so if all members of a round died together: then the znode round remains, with what is
// below it. The next round uses or replaces it. If there is none to come, delete the path. Do not
// create or write anything below round, and delete only members' znodes there. In particular, a
// znode that is created by hand below round/ready lets members through.
type Barrier struct{ rounds *barrier.Barrier }

// NewBarrier returns the barrier of n members with that path. It sends nothing. An
// invalid path, an n below 1, and an n for which a transaction has no room are
// reported on first use. Contenders works with any n, such as 0 if it is not known.
func NewBarrier(c *Client, path string, n int) *Barrier {
	return &Barrier{barrier.New(c.core(), path, n)}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (b *Barrier) Path() string { return b.self().Path }

// Wait joins the round and returns once the round has been opened. It returns the
// member's number in the round: 0 to n-1, each once, so that one member can be made
// the leader. It blocks until n members are there, through disconnections. With an error
// it returns -1, so a caller that ignores the error is never member 0.
//
//   - ctx's error is returned if the round was not, and will not be, opened with this
//     member. While connected, Wait asks the servers whether that is so, and succeeds
//     if the round was opened after all.
//   - ErrUncertain is returned if ctx ended while disconnected, if the servers did not answer
//     within a tenth of a second after that, or if the reply was lost. The round may have been
//     opened with this member. The next Wait of this Client begins when the outcome is known, or
//     fails while the servers refuse to tell.
//   - ErrSize is returned if the path holds another n. It is noticed at the first use,
//     when the member could open the round, when it has waited for a tenth of the
//     session timeout, and when a round is opened for another n.
//   - ErrLost, which also is zk.ErrSessionExpired, is returned if the session ended
//     first, and with it the membership. Wait does not join a round again behind the
//     caller's back. A call that is not a member yet goes on in the next session.
//   - ErrEvicted is returned if somebody deleted the member's znode. If that happened
//     before the znode was known to exist, Wait creates another one instead, although the
//     round may have been opened with the first.
//   - ErrClosed is returned if the Client was closed.
//
// Each of the last three comes with ErrUncertain if the Client can no longer find out
// whether the round had been opened with the member.
//
// A member costs two requests and one commit, and one of each to leave. It wakes once, by an event
// that says that the round is open. It reads once more then if a member has left before, or if its
// connection was lost. The last to arrive reads n and lists the members, with one request each, in
// one round trip, and opens the round with one request and one commit more. The first member of a
// round and the last to leave cost one of each more. One that comes before the round before has
// ended costs four requests and two commits more, and again each time that the member which came
// last there leaves and others stay. A member that waits for long reads n once, and watches its own
// znode and the round's ready, with one request each. A Barrier in use reads n again every half
// minute.
//
// A member leaves in the background when Wait returns. Close the Client before the process exits.
// Otherwise the next round may begin only when the session expires.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	r := b.self()
	if err := b.check(ctx); err != nil {
		return -1, fail("wait", r.Path, err)
	}
	ctx, traced := startAcquire(ctx, r.Client, RecipeBarrier, r.Path, "wait")
	index, err := b.rounds.Wait(ctx)
	err = fail("wait", r.Path, err)
	traced.end(nil, err)
	if err != nil {
		return -1, err
	}
	return index, nil
}

// Contenders returns the members of the round, in the order of their arrival. Those with Held no
// longer wait, because the round was opened with them, and are about to leave. Members that wait
// for another n are returned, too. A call of Wait that came while the previous round was open is
// not a member until its members have left. Contenders blocks and fails like Mutex.Contenders. It
// costs two requests, and one for each member.
func (b *Barrier) Contenders(ctx context.Context) ([]Contender, error) {
	return b.self().listContenders(ctx, func(ctx context.Context, s *session.Session) ([]look.Contender, error) {
		return look.Round(ctx, s, b.rounds)
	})
}

func (b *Barrier) self() recipe {
	if b == nil || b.rounds == nil {
		return recipe{}
	}
	return recipe{At: b.rounds.Root}
}

func (b *Barrier) check(ctx context.Context) error {
	if err := b.self().check(ctx); err != nil {
		return err
	}
	return b.rounds.Check()
}

// DoubleBarrier lets its members enter together once n of them are there, and leave
// together once all of them have come to leave. n is a threshold: more members may
// enter while n or more are there. A DoubleBarrier is only a name. Values are safe for
// concurrent use, and each call of Enter is a member of its own.
//
// Members with another n are not counted. A member that notices gets ErrSize: if others are
// there when it first uses the barrier, if it could open the barrier as it comes, or if the
// barrier is opened for another n.
//
// Members of Curator's DistributedDoubleBarrier and of kazoo's DoubleBarrier on the
// same path count like any others; their n is not known. Use the barrier
// again without a pause only if all its members are of this library. Members of the
// others enter by a ready znode that the last use has left behind, or delete one that
// the next use has created, so that a member enters alone or waits for ever. A member
// of this library enters only by a ready znode that is younger than its own znode, and
// deletes ready only if nobody has come since it saw that nobody was there. kazoo's
// members delete ready as soon as they begin to leave. A member of this library that
// has not read it by then waits until its context ends.
//
// The path is a container. A Client that has made or used it deletes it once it has not used it
// for half a minute, and the servers delete what Clients leave. Neither does if all members
// crashed inside or lost their visits: ready remains then, and the next use replaces it. If there
// is none to come, delete the path. A path that holds a user's own data is reported on first use.
type DoubleBarrier struct{ doubles *barrier.DoubleBarrier }

// NewDoubleBarrier returns the double barrier with that threshold and path. It sends
// nothing. An invalid path and an n below 1 are reported on first use. Contenders works with any n,
// such as 0 if it is not known.
func NewDoubleBarrier(c *Client, path string, n int) *DoubleBarrier {
	return &DoubleBarrier{barrier.NewDouble(c.core(), path, n)}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (d *DoubleBarrier) Path() string { return d.self().Path }

// Enter joins the barrier and returns a Visit once n members are there. It blocks until
// then, through disconnections.
//
//   - ctx's error is returned if ctx ended first.
//   - ErrSize is returned if others wait there for another number of members.
//   - ErrLost, which also is zk.ErrSessionExpired, is returned if the session ended
//     while Enter waited, and with it the membership. Only ErrLost is returned if, as
//     the member entered, the servers were silent for so long that the session may have
//     ended.
//   - ErrEvicted is returned if somebody else deleted the member's znode.
//   - ErrClosed is returned if the Client was closed.
//
// On any error the member's znode is deleted. While connected, Enter waits for that, until ctx
// ends. Otherwise it is deleted later, and this Client's next Enter begins when it is gone.
// Other members may have entered with this one all the same.
//
// Enter costs one request and one commit. A member that waits costs one request more,
// when the barrier opens, and each session that has members waiting another one. The
// last member to arrive costs two requests and one commit more. The first Enter costs
// one request more if others are there.
func (d *DoubleBarrier) Enter(ctx context.Context) (*Visit, error) {
	r := d.self()
	if err := d.check(ctx); err != nil {
		return nil, fail("enter", r.Path, err)
	}
	ctx, traced := startAcquire(ctx, r.Client, RecipeDoubleBarrier, r.Path, "enter")
	ctx, done := r.Client.BindWait(ctx)
	defer done()
	// A member whose Enter or Leave was canceled counts until its znode is deleted.
	err := r.AwaitAbandoned(ctx)
	var v *barrier.Visit
	if err == nil {
		v, err = d.doubles.Enter(ctx)
	}
	if err != nil {
		err = fail("enter", r.Path, err)
		traced.end(nil, err)
		return nil, err
	}
	traced.end(v.Handle.Grant, nil)
	return &Visit{v, newLease(v.Handle)}, nil
}

// Contenders returns the members, also those of other libraries, in the order of their arrival.
// Those with Held have entered, and the others wait. (If kazoo's members begin to leave, they
// delete the znode that tells which members have entered.) Contenders blocks and fails like
// Mutex.Contenders. It costs one request, one more if the barrier was opened or has no members, and
// one for each member.
func (d *DoubleBarrier) Contenders(ctx context.Context) ([]Contender, error) {
	return d.self().listContenders(ctx, func(ctx context.Context, s *session.Session) ([]look.Contender, error) {
		return look.Double(ctx, s, d.doubles)
	})
}

func (d *DoubleBarrier) self() recipe {
	if d == nil || d.doubles == nil {
		return recipe{}
	}
	return recipe{At: d.doubles.At}
}

func (d *DoubleBarrier) check(ctx context.Context) error {
	if err := d.self().check(ctx); err != nil {
		return err
	}
	return d.doubles.Check()
}

// Visit is a member that has entered a DoubleBarrier. It is safe for concurrent use.
type Visit struct {
	visit *barrier.Visit
	l     *Lease
}

// Path returns the path of the DoubleBarrier as the caller gave it, without
// Options.Prefix.
func (v *Visit) Path() string { return v.held().Path() }

// held returns the member's lease, nil if there is none.
func (v *Visit) held() *Lease {
	if v == nil {
		return nil
	}
	return v.l
}

// Context returns a context that ends with parent or with the visit, which Leave ends, too. See
// Lease.Context.
func (v *Visit) Context(parent context.Context) context.Context { return v.held().Context(parent) }

// Err returns nil while the visit lasts, and from then on why it has ended. See Lease.Err.
func (v *Visit) Err() error { return v.held().Err() }

// Leave ends the visit, and returns when all members for which the barrier was opened
// have left or died. It does not wait for members that came for a later opening, and for
// nobody if the servers have lost this opening before Leave has listed the members. It
// blocks until then, through disconnections and the end of the session.
//
//   - ctx's error is returned if ctx ended first. This member has left then, or leaves in the
//     background, and others have not left. A second Leave goes on waiting.
//   - ErrLost or ErrClosed is returned if the visit had ended before. Leave then waits
//     for nobody.
//
// Leave costs one request and one commit, even for the last member, which also deletes
// ready. It costs a listing and a read to begin with, and two of them at each wake. A member
// wakes about as often as the logarithm of the number of members.
func (v *Visit) Leave(ctx context.Context) error {
	if v == nil || v.visit == nil {
		return fail("leave", "", errZeroValue)
	}
	return fail("leave", v.visit.D.Path, v.visit.Leave(ctx))
}
