package costs

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// locks are what steps of locks use and leave.
type locks struct {
	mine, theirs          *zkrecipes.Mutex
	held                  []*zkrecipes.Lease // by anybody
	again                 *zkrecipes.Lease   // of a re-entry
	myCall, theirCall     *harness.Call[*zkrecipes.Lease]
	readers               []*harness.Call[*zkrecipes.Lease] // that wait
	myRWLock, theirRWLock *zkrecipes.RWLock
}

// last returns the lease that was taken last.
func (l *locks) last() *zkrecipes.Lease { return l.held[len(l.held)-1] }

func (w *world) cycle(m *zkrecipes.Mutex) { w.t.Helper(); w.ok(m.Do(w.ctx(), recipetest.Nothing)) }

// waits locks in the background and requires that this waits.
func (w *world) waits(m *zkrecipes.Mutex) *harness.Call[*zkrecipes.Lease] {
	w.t.Helper()
	a := w.Waits(m)
	require.True(w.t, a.Waiting())
	return a
}

func iUse(w *world)          { w.cycle(w.mine) }
func theyUse(w *world)       { w.cycle(w.theirs) }
func iHold(w *world)         { w.held = append(w.held, recipetest.LockOn(w.t, w.mine)) }
func theyHold(w *world)      { w.held = append(w.held, recipetest.LockOn(w.t, w.theirs)) }
func iWait(w *world)         { w.myCall = w.waits(w.mine) }
func theyWait(w *world)      { w.theirCall = w.waits(w.theirs) }
func newcomerWaits(w *world) { w.waits(zkrecipes.NewMutex(w.client(), w.Path)) }
func release(w *world)       { w.ok(w.last().Release()) }
func releaseToMe(w *world)   { release(w); w.held = append(w.held, w.myCall.Get()) }
func releaseToThem(w *world) { release(w); w.held = append(w.held, w.theirCall.Get()) }
func iGiveUp(w *world)       { w.myCall.Cancel(nil); _, _ = w.myCall.Wait() }
func theyGiveUp(w *world)    { w.theirCall.Cancel(nil); _, _ = w.theirCall.Wait() }
func iTryAndGet(w *world)    { w.ok(recipetest.Held(w.t, w.mine.TryLock).Release()) }
func iTryInVain(w *world)    { refuse(func(w *world) lock { return w.mine.TryLock })(w) }

func iReenter(w *world) {
	again, err := w.mine.Lock(w.last().Reentrant(w.ctx()))
	w.ok(err)
	w.again = again
}

// iUseAt has me lock and release at another path.
func iUseAt(path string) step {
	return func(w *world) { w.cycle(zkrecipes.NewMutex(w.c, path)) }
}

// iLockAll has me lock and release several paths.
func iLockAll(paths ...string) step {
	return func(w *world) { w.ok(recipetest.LockAll(w.t, recipetest.Mutexes(w.c, paths...)...).Release()) }
}

var mutexRows = []row{
	{"Lock and Release, free", steps{iUse}},
	{"... this client's first use of a line that exists", steps{newClient, iUse}},
	{"... after other clients have used it", steps{theyUse, iUse}},
	{"... of a line that does not exist, its parent does", steps{iUseAt("/new")}},
	{"... of a line that does not exist, nor 3 parents", steps{iUseAt("/new/a/b/c")}},
	{"... again, almost half a minute later", steps{pass(line.IdleLine - time.Second), iUse}},
	{"... for the first time in half a minute, the line exists", steps{theyKeepTheLine, pass(line.IdleLine + time.Second), iUse}},
	{"... if a znode below the path is no place of the line", steps{notPlaces(1), iUse, iUse}},
	{"... if eight znodes below the path are no places", steps{notPlaces(line.LongLine + 4), iUse, iUse}},
	{"... if eight are, the first time in half a minute", steps{notPlaces(line.LongLine + 4), iUse, pass(line.IdleLine + time.Second), iUse}},
	{"deletion of the line, once idle for half a minute", steps{theyClose, iUse, pass(line.IdleLine + time.Second)}},
	{"Lock of a held lock", steps{theyHold, iWait}},
	{"... after another wait in this session", steps{theyHold, iWait, releaseToMe, release, theyHold, iWait}},
	{"a minute's wait", steps{theyHold, iWait, settle, pass(time.Minute)}},
	{"Release with a waiter, which is granted", steps{theyHold, iWait, releaseToMe}},
	{"Release of a lock that its holder waited for, nobody waits", steps{theyHold, iWait, releaseToMe, release}},
	{"Release with a waiter that has reconnected", steps{theyHold, iWait, iReconnect, releaseToMe}},
	{"a waiter's reconnection", steps{theyHold, iWait, iReconnect}},
	{"a waiter in the middle gives up", steps{theyHold, iWait, theyWait, iGiveUp}},
	{"Lock of a held lock for which others wait", steps{theyHold, iWait, theyWait, theyWait, theyWait, releaseToMe, release, iWait}},
	{"TryLock and Release, free", steps{iTryAndGet}},
	{"TryLock of a held lock", steps{theyHold, iTryInVain}},
	{"TryLock of a held lock for which others wait", steps{theyHold, iWait, theyWait, theyWait, theyWait, releaseToMe, release, iTryInVain, iTryInVain}},
	{"TryLock of a held lock, this client's first use", steps{theyHold, newClient, iTryInVain}},
	{"Re-entry", steps{iHold, func(w *world) { iReenter(w); w.ok(w.again.Release()) }}},
	{"Release of all re-entries", steps{iHold, iReenter, func(w *world) { release(w); w.ok(w.again.Release()) }}},
	{"Lease.Commit", steps{iHold, func(w *world) { _, err := w.last().Commit(w.ctx()); w.ok(err) }}},
	{"Lease.Get", steps{iHold, func(w *world) { _, _, err := w.last().Get(w.ctx(), w.Path); w.ok(err) }}},
	{"Lease.Children", steps{iHold, func(w *world) { _, _, err := w.last().Children(w.ctx(), w.Path); w.ok(err) }}},
	{"a lease that lasts: the watch on its own place", steps{iHold, othersIdle, settle}},
	{"LockAll and Release of two", steps{iUseAt("/line2"), iLockAll("/line", "/line2")}},
	{"LockAll and Release of three", steps{iLockAll("/a", "/b", "/c"), iLockAll("/a", "/b", "/c")}},
	{"Lock and Release in a line with others' credentials in its ACL", steps{shared, iUse}},
	{"Release with a waiter in such a line", steps{shared, theyHold, iWait, releaseToMe}},
	{"Lock and Release in a line that another library has made", steps{foreignLine, iUse, iUse}},
}

// theyKeepTheLine has them hold a lock below the path.
func theyKeepTheLine(w *world) {
	recipetest.LockOn(w.t, zkrecipes.NewMutex(w.other, w.Path+"/below"))
}

// othersIdle lets pass until their line is idle.
var othersIdle = pass(3 * line.IdleLine)

// notPlaces makes n children that are no places.
func notPlaces(n int) step {
	return func(w *world) {
		conn := w.Bare()
		for i := range n {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.Path, i), nil, 0, zk.WorldACL(zk.PermAll))
			w.ok(err)
		}
	}
}

// shared makes us two clients with different credentials, both of which may use a line.
func shared(w *world) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	of := func(secret string) *zkrecipes.Mutex {
		c := w.clientWith(zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte(secret)}}, ACL: acl})
		m := zkrecipes.NewMutex(c, "/shared")
		w.cycle(m)
		return m
	}
	w.mine, w.theirs = of("a:1"), of("b:2")
}

// foreignLine has another library make the znode of my lock.
func foreignLine(w *world) {
	_, err := w.Bare().CreateContainer("/foreign", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	w.ok(err)
	w.mine = zkrecipes.NewMutex(w.c, "/foreign")
}

// longLine makes a line of n places between a holder and a waiter of this library.
func longLine(n int) step {
	return func(w *world) {
		theyHold(w)
		w.Stand(w.Bare(), layout.KindLock, n)
		w.theirCall = w.waits(zkrecipes.NewMutex(w.client(), w.Path))
	}
}

// foreignPlace is a place of another library's at the end of the line.
func foreignPlace(w *world) {
	_, err := w.Bare().Create(w.Path+"/_c_"+recipetest.CuratorUUID(0)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	w.ok(err)
}

// A client that has tried a lock in vain knows how long the line is.
var longLineRows = []row{
	{"Lock of a lock for which 200 wait", steps{longLine(200), iTryInVain, iWait}},
	{"Lock of a lock for which 3,000 wait", steps{longLine(3000), iTryInVain, iWait}},
	{"... this client's first", steps{longLine(200), newClient, iWait}},
	{"... behind a place of the same client", steps{longLine(200), iTryInVain, iWait, iWait}},
	{"... behind a place of another library, for which it guesses wrong", steps{longLine(200), iTryInVain, foreignPlace, iWait}},
	{"... the next, behind another one: it does not guess", steps{longLine(200), iTryInVain, foreignPlace, iWait, foreignPlace, iWait}},
	{"Release with 200 waiters", steps{theyHold, iWait, times(199, theyWait), releaseToMe}},
	{"TryLock, this client's first use", steps{longLine(200), newClient, iTryInVain}},
	{"TryLock, the line was short so far", steps{longLine(200), iTryInVain}},
	{"TryLock", steps{longLine(200), iTryInVain, iTryInVain}},
	{"TryLock once the holder has released", steps{longLine(200), iTryInVain, release, iTryInVain}},
	{"TryLock once the last waiter has given up, too", steps{longLine(200), iTryInVain, release, theyGiveUp, iTryInVain}},
}

// kept makes mine a lock that the process keeps.
func kept(w *world) {
	w.mine = zkrecipes.NewMutex(w.c, w.Path, zkrecipes.KeepFor(recipetest.KeepFor))
}

// delayed returns a lock with a LockDelay, which has been used.
func (w *world) delayed(c *zkrecipes.Client) *zkrecipes.Mutex {
	m := zkrecipes.NewMutex(c, "/delayed", zkrecipes.LockDelay(15*time.Second))
	w.cycle(m)
	return m
}

func myDelayed(w *world)    { w.mine = w.delayed(w.c) }
func theirDelayed(w *world) { w.theirs = w.delayed(w.other) }

var mutexOptionRows = []row{
	{"KeepFor: Lock and Release, the first time", steps{kept, iUse}},
	{"KeepFor: Lock and Release, taken again", steps{kept, iUse, iUse}},
	{"KeepFor: TryLock and Release, taken again", steps{kept, iUse, iTryAndGet}},
	{"KeepFor: not used for that long", steps{kept, iUse, pass(recipetest.KeepFor + time.Second)}},
	{"KeepFor: in use for longer, ten times as long", steps{kept, iUse, times(20, iUse, pass(recipetest.KeepFor/2))}},
	{"KeepFor: Release with a waiter", steps{kept, iHold, theyWait, releaseToThem}},
	{"KeepFor: Release with a waiter, after a wait", steps{theyHold, kept, iWait, theyWait, releaseToMe, releaseToThem}},
	{"KeepFor: Release after a wait, nobody is left", steps{theyHold, kept, iWait, releaseToMe, release}},
	{"LockDelay: Lock and Release, free", steps{myDelayed, iUse}},
	{"LockDelay: Lock of a held lock", steps{myDelayed, theirDelayed, theyHold, iWait}},
	{"LockDelay: Release with a waiter, which is granted", steps{myDelayed, theirDelayed, theyHold, iWait, releaseToMe}},
}

// lock is a method that takes a lock; a side is one of ours.
type (
	lock = func(context.Context) (*zkrecipes.Lease, error)
	side = func(*world) lock
)

// rw makes the lock in both clients, which use it.
func rw(w *world) {
	w.myRWLock, w.theirRWLock = zkrecipes.NewRWLock(w.c, "/rw"), zkrecipes.NewRWLock(w.other, "/rw")
	for _, l := range []*zkrecipes.RWLock{w.myRWLock, w.theirRWLock} {
		w.ok(l.RDo(w.ctx(), recipetest.Nothing))
	}
}

func myWrite(w *world) lock    { return w.myRWLock.Lock }
func myRead(w *world) lock     { return w.myRWLock.RLock }
func myTry(w *world) lock      { return w.myRWLock.TryLock }
func myTryRead(w *world) lock  { return w.myRWLock.TryRLock }
func theirWrite(w *world) lock { return w.theirRWLock.Lock }
func theirRead(w *world) lock  { return w.theirRWLock.RLock }

// hold takes a lock, use releases it again, wait does not get it, and neither does refuse.
func hold(by side) step {
	return func(w *world) { w.held = append(w.held, recipetest.Held(w.t, by(w))) }
}

func use(by side) step { return all(hold(by), release) }

func wait(by side) step { return func(w *world) { w.myCall = recipetest.Later(w.t, by(w)) } }

func refuse(by side) step {
	return func(w *world) {
		_, err := by(w)(w.ctx())
		require.ErrorIs(w.t, err, zkrecipes.ErrLocked)
	}
}

// readersWait has n readers wait, each in a client of its own.
func readersWait(n int) step {
	return times(n, func(w *world) {
		w.readers = append(w.readers, recipetest.Later(w.t, zkrecipes.NewRWLock(w.client(), "/rw").RLock))
	})
}

func readersGet(w *world) {
	for _, a := range w.readers {
		a.Get()
	}
}

// releases ends the holds from i on and before j.
func releases(i, j int) step {
	return func(w *world) {
		for _, l := range w.held[i:j] {
			w.ok(l.Release())
		}
	}
}

func downgrade(w *world) { w.ok(w.last().Downgrade(w.ctx())) }

// fiveReaders hold, and I wait for the last of them.
var fiveReaders = all(rw, times(5, hold(theirRead)), wait(myWrite))

var rwlockRows = []row{
	{"Lock and Release, free", steps{rw, use(myWrite)}},
	{"RLock and Release, alone", steps{rw, use(myRead)}},
	{"TryRLock and Release, alone", steps{rw, use(myTryRead)}},
	{"RLock and Release beside a reader", steps{rw, hold(theirRead), use(myRead)}},
	{"RLock and Release beside 1,000 readers", steps{rw, times(1000, hold(theirRead)), use(myRead)}},
	{"TryRLock and Release beside a reader", steps{rw, hold(theirRead), use(myTryRead)}},
	{"TryLock beside a reader", steps{rw, hold(theirRead), refuse(myTry)}},
	{"TryLock beside a writer", steps{rw, hold(theirWrite), refuse(myTry)}},
	{"TryRLock beside a writer", steps{rw, hold(theirWrite), refuse(myTryRead)}},
	{"re-entry of a writer as a reader", steps{rw, hold(myWrite), func(w *world) {
		again, err := w.myRWLock.RLock(w.last().Reentrant(w.ctx()))
		w.ok(err)
		w.ok(again.Release())
	}}},
	{"Lock behind five readers", steps{rw, times(5, hold(theirRead)), wait(myWrite)}},
	{"Lock behind 1,000 readers", steps{rw, times(1000, hold(theirRead)), wait(myWrite)}},
	{"RLock behind a writer", steps{rw, hold(theirWrite), wait(myRead)}},
	{"Release of a writer with five readers waiting, which are granted", steps{rw, hold(myWrite), readersWait(5), all(release, readersGet)}},
	{"Release of a reader for which the waiting writer does not wait", steps{fiveReaders, releases(1, 2)}},
	{"Release of 999 of 1,000 readers, for which a waiting writer does not wait", steps{rw, times(1000, hold(theirRead)), wait(myWrite), releases(0, 999)}},
	{"Release of a reader for which it waits, others hold", steps{fiveReaders, all(releases(4, 5), func(w *world) { require.True(w.t, w.myCall.Waiting()) })}},
	{"Release of the last reader with a writer waiting, which is granted", steps{fiveReaders, releases(1, 5), all(releases(0, 1), func(w *world) { w.myCall.Get() })}},
	{"a waiting writer's reconnection", steps{rw, hold(theirWrite), wait(myWrite), iReconnect}},
	{"... behind a reader", steps{rw, hold(theirRead), wait(myWrite), iReconnect}},
	{"a waiting reader's reconnection", steps{rw, hold(theirWrite), wait(myRead), iReconnect}},
	// After a reconnect an event is only a hint, so the waiter lists even if it is a signal.
	{"Release of a writer with a writer waiting that has reconnected", steps{rw, hold(theirWrite), wait(myWrite), iReconnect, releaseToMe}},
	{"Release of a reader with a writer waiting that has reconnected", steps{rw, hold(theirRead), wait(myWrite), iReconnect, releaseToMe}},
	{"Release of a writer with a reader waiting that has reconnected", steps{rw, hold(theirWrite), wait(myRead), iReconnect, releaseToMe}},
	{"Downgrade, nobody waits", steps{rw, hold(myWrite), downgrade}},
	{"Downgrade of a reader", steps{rw, hold(myWrite), downgrade, downgrade}},
	{"Release after a Downgrade", steps{rw, hold(myWrite), downgrade, release}},
	{"Downgrade with four readers waiting, which are granted", steps{rw, hold(myWrite), readersWait(4), all(downgrade, readersGet)}},
}
