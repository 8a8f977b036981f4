package zkrecipes

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/hooks"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Trace is a set of functions that are called when something happens. Any of them may be
// nil, and then costs nothing. Together they carry what spans and metrics need:
//
//   - Each AcquireStart is followed by one AcquireEnd.
//   - Each AcquireEnd with a Token begins a hold, and is followed by one HoldStart.
//   - Each HoldStart is followed by one HoldEnd with the same Hold, Path and Token. Nothing else
//     causes a HoldEnd.
//
// An acquisition is a call that waits for what its recipe grants: see Recipe. A call that
// is refused for its arguments is not reported. Neither is a re-entry (Lease.Reentrant):
// it takes nothing that the holder does not have.
//
// AcquireStart is called by the goroutine that makes the call. The others are called one
// after the other, in the order of events, from a goroutine of their own: a slow function
// delays the others, never a lock. At most 10,000 calls wait, those of the Logger included.
// Further ones are dropped and counted, see the fields Dropped. JoinTraces makes one Trace of
// several.
//
// All functions may call the library, even Close, which does not wait for them. AcquireStart
// must not call Shutdown, which waits for the call that it is part of, and must return: do
// not end its goroutine (runtime.Goexit, which testing.T.FailNow calls). If a function
// panics, the panic is logged, and its caller goes on.
type Trace struct {
	// AcquireStart: an acquisition begins. Nothing has been sent for it yet. It is called
	// at once, so the call goes on when it returns.
	//
	// The context that it returns is passed to Queued, AcquireEnd and HoldStart. nil means the
	// call's own. The call itself goes on with its own context, so the returned one can neither
	// cancel an acquisition nor keep it from being canceled. The functions given to Do, Lead
	// and Serve do not get its values, because they run after the acquisition.
	AcquireStart func(context.Context, TraceAcquireStart) context.Context
	// Queued: the acquisition waits with a place in a line, and other places are ahead. It
	// is called again when the wait goes on in a new session, at the end of the line. An
	// acquisition that shares a place which another one of the same Client took before
	// (KeepFor, Take) is not reported.
	Queued func(context.Context, TraceQueued)
	// AcquireEnd: the acquisition has succeeded or failed. One that was refused (ErrLocked,
	// ErrEmpty, ErrDeadlock) or canceled has failed. LockAll and Lead refuse a context of
	// the holder before they begin an acquisition.
	AcquireEnd func(context.Context, TraceAcquireEnd)
	// HoldStart: an acquisition has succeeded, and what it got is held from now on. It is not
	// called for what is never held: a put, a wait at a gate or a barrier, a re-entry.
	HoldStart func(context.Context, TraceHoldStart)
	// HoldEnd: what an acquisition got is no longer held.
	HoldEnd func(TraceHoldEnd)
	// Session: the state of the Client's session has changed.
	Session func(TraceSession)
}

// JoinTraces returns a Trace that calls the functions of all of these, in their order. nil
// ones are left out. A function that none of them has stays unset, and costs nothing.
//
// The context that an AcquireStart returns is given to the next one. The last one's is passed
// to Queued, AcquireEnd and HoldStart of all of them. So do not return a context that is not
// derived from the one that was given, or the values of the others are lost. If one of the
// functions panics, the others are called all the same.
func JoinTraces(traces ...*Trace) *Trace {
	all := &Trace{}
	for _, t := range traces {
		if t == nil {
			continue
		}
		all = &Trace{
			AcquireStart: hooks.JoinStarts(all.AcquireStart, t.AcquireStart),
			Queued:       hooks.JoinWithContext(all.Queued, t.Queued),
			AcquireEnd:   hooks.JoinWithContext(all.AcquireEnd, t.AcquireEnd),
			HoldStart:    hooks.JoinWithContext(all.HoldStart, t.HoldStart),
			HoldEnd:      hooks.Join(all.HoldEnd, t.HoldEnd),
			Session:      hooks.Join(all.Session, t.Session),
		}
	}
	return all
}

// Recipe names a recipe, in a Trace and in a Usage.
type Recipe string

// The recipes, with the operations (Op) of which an acquisition is reported.
const (
	// RecipeMutex: "lock", "try lock", and "lock all" for each mutex of a LockAll. With
	// KeepFor, too, a hold ends with the Release, though the process keeps the lock. Also "shard",
	// see RecipeShards.
	RecipeMutex Recipe = "mutex"
	// RecipeRWLock: "lock", "read lock", "try lock", "try read lock". A Downgrade is no
	// acquisition: the hold goes on, see TraceHoldEnd.Op. Also "shard", see RecipeShards.
	RecipeRWLock Recipe = "rwlock"
	// RecipeQueue: "take", "try take" and "serve", each for one item, which is held until it
	// is acked, given back or lost. A worker of Serve acquires one item after the other. So
	// while it is idle, an acquisition is under way. When Serve ends, that acquisition fails
	// with the context's error, or with ErrClosed after a Shutdown or Close: do not count
	// these as errors. If TakeN returns several items, its acquisition got the first. For
	// each of the others an acquisition begins and ends as TakeN returns.
	//
	// Also "put", for Put and PutAll with MaxLen, which may wait for room. Nothing is held.
	RecipeQueue Recipe = "queue"
	// RecipeSemaphore: "acquire", "try acquire". All slots of a SlotLease are one hold.
	RecipeSemaphore Recipe = "semaphore"
	// RecipeElection: "campaign", and "lead" for each campaign of Lead. A Term is held.
	RecipeElection Recipe = "election"
	// RecipeBarrier: "wait". Nothing is held.
	RecipeBarrier Recipe = "barrier"
	// RecipeDoubleBarrier: "enter". The Visit is held until Leave is called.
	RecipeDoubleBarrier Recipe = "doublebarrier"
	// RecipeGate: "wait". Nothing is held.
	RecipeGate Recipe = "gate"
	// RecipeCounter has no acquisitions. See Usage.
	RecipeCounter Recipe = "counter"
	// RecipeGroup has no acquisitions. See Usage.
	RecipeGroup Recipe = "group"
	// RecipeShards has no acquisitions: Serve holds a Mutex for each shard that the process has,
	// and a read lock of an RWLock for as long as it works. The operation of both is "shard". See Usage.
	RecipeShards Recipe = "shards"
)

// TraceAcquireStart is the argument of Trace.AcquireStart.
type TraceAcquireStart struct {
	Recipe Recipe
	Path   string // as the caller gave it, without Options.Prefix
	Op     string // see Recipe
}

// TraceQueued is the argument of Trace.Queued.
type TraceQueued struct {
	Time    time.Time
	Recipe  Recipe
	Path    string // as in TraceAcquireStart
	Op      string
	Session int64  // ZooKeeper's session id
	Place   string // the name of the znode with which the call waits
	// Predecessor is the name of the znode for which a lock or an election waits first. It is
	// empty if the call only waits for a LockDelay to pass, and for other recipes.
	Predecessor string
	Ahead       int // how many places are ahead
	Dropped     int // see TraceAcquireEnd
}

// TraceAcquireEnd is the argument of Trace.AcquireEnd.
type TraceAcquireEnd struct {
	Time   time.Time
	Recipe Recipe
	Path   string // as in TraceAcquireStart
	Op     string
	// Wait is the time since the acquisition began, AcquireStart included. That of a "take"
	// or a "serve" includes the time in which the queue was empty, so it says nothing about
	// the load. For that, see how old the first item is: Queue.Peek.
	Wait    time.Duration
	Ahead   int    // the last that Queued reported; 0 if it was not called
	Session int64  // in which it is held; 0 if nothing is
	Place   string // the name of the znode that holds; empty if nothing is held
	Token   Token  // of what is held, 0 if nothing is
	Err     error  // that the call returns; nil if it succeeded

	// Predecessor is the name of the znode for which a lock or an election has waited last:
	// the Place of the holder before, or of a waiter that left at the same time. It is Place
	// itself if a kept lock (KeepFor) is granted again. It is empty if the acquisition did not
	// wait for a holder, and of other recipes.
	Predecessor string

	// Dropped is how many calls of the Trace's functions were dropped since the last one,
	// because the functions or the Logger were too slow. Your counts are wrong by as much.
	// The Logger gets a record of it, too.
	Dropped int
}

// TraceHoldStart is the argument of Trace.HoldStart.
type TraceHoldStart struct {
	Time    time.Time // that of the AcquireEnd
	Recipe  Recipe
	Path    string // as in TraceAcquireStart
	Op      string
	Session int64  // ZooKeeper's session id
	Place   string // the name of the znode that holds
	Token   Token  // as in TraceAcquireEnd
	Hold    Hold
	Dropped int // see TraceAcquireEnd
}

// Hold identifies a hold within the process: HoldStart and HoldEnd of one hold have equal
// values, and no two holds have, whatever their Clients. So it can be the key of a map. The zero
// Hold is none.
type Hold struct{ over <-chan struct{} }

// Ongoing reports whether the hold goes on at the moment of the call. Use it after calls were
// dropped: a hold that has ended without a HoldEnd is not ongoing. It sends nothing. As with
// Lease.Err, the process may learn late of the end. It is false for the zero Hold.
func (h Hold) Ongoing() bool {
	select {
	case <-h.over:
		return false
	default:
		return h.over != nil
	}
}

// TraceHoldEnd is the argument of Trace.HoldEnd.
type TraceHoldEnd struct {
	Time    time.Time
	Recipe  Recipe
	Path    string // as in TraceAcquireStart
	Op      string // of the acquisition, or "downgrade" if the lease was downgraded
	Session int64  // ZooKeeper's session id
	Place   string // the name of the znode that held
	Token   Token  // as in TraceAcquireEnd
	Hold    Hold   // that of the HoldStart
	// Held is the time since the AcquireEnd. For an item of Serve it includes the back-off
	// after the handler has failed.
	Held time.Duration
	// Err is nil if the holder released it, with the last of its re-entries. An item's is
	// nil whether it was acked, given back or moved to the dead letters. So time the work of
	// Serve, and count what failed, in the handler. The znode may still exist while the
	// client is disconnected. Err is nil, too, if only the servers knew that it had been lost
	// before: see Lease.Release.
	//
	// Err is ErrLost, with the cause, if it was lost, and ErrClosed if the Client was closed
	// while it was held. See Lease.Err for a cause that becomes known later.
	Err     error
	Dropped int // see TraceAcquireEnd
}

// TraceSession is the argument of Trace.Session.
type TraceSession struct {
	Time  time.Time
	State SessionState
	ID    int64 // ZooKeeper's session id
	// Server is the server to which the client is, or was, connected, as in Status. It is
	// empty once the session has ended.
	Server  string
	Timeout time.Duration // as negotiated with the server
	// RolledBack: the servers have lost transactions that they had confirmed, since the
	// session was resumed with znodes that it had deleted. They are deleted again. The State is
	// SessionConnected, as it was when they were found. See docs/operations.md.
	RolledBack bool
	// Refused: a server refused an attempt to connect. Err says why, and is zk.ErrAuthFailed: a
	// credential or the principal of Options.SASL was refused, or the server requires SASL. The
	// State is SessionDisconnected, as it was before, and ID is 0 if there is no session.
	Refused bool
	// Err says why the client is disconnected. It is ErrLost, with the cause, if the
	// session expired. It is the error of Close if the Client was closed.
	Err     error
	Dropped int // see TraceAcquireEnd

	validUntil func() time.Time
}

// ValidUntil returns the time until which the session is known to be alive at the moment
// of the call, as Lease.ValidUntil does: it may be called at any time later. It is in
// the past if the servers have been silent for too long, and the zero time once the
// session has ended.
func (e TraceSession) ValidUntil() time.Time {
	if e.validUntil == nil {
		return time.Time{}
	}
	return e.validUntil()
}

// SessionState is the state of a Client's session.
type SessionState int

const (
	// SessionConnected: requests pass, for the first time in a session or again.
	SessionConnected = SessionState(session.Connected)
	// SessionDisconnected: the connection was lost. The session may go on. Close and
	// Shutdown of a connected Client are not reported as one.
	SessionDisconnected = SessionState(session.Disconnected)
	// SessionExpired: the session has ended. The Client opens another one.
	SessionExpired = SessionState(session.Expired)
	// SessionClosed: the Client was closed. This is the last state.
	SessionClosed = SessionState(session.Closed)
)

// String returns "connected", "disconnected", "expired" or "closed".
func (s SessionState) String() string {
	switch s {
	case SessionConnected:
		return "connected"
	case SessionDisconnected:
		return "disconnected"
	case SessionExpired:
		return "expired"
	case SessionClosed:
		return "closed"
	}
	return fmt.Sprintf("SessionState(%d)", int(s))
}
