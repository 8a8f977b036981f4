// Package line is the ordering core: how a call joins a line, waits for its turn, and leaves. A
// recipe says by a [Line] which places block which, and is called when it is a place's turn. What it
// does then, such as to hold the place, is package hold's.
//
// The protocol was model-checked (docs/models/line.pml).
//
// A line is a container znode. A place is an ephemeral sequential znode in it. Its turn is when no
// place that blocks it is ahead.
//
// # Join
//
// One transaction creates the place and writes the line's data, which then name the place. The
// Stat in the reply tells whether the place is alone in the line, and its creation zxid. If it is
// alone, it is its turn. If not, the client lists the line. In a long line it does not: it has read
// who joined before, guesses from that the name of its predecessor, and watches the znode of that
// name.
//
// # Wait
//
// A place watches itself and its predecessor, the nearest place ahead that blocks it. An exclusive
// holder releases by one transaction that writes its place and deletes it. The signal is what its
// successor gets of that: two events that bear the zxid of the transaction. Then it is its turn, and it
// sends nothing. Any other event makes it list the line again. Servers before 3.9 tell no zxids, so
// there it lists. If the only place ahead has gone before it is watched, it is the place's turn, too,
// but not in an RWLock's line (I8).
//
// # Invariants
//
// Without any of these, it is the turn of two places at once, one waits for ever, or one is left
// behind. Package hold has those of what is held.
//
//   - I1: Each attempt to join has a uuid of its own, and if the reply is lost, the outcome is found by
//     that uuid and the owner's session, behind a sync. A grant is never made of a place in doubt.
//   - I2: A place takes an event of its predecessor for a release only after the watch on the place
//     itself was answered, and looks at that watch first. Otherwise, when an operator deletes the place,
//     the place behind it waits for the same predecessor from then on, and one release would give
//     both the turn.
//   - I3: Two events of the predecessor are a release only if they bear one zxid above 0, and came on
//     the connection on which the watches were answered.
//   - I4: Only what passes the turn on writes the data of a place: an exclusive holder's release and,
//     in a queue's lines, a claim, a put or a producer that overtakes.
//   - I5: A place whose number is negative or near the end of the numbers is never granted (rollover.go).
//   - I6: A place that was not granted is deleted, until it is gone or its session has ended.
//   - I7: A client that has not used the line within IdleLine reads its data first. It joins if they are
//     this library's, or if they are empty and nobody writes them meanwhile. A client that has used the
//     line does not read them. It overwrites what somebody else has written, or leaves it and reads the
//     next time.
//   - I8: What a listing shows is all that will ever be ahead of a place. There are two exceptions: a
//     downgrade replaces a writer's place by a reader's with the same number, and servers that have lost
//     transactions may show a place again that was deleted (see docs/operations.md).
package line
