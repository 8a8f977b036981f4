// Package queue is the engine of a Queue: puts, turns and claims, acks, moves, dead letters and Serve.
// The package above checks what users give, traces, and wraps errors. Package queuelog keeps the items
// in segments, and has the names of the znodes.
//
// The protocol was model-checked (docs/models/queue.pml, queue-puts.pml and room.pml).
//
// # Transactions
//
//	put      [receipt, check of the open segment, items, place of a producer]; the one that fills the
//	         segment seals it instead, and creates the next one
//	claim    [flag and exclusion of each item, place of a consumer]
//	ack      [receipt, flag, exclusion, item, the caller's operations, a put], without a receipt if
//	         there are no operations and no put of the caller's; a dead letter is a put, too
//	nack     [flag, exclusion, the item's data as they are if no consumer had it]
//	remove   [receipt, items]; redrive [receipt, letter, a put]; bury [receipt, flag, exclusion, item, a put]
//
// Each is sent again until its outcome is known. Its receipt, or a claim's flag, refuses what was carried
// out before. The operations that delete a place also pass the turn on, see package line.
//
// # Turns
//
// While there are more items than consumers that wait, a consumer claims without a place. Otherwise it
// takes one in the consumers' line, one for all calls of its Client (pool.go). The first in line sleeps on
// the segments. The next two look, too, but leave what they see to those ahead for a while (wait.go). A
// consumer that was too late chooses among the first items from then on, so that neither a crowd nor a
// consumer far from the servers goes for the first item for ever (claim.go, turn.go). Producers of a
// bounded queue stand in a line of their own (room.go).
//
// # Invariants
//
// Without any of these an item is lost, put twice, given to two consumers at once or to none.
//
//   - Q1: A claim creates the exclusion below its item. So it fails if the item is gone or somebody
//     else's, whatever the listing said and whoever has the turn: turns are for quiet and order only.
//   - Q2: A flag has a name of its own, and whatever ends a claim deletes the flag by that name. So a
//     deletion that is sent again never ends the next consumer's claim.
//   - Q3: What must not be carried out twice writes a receipt first, which was created before, on its
//     own, and dies with the session. Looking for its effects would prove nothing.
//   - Q4: An item is put into the segment that is open at that moment, or that the same transaction
//     seals. Sealing changes no children, so the first item of such a put still goes there, where the
//     first consumer sleeps.
//   - Q5: The first in line sleeps with a watch on every segment that may get a free item, set by the
//     listing in which there was none. Only a segment that is sealed and empty is deleted.
//   - Q6: A claim of which it is not known whether it was made is given back, until it is gone or its
//     session has ended.
//   - Q7: An exclusion whose flag somebody has deleted is deleted by its session, in a version that this
//     sweep has written: the exclusion of the next claim is a new znode, of version 0. Where the servers
//     refuse that write, by an ACL or a quota, it is deleted all the same: if somebody deletes it at that
//     moment, too, the next claim's exclusion may go.
//   - Q8: An item that is done but cannot be deleted has a mark, and an exclusion for good: a consumer
//     whose listing is old must not claim it.
//   - Q9: Whether a consumer gets an item is decided once. If none does, the claim is no attempt.
//   - Q10: A put into a bounded queue deletes its place. A producer counts when it is the first in line,
//     and one that overtakes deletes the places ahead before. So no two puts rely on one count.
package queue
