package zkrecipes

import (
	"errors"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Errors that a caller may want to tell apart with errors.Is. Errors of the
// ZooKeeper client, such as zk.ErrNoAuth, and the cause of a context can be found
// in the same way.
var (
	// ErrLocked is returned by TryLock and TryRLock if another holder or waiter in the line
	// blocks them, and by TryAcquire and TryAcquireN if too few slots are free or somebody
	// waits.
	ErrLocked = errs.ErrLocked
	// ErrLost is returned if a grant has ended without being released, or can no
	// longer be trusted: its session ended, the servers did not answer for as long
	// as the session is known to live, somebody else deleted its znode, or its MaxHold has passed. A call that
	// waits as a member of a Barrier or DoubleBarrier returns it if its session ended. If
	// the session ended, the error is zk.ErrSessionExpired, too.
	ErrLost = errs.ErrLost
	// ErrMaxHold is the cause of ErrLost if a MaxHold has ended the grant.
	ErrMaxHold = errs.ErrMaxHold
	// ErrReleased is returned if the lease was released before, or the member of a Group has left.
	ErrReleased = errs.ErrReleased
	// ErrEvicted is returned if somebody deleted the znode with which a call was
	// waiting.
	ErrEvicted = errs.ErrEvicted
	// ErrHolder is returned by Client.Evict for a contender that holds a lock or a slot, for a
	// leader, and for a member of a barrier that has opened, unless EvictOptions.Holder is set.
	ErrHolder = look.ErrHolder
	// ErrDeadlock is returned by a call that waits for a lock or a leadership with a context of the
	// holder: it would wait for itself. Only a holder by the same Client, recipe and path is
	// noticed. Circles of several locks, clients or processes are not.
	ErrDeadlock = errs.ErrDeadlock
	// ErrUpgrade is returned if a write lock is requested with a context of a
	// reader: the writer would wait for that reader.
	ErrUpgrade = errs.ErrUpgrade
	// ErrUncertain is returned if the reply to a write was lost, and the client
	// cannot find out whether the write was applied. Do not repeat it blindly. For a
	// call that takes a place in a line it means that the servers refuse to list the
	// line, or to show the place. The call holds nothing. If there is a place, the client
	// deletes it as soon as it may, or the servers delete it with the session.
	ErrUncertain = errs.ErrUncertain
	// ErrClosed is returned if the Client was closed, or if it is being shut down and
	// grants nothing more.
	ErrClosed = errs.ErrClosed
	// ErrExhausted is returned if the counter of creates of a line is at its end, where
	// ZooKeeper assigns the same number again and again, and the client cannot delete
	// the line so that it begins anew. The error says why. A barrier's path is never
	// deleted for that. Delete the znode to go on.
	ErrExhausted = errs.ErrExhausted
	// ErrInvalidPath is returned for a path that is no absolute path of a znode, or is
	// the root. The error's text says what is wrong with it.
	ErrInvalidPath = zkconn.ErrInvalidPath
	// ErrPathInUse is returned if the path belongs to another recipe, or to a version
	// of this library with another layout, or if it holds other data. Use another path.
	//
	// The data of the znodes tell which recipe uses a path. A Client reads them at its first
	// use of the path, and when it has not used the path for half a minute. So if the
	// servers have deleted an idle line and another recipe has made the path anew, a Client
	// may take half a minute to notice. A number above 0 at the path of a queue counts as the
	// size of a semaphore or barrier. Other data there are left alone. A Mutex and an RWLock may
	// use a path one after the other, and get the error if places of both stand in the line. The
	// error is also returned if a LeaderLatch of Curator's stands in the line of a lock or an
	// election, or its InterProcessSemaphoreV2 uses the path of a Semaphore, by a Counter
	// whose path does not hold an integer, and by Gate.Open if the znode has children. It is
	// not returned by the other methods of a Gate, by those of a Group, whose members may stand
	// below any znode, and by a Barrier or Semaphore if the path holds its number for another recipe.
	// Nor does a Counter return it at the path of one of these: it takes their number for its value,
	// and overwrites it.
	ErrPathInUse = zkconn.ErrPathInUse
	// ErrUnused is returned by Contenders, Size, Len, Items and Peek if the path holds
	// nothing of the recipe, not even an empty line or queue: it has not been used, its znodes
	// were deleted when they had been idle, or it is the wrong path. If there is no znode at
	// the path, it is zk.ErrNoNode, too.
	ErrUnused = errs.ErrUnused
	// ErrTooLarge is returned for a request above the servers' limit (Options.MaxBuffer), and
	// for an item above QueueOptions.MaxItemBytes. It was not sent, or the servers have closed
	// three connections in a row on which it was: see Options.MaxBuffer.
	ErrTooLarge = zkconn.ErrTooLarge
	// ErrSessionFull is returned by a call whose znodes would make the Client's session too
	// large. Nothing was written. Every lock that is held or waited for, every slot, every item
	// that is taken, every member of a Group, and every ephemeral znode of OpCreate adds its path to the transaction
	// that ends the session. So do a few znodes for each queue and counter that the Client writes, which
	// fill half of it at most. If that became larger than jute.maxbuffer, no server could read it:
	// when the session expired, the whole ensemble would go down for good (ZOOKEEPER-4306).
	// So the paths may have 9/10 of that (see Options.MaxBuffer): about 10,000 locks with paths
	// of 20 to 40 bytes. Calls that give back what is held, such as Release and Nack, never
	// return it, but Ack and AckPut may: see there. Use another Client for some of the locks, let
	// fewer calls wait, or use KeepFor, with which calls of one Client share a place. Client.Status
	// shows how full the session is.
	ErrSessionFull = zkconn.ErrSessionFull
	// ErrQuotaExceeded is returned if the servers refuse a write because of a quota.
	ErrQuotaExceeded = zkconn.ErrQuotaExceeded
	// ErrContended is returned if other clients have undone what a call needs, again
	// and again: they delete its path or change its data. Nothing was done, except what
	// Purge and Redrive have counted. If the error is ErrUncertain, too, an earlier attempt,
	// whose reply was lost, may have been carried out.
	ErrContended = zkconn.ErrContended
	// ErrSessionNotClosed is returned by Close if the client was not connected. The
	// servers keep the session, and its znodes, until the session times out.
	ErrSessionNotClosed = errs.ErrSessionNotClosed
	// ErrSize is returned by a member of a Barrier or DoubleBarrier that waits for
	// another number of members than the others do, by a Semaphore that was made for
	// another number of slots than the path holds, by AcquireN for more slots than there
	// are, and by Shards.Serve if the path holds another number of shards.
	ErrSize = errs.ErrSize
	// ErrEmpty is returned by Peek and TryTake if no item is free.
	ErrEmpty = queue.ErrEmpty
	// ErrItemTaken is returned by Remove if a consumer has the item, and by Bury if a znode that is no
	// claim of this library stands in the way.
	ErrItemTaken = queue.ErrItemTaken
	// ErrItemGone is returned by Find, Remove and Bury if there is no such item (any more), and
	// with ErrLost by Ack, AckPut and Nack if the item has gone together with its claim: it was
	// buried, or somebody else has acked or removed it since. It is not delivered again.
	ErrItemGone = queue.ErrItemGone
)

// Error says which operation failed, on what path, and why.
type Error struct {
	Op   string // "lock", "commit", ...; for people: the text may change
	Path string // as the caller gave it, without Options.Prefix; may be empty
	Err  error
}

func (e *Error) Error() string {
	path := e.Path
	if path == "" || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
		path = strconv.Quote(path)
	}
	return "zkrecipes: " + e.Op + " " + path + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// fail wraps err once; nil stays nil.
func fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*Error); ok { // not errors.As: an Error in the chain may be a cause, of another operation
		return err
	}
	// What may have been done does not match ErrLost, which says that nothing was: also if ctx was the
	// lease's own, which ended because the lease was lost.
	if e := (*zkconn.ContextError)(nil); errors.As(err, &e) && e.Cause != nil && !(errors.Is(err, ErrUncertain) && errors.Is(e.Cause, ErrLost)) {
		err = withCause{err, e.Cause}
	}
	return &Error{Op: op, Path: path, Err: err}
}

// withCause is an error in which errors.Is also finds the cause of a context. Why there
// was no connection is in the text only: it may be a deadline, too.
type withCause struct {
	error
	cause error
}

func (e withCause) Unwrap() []error { return []error{e.error, e.cause} }
