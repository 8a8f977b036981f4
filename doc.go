// Package zkrecipes implements ZooKeeper recipes for Go services that must agree on which of them
// may act now: an exclusive lock, a read/write lock, a semaphore, an election, barriers, a queue, a
// counter, groups and shards. Its lines are fair and wake no herd, and every exclusive grant has a
// fencing token. Package zktest is a ZooKeeper inside the process, for tests.
//
//	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
//	defer cancel()
//	client, err := zkrecipes.Dial(dialing, servers, nil)
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
// A [Client] holds a session with an ensemble, and opens the next one when it ends. A [Mutex] or an
// [RWLock] is only a name. A [Lease] is one grant of it, or one re-entry into it, and only the
// holder of the Lease can release it. Likewise, an [Item] is one delivery by a [Queue], and a
// [Visit] is one member's stay in a [DoubleBarrier]. A [SlotLease] is one holding of slots of a
// [Semaphore], and a [Term] the Lease of the leader of an [Election]. [LockAll] takes several
// Mutexes at once. A [Barrier] holds its members back until all are there. A [Gate] holds everybody
// back while it is shut. A [Group] says which processes are there, and [Shards] distributes work
// among processes. A [Counter] is an integer that many processes change. [Client.Watch] says what a
// znode is and becomes, and [Client.WatchTree] what a tree of them is.
//
// A zero Lease, SlotLease, Leases, Term, Shard, Visit, Item or Membership, such as one that a test
// makes, holds nothing: its methods return an error that says so, and its contexts have ended.
//
// # What is promised
//
// The servers have at most one holder of a lock at any time, even if a server
// fails, the leader changes or a connection breaks. Locks are granted first come,
// first served. If a process dies, its lock is free once its session has timed
// out. Tokens grow with every exclusive grant of a path. A Commit of a lease that the
// servers no longer have is refused as a whole.
//
// # The end of a session
//
// A disconnection ends nothing. If a session ends, because the servers did not hear from
// the client for the session timeout, the Client opens another one. All recipes follow
// one rule:
//
//   - A call that waits in a line waits in the next session, at the end of the line: [Mutex.Lock],
//     [RWLock.RLock], [LockAll], [Semaphore.Acquire], [Election.Campaign], [Queue.Take], and
//     [Queue.Put] while the queue is full. So do calls that have no place to lose, such as
//     [Gate.Wait], [Election.Observe], [Client.Watch], [Client.WatchTree] and [Visit.Leave].
//   - What was held is lost: the Err of a [Lease], [SlotLease], [Term], [Item] or [Visit] is
//     [ErrLost], and its Context ends. It is never silently taken again. [Queue.Serve],
//     [Election.Lead] and [Shards.Serve] go on with new items, terms and shards.
//   - A member that waits at a [Barrier] or [DoubleBarrier] is lost, because others may
//     have counted it: Wait and Enter return ErrLost.
//   - A member of a [Group] is there again, by itself: presence is no lock, and nobody has
//     a right by it.
//   - A write whose reply was lost returns [ErrUncertain] if the next session cannot
//     find out whether it was applied.
//
// An ErrLost that is due to the end of the session is zk.ErrSessionExpired, too.
//
// # What is not promised
//
// That a process knows in time that it no longer holds the lock. A process that
// was suspended wakes late and acts in the belief that it holds. A server that is
// cut off from its leader answers heartbeats until it notices, but these
// do not keep the session alive. [Lease.Context], [Lease.Err] and [Lease.ValidUntil] are
// best effort: enough to save work, not enough to protect data. Fence what two
// holders must never both do: with [Lease.Commit] or [Lease.Check] if the data are
// in ZooKeeper, with package fence or with [Lease.Token] if they are elsewhere.
//
// That tokens go on growing when an ensemble is rebuilt without its old data. They
// start anew.
//
// # Words
//
//   - A lock is what one holder has at a time at a path, or several readers have: a [Mutex], an
//     [RWLock].
//   - A holder is a caller that has it. A waiter is a caller that waits for it.
//   - A lease is what the holder got from Lock. Each re-entry gets another one.
//   - A predecessor is the holder or the waiter for which a waiter waits.
//   - A token is a number that grows with each exclusive grant of a path.
//   - A session is what the servers know a [Client] by. When it ends, they delete its ephemeral
//     znodes.
//   - A commit is a request that a majority of the servers log. Costs count it among the requests:
//     "one request and one commit" is one request.
//
// A lock's path is its line: a container znode in which the holder and each waiter have a place, an
// ephemeral sequential znode. The Client or the servers delete the line when it has been idle. Data
// that are there at first use are refused ([ErrPathInUse]). What others write later may be
// overwritten. Curator, kazoo and go-zookeeper can stand in the same line, see [Mutex].
//
// ZooKeeper 3.8 and 3.9 are supported. Prefer 3.9: before, each hand-over costs a listing of the
// line. 3.6 and 3.7 have what the library uses, but are not tested.
package zkrecipes
