// Package hold is what a call holds once it is its turn, whatever that is: a place in a line, a claim
// of an item, the slots of a semaphore, a place with the leader's znode. All of them are a [Thing]:
// ephemeral znodes of one session.
//
// # Grant
//
// A [Grant] begins with New, or with Successor where the lock was kept, and has a [Handle] for the holder
// and one for each call that has re-entered. It ends once: when the last handle is released, by a
// transaction of the holder's that deletes the thing together with something else (EndWith), or because
// it is lost. It is lost when the session ends, when the session's clock runs out, when somebody
// deletes a znode of the thing, and when the holder's own bound has passed (EndAfter). The watchdog of
// the session finds out about the first three, if a use of the grant, its change or its release has not
// done so before.
//
// # Leave
//
// To release is to give up what is held, to withdraw is to stop waiting, and to abandon is to leave
// a deletion to the background (session.At.Abandon), for which only a barrier's next call on the path
// waits.
//
//	         whose thing               signal                 sent                              the caller waits
//	release  a holder's                if it held until now   once, then in the background      for the first reply, if connected
//	withdraw a waiter's                none                   until it or its session is gone   no
//	abandon  what a caller has left    if it held until now   until it or its session is gone   no, but a barrier's next call on the path does
//
// # Invariants
//
// Without any of these, two hold at once, a holder does not know that it holds no longer, or a znode is
// left behind.
//
//   - H1: Nothing is granted once the session's ValidUntil has passed, by either of the process's clocks.
//     A read that is answered moves it.
//   - H2: A grant is in its session's watchdog before anything can end it unnoticed: whatever ends grants
//     changes the condition first, and looks for grants then.
//   - H3: The contexts of a holder have ended before its thing is deleted, except by the holder's own change.
//   - H4: A grant ends under the lock under which its last handle goes, so that no call enters it then.
//   - H5: What a holder commits is sent under that lock, too, and so before anything that the next holder
//     of a thing that is granted again sends.
//   - H6: At most one change of a grant is under way. Until its outcome is known, nothing else deletes
//     the thing. If the grant has ended meanwhile, the change does.
//   - H7: The deletion of a thing signals its successor only if the grant was never lost.
//   - H8: A thing whose grant has ended is deleted, until it is gone or its session has ended.
package hold
