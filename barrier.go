package zkrecipes

import (
	"context"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
)

// Barrier holds its members back until n of them are there, and then lets those n go,
// round after round on one path. A member that arrives early for the next round waits
// until the last member of the open one has left. Surplus arrivals wait for the next
// round. A member that cancels, or whose process dies, before the round is opened is
// not counted. A Barrier is only a name. Values are safe for concurrent use, and each
// call of Wait is a member of its own.
//
// The znode at the path holds n as decimal text. A member with another n gets ErrSize, and is
// not counted. The znode is a container, which the servers delete when it has been idle. (The
// Client deletes idle lines itself, but not this znode.) They do not do so if all members of a
// round died together: then the znode round remains, with what is below it. The next round uses
// or replaces it. If there is none to come, delete the path. Do not create or write anything
// below round, and delete only members' znodes there. In particular, a znode that is created by
// hand below round/ready lets members through.
type Barrier struct{ rounds *barrier.Barrier }

// NewBarrier returns the barrier of n members with that path. It sends nothing. An
// invalid path, an n below 1, and an n for which a transaction has no room are
// reported on first use.
func NewBarrier(c *Client, path string, n int) *Barrier {
	return &Barrier{barrier.New(c.core(), path, n)}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (b *Barrier) Path() string { return b.self().path() }

// Wait joins the round and returns once the round has been opened. It returns the
// member's number in the round: 0 to n-1, each once, so that one member can be made
// the leader. It blocks until n members are there, through disconnections. With an error
// it returns -1, so a caller that ignores the error is never member 0.
//
//   - ctx's error is returned if the round was not, and will not be, opened with this
//     member. While connected, Wait asks the servers whether that is so, and succeeds
//     if the round was opened after all.
//   - ErrUncertain is returned if ctx ended while disconnected, or if the reply was
//     lost. The round may have been opened with this member. The next Wait of this
//     Client begins when the outcome is known, or fails while the servers refuse to tell.
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
// A member costs two requests and one commit, and one of each to leave. It wakes once, by
// an event that says that the round is open. It reads once more then if a member has left
// before, or if its connection was lost. The last to arrive reads n and lists the members,
// with one request each, in one round trip, and opens the round with one request and one
// commit more. The first member of a round costs one commit more, or two if members of the
// round before are still leaving. A member that waits for long reads n once, and watches its
// own znode and the round's ready, with one request each. A Barrier reads n every half
// minute.
//
// A member leaves in the background, a little after Wait has returned: n times 50 µs, but at
// most 100 ms. It leaves at once when the next Wait of this Barrier begins, or the Client is
// closed. Close the Client before the process exits. Otherwise the next round may begin only
// when the session expires.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	r := b.self()
	if err := b.check(ctx); err != nil {
		return -1, fail("wait", r.path(), err)
	}
	ctx, traced := startAcquire(ctx, r.Client, RecipeBarrier, r.path(), "wait")
	index, err := b.rounds.Wait(ctx)
	err = fail("wait", r.path(), err)
	traced.end(nil, err)
	if err != nil {
		return -1, err
	}
	return index, nil
}

// Contenders returns the members of the round, in the order of their arrival. Those with
// Held no longer wait, because the round was opened with them, and are about to leave.
// Members that wait for another n are returned, too. A call of Wait that came while the
// previous round was open is not a member until its members have left. ErrUnused is returned
// if there is no barrier, and ErrPathInUse if the path is another recipe's. Contenders blocks
// until the servers answer. It costs two requests, and one for each member.
func (b *Barrier) Contenders(ctx context.Context) ([]Contender, error) {
	return b.self().listContenders(ctx, b.contendersIn)
}

func (b *Barrier) self() recipe {
	if b == nil || b.rounds == nil {
		return recipe{}
	}
	return recipe{Line: b.rounds.Line}
}

func (b *Barrier) check(ctx context.Context) error {
	if err := b.self().check(ctx); err != nil {
		return err
	}
	return b.rounds.Check()
}
