// Package zkrecipes has ZooKeeper recipes for Go services that must agree on
// who may act now. There are an exclusive lock and a read/write lock: fair,
// without a herd, with a fencing token on every exclusive grant; barriers; and a
// queue. Package zktest is a ZooKeeper inside the process, for tests.
//
//	client, err := zkrecipes.Dial(ctx, servers, nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer client.Close()
//
//	orders := zkrecipes.NewMutex(client, "/locks/orders")
//	err = orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
//		return ship(ctx, lease.Token()) // ctx ends if the lock is lost
//	})
//
// A [Client] holds a session with an ensemble, and opens the next one when it
// ends. A [Mutex] or an [RWLock] is a name; a [Lease] is one grant of it. Only
// who has the Lease can release it. In the same way an [Item] is one delivery by a
// [Queue], and a [Visit] one member's of a [DoubleBarrier]. A [Barrier] holds its
// members back until all are there, a [Gate] everybody while it is shut.
//
// # What is promised
//
// The servers have at most one holder of a lock at any time, also when a server
// fails, the leader changes or a connection breaks. First come, first served.
// The lock of a process that dies is free when its session has timed out. A
// wait goes on through disconnections, and, at the end of the line, through the
// end of the session; a grant is never taken up again silently. Tokens grow
// with every exclusive grant of a path. A Commit of a lease that the servers no
// longer have is refused as a whole.
//
// # What is not promised
//
// That a process knows in time that it is no longer the holder. One that was
// suspended wakes late and acts in the belief that it holds. A server that is
// cut off from its leader answers heartbeats until it notices, and they never
// count. [Lease.Context], [Lease.Err] and [Lease.ValidUntil] are best effort:
// enough to save work, not enough to protect data. What must never be done by
// two has to be fenced: with [Lease.Commit] or [Lease.Check] where the data are
// in ZooKeeper, with [Lease.Token] where they are elsewhere.
//
// That tokens go on growing when an ensemble is rebuilt without its old data.
// They begin anew.
//
// # Lines
//
// A lock's path is a line: a container znode whose children are the holder and
// those who wait. The servers delete it when it has been idle, and data put on
// it are overwritten. Curator, kazoo and go-zookeeper can stand in the same
// line, see [Mutex].
//
// Servers from ZooKeeper 3.6 to 3.9 are supported.
package zkrecipes
