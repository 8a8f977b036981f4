package costs

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

const lockDelay = 15 * time.Second

func (w *world) mutex(c *zkrecipes.Client, opts ...zkrecipes.MutexOption) *zkrecipes.Mutex {
	return zkrecipes.NewMutex(c, w.Path, opts...)
}

func (w *world) locks(c *zkrecipes.Client) *zkrecipes.Lease {
	w.t.Helper()
	return recipetest.LockOn(w.t, w.mutex(c))
}

// waits locks in c and requires that it waits.
func (w *world) waits(c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
	w.t.Helper()
	a := w.LockLater(c)
	require.True(w.t, a.Waiting())
	return a
}

func (w *world) release(l *zkrecipes.Lease) { w.t.Helper(); w.ok(l.Release()) }

// cycle locks and releases.
func (w *world) cycle(m *zkrecipes.Mutex) { w.t.Helper(); w.ok(m.Do(w.ctx(), recipetest.Nothing)) }

// refused tries a lock that is held.
func (w *world) refused(try func() (*zkrecipes.Lease, error)) {
	w.t.Helper()
	_, err := try()
	require.ErrorIs(w.t, err, zkrecipes.ErrLocked)
}

func (w *world) tryFails(c *zkrecipes.Client) {
	w.t.Helper()
	w.refused(func() (*zkrecipes.Lease, error) { return w.mutex(c).TryLock(w.ctx()) })
}

var mutexRows = []row{
	{"Lock and Release, free", func(w *world) func() { return func() { w.cycle(w.mutex(w.c)) } }},
	{"... this client's first use of a line that exists", func(w *world) func() {
		c := w.client()
		return func() { w.cycle(w.mutex(c)) }
	}},
	{"... after other clients have used it", func(w *world) func() {
		w.cycle(w.mutex(w.other))
		return func() { w.cycle(w.mutex(w.c)) }
	}},
	{"... of a line that does not exist, its parent does", func(w *world) func() {
		return func() { w.cycle(zkrecipes.NewMutex(w.c, "/new")) }
	}},
	{"... of a line that does not exist, nor 3 parents", func(w *world) func() {
		return func() { w.cycle(zkrecipes.NewMutex(w.c, "/new/a/b/c")) }
	}},
	{"... again, almost half a minute later", func(w *world) func() {
		time.Sleep(line.IdleLine - time.Second)
		return func() { w.cycle(w.mutex(w.c)) }
	}},
	{"... for the first time in half a minute, the line exists", func(w *world) func() {
		recipetest.LockOn(w.t, zkrecipes.NewMutex(w.other, w.Path+"/below")) // keeps the line
		time.Sleep(line.IdleLine + time.Second)
		return func() { w.cycle(w.mutex(w.c)) }
	}},
	{"... if a znode below the path is no place of the line", func(w *world) func() {
		_, err := w.Bare().Create(w.Path+"/config", nil, 0, zk.WorldACL(zk.PermAll))
		w.ok(err)
		w.cycle(w.mutex(w.c))
		return func() { w.cycle(w.mutex(w.c)) }
	}},
	{"... if eight znodes below the path are no places", func(w *world) func() {
		w.notPlaces(line.LongLine + 4)
		return func() { w.cycle(w.mutex(w.c)) }
	}},
	{"... if eight are, the first time in half a minute", func(w *world) func() {
		w.notPlaces(line.LongLine + 4)
		time.Sleep(line.IdleLine + time.Second)
		return func() { w.cycle(w.mutex(w.c)) }
	}},
	{"deletion of the line, once idle for half a minute", func(w *world) func() {
		w.ok(w.other.Close())
		w.cycle(w.mutex(w.c))
		return func() { time.Sleep(line.IdleLine + time.Second) }
	}},
	{"Lock of a held lock", func(w *world) func() {
		w.locks(w.other)
		return func() { w.waits(w.c) }
	}},
	{"Lock of a held lock, the session's first wait", func(w *world) func() {
		c := w.Stranger(&zkrecipes.Options{SessionTimeout: recipetest.LongSession})
		w.cycle(w.mutex(c))
		w.locks(w.other)
		return func() { w.waits(c) }
	}},
	{"a minute's wait", func(w *world) func() {
		w.locks(w.other)
		w.waits(w.c)
		return w.idle(time.Minute)
	}},
	{"Release with a waiter, which is granted", func(w *world) func() {
		l := w.locks(w.other)
		a := w.waits(w.c)
		return func() { w.release(l); a.Get() }
	}},
	{"Release of a lock that its holder waited for, nobody waits", func(w *world) func() {
		l := w.locks(w.other)
		a := w.waits(w.c)
		w.release(l)
		return func() { w.release(a.Get()) }
	}},
	{"Release with a waiter that has reconnected", func(w *world) func() {
		l := w.locks(w.other)
		a := w.waits(w.c)
		require.True(w.t, w.Srv.Disconnect(recipetest.SessionID(w.c)))
		time.Sleep(time.Second)
		return func() { w.release(l); a.Get() }
	}},
	{"a waiter's reconnection", func(w *world) func() {
		w.locks(w.other)
		w.waits(w.c)
		return func() {
			require.True(w.t, w.Srv.Disconnect(recipetest.SessionID(w.c)))
			time.Sleep(time.Second)
		}
	}},
	{"a waiter in the middle gives up", func(w *world) func() {
		w.locks(w.other)
		a := w.waits(w.c)
		w.waits(w.other)
		return func() { a.Cancel(nil); _, _ = a.Wait() }
	}},
	{"TryLock and Release, free", func(w *world) func() {
		return func() { w.release(recipetest.Held(w.t, w.mutex(w.c).TryLock)) }
	}},
	{"TryLock of a held lock", func(w *world) func() {
		w.locks(w.other)
		return func() { w.tryFails(w.c) }
	}},
	{"TryLock of a held lock, this client's first use", func(w *world) func() {
		w.locks(w.other)
		c := w.client()
		return func() { w.tryFails(c) }
	}},
	{"Re-entry", func(w *world) func() {
		l := w.locks(w.c)
		return func() {
			again, err := w.mutex(w.c).Lock(l.Reentrant(w.ctx()))
			w.ok(err)
			w.release(again)
		}
	}},
	{"Release of all re-entries", func(w *world) func() {
		l := w.locks(w.c)
		again, err := w.mutex(w.c).Lock(l.Reentrant(w.ctx()))
		w.ok(err)
		return func() { w.release(l); w.release(again) }
	}},
	{"Lease.Commit", func(w *world) func() {
		l := w.locks(w.c)
		return func() { _, err := l.Commit(w.ctx()); w.ok(err) }
	}},
	{"Lease.Get", func(w *world) func() {
		l := w.locks(w.c)
		return func() { _, _, err := l.Get(w.ctx(), w.Path); w.ok(err) }
	}},
	{"Lease.Children", func(w *world) func() {
		l := w.locks(w.c)
		return func() { _, _, err := l.Children(w.ctx(), w.Path); w.ok(err) }
	}},
	{"a lease that lasts: the watch on its own place", func(w *world) func() {
		w.locks(w.c)
		time.Sleep(3 * line.IdleLine) // the other client's line is idle
		return func() { time.Sleep(settled) }
	}},
	{"LockAll and Release of two", func(w *world) func() {
		w.cycle(zkrecipes.NewMutex(w.c, w.Path+"2"))
		return func() { w.ok(recipetest.LockAll(w.t, recipetest.Mutexes(w.c, w.Path, w.Path+"2")...).Release()) }
	}},
	{"LockAll and Release of three", func(w *world) func() {
		w.ok(recipetest.LockAll(w.t, recipetest.Mutexes(w.c, "/a", "/b", "/c")...).Release())
		return func() { w.ok(recipetest.LockAll(w.t, recipetest.Mutexes(w.c, "/a", "/b", "/c")...).Release()) }
	}},
	{"Lock and Release in a line with others' credentials in its ACL", func(w *world) func() {
		a, _ := w.shared()
		return func() { w.cycle(a) }
	}},
	{"Release with a waiter in such a line", func(w *world) func() {
		a, b := w.shared()
		l := recipetest.LockOn(w.t, a)
		next := recipetest.LockLater(w.t, b)
		return func() { w.release(l); next.Get() }
	}},
	{"Lock and Release in a line that another library has made", func(w *world) func() {
		m := w.foreign("")
		return func() { w.cycle(m) }
	}},
	{"Lock and Release in a line whose znode holds a user's data", func(w *world) func() {
		m := w.foreign("mine")
		return func() { w.cycle(m) }
	}},
}

// notPlaces makes n children that are no places, which c has seen.
func (w *world) notPlaces(n int) {
	conn := w.Bare()
	for i := range n {
		_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.Path, i), nil, 0, zk.WorldACL(zk.PermAll))
		w.ok(err)
	}
	w.cycle(w.mutex(w.c))
}

// shared returns a lock in two clients with different credentials, both of which may use it.
func (w *world) shared() (a, b *zkrecipes.Mutex) {
	acl := append(zk.DigestACL(zk.PermAll, "a", "1"), zk.DigestACL(zk.PermAll, "b", "2")...)
	of := func(secret string) *zkrecipes.Mutex {
		c := w.clientWith(zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte(secret)}}, ACL: acl})
		m := zkrecipes.NewMutex(c, "/shared")
		w.cycle(m)
		return m
	}
	return of("a:1"), of("b:2")
}

// foreign returns a lock whose znode was made by another library, with that data. It has been
// used.
func (w *world) foreign(data string) *zkrecipes.Mutex {
	_, err := w.Bare().CreateContainer("/foreign", []byte(data), zk.FlagContainer, zk.WorldACL(zk.PermAll))
	w.ok(err)
	m := zkrecipes.NewMutex(w.c, "/foreign")
	w.cycle(m)
	return m
}

// longLine makes a line of n places ahead of a waiter of this library. c has seen how long it
// is if it was told so.
func (w *world) longLine(n int, seen bool) (holder *zkrecipes.Lease, last *harness.Call[*zkrecipes.Lease]) {
	holder = w.locks(w.other)
	w.Stand(w.Bare(), placename.KindLock, n)
	last = w.waits(w.client())
	if seen {
		w.tryFails(w.c)
	}
	return holder, last
}

var longLineRows = []row{
	{"Lock of a lock for which 200 wait", func(w *world) func() {
		w.longLine(200, true)
		return func() { w.waits(w.c) }
	}},
	{"Lock of a lock for which 3,000 wait", func(w *world) func() {
		w.longLine(3000, true)
		return func() { w.waits(w.c) }
	}},
	{"... this client's first", func(w *world) func() {
		w.longLine(200, false)
		c := w.client()
		return func() { w.waits(c) }
	}},
	{"... behind a place of the same client", func(w *world) func() {
		w.longLine(200, true)
		w.waits(w.c)
		return func() { w.waits(w.c) }
	}},
	{"... behind a place of another library, for which it guesses wrong", func(w *world) func() {
		w.longLine(200, true)
		w.foreignPlace()
		return func() { w.waits(w.c) }
	}},
	{"... the next, behind another one: it does not guess", func(w *world) func() {
		w.longLine(200, true)
		w.foreignPlace()
		w.waits(w.c)
		w.foreignPlace()
		return func() { w.waits(w.c) }
	}},
	{"Release with 200 waiters", func(w *world) func() {
		l := w.locks(w.other)
		a := w.waits(w.c)
		for range 199 {
			w.waits(w.other)
		}
		return func() { w.release(l); a.Get() }
	}},
	{"TryLock, this client's first use", func(w *world) func() {
		w.longLine(200, false)
		c := w.client()
		return func() { w.tryFails(c) }
	}},
	{"TryLock, the line was short so far", func(w *world) func() {
		w.longLine(200, false)
		return func() { w.tryFails(w.c) }
	}},
	{"TryLock", func(w *world) func() {
		w.longLine(200, true)
		return func() { w.tryFails(w.c) }
	}},
	{"TryLock once the holder has released", func(w *world) func() {
		l, _ := w.longLine(200, true)
		w.release(l)
		return func() { w.tryFails(w.c) }
	}},
	{"TryLock once the last waiter has given up, too", func(w *world) func() {
		l, last := w.longLine(200, true)
		w.release(l)
		last.Cancel(nil)
		_, _ = last.Wait()
		return func() { w.tryFails(w.c) }
	}},
}

// foreignPlace takes a place as another library would.
func (w *world) foreignPlace() {
	_, err := w.Bare().Create(w.Path+"/_c_"+recipetest.CuratorUUID(0)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	w.ok(err)
}

func (w *world) kept(c *zkrecipes.Client) *zkrecipes.Mutex {
	return w.mutex(c, zkrecipes.KeepFor(recipetest.KeepFor))
}

func (w *world) delayed(c *zkrecipes.Client) *zkrecipes.Mutex {
	m := zkrecipes.NewMutex(c, "/delayed", zkrecipes.LockDelay(lockDelay))
	w.cycle(m)
	return m
}

var mutexOptionRows = []row{
	{"KeepFor: Lock and Release, the first time", func(w *world) func() {
		return func() { w.Keep(w.kept(w.c)) }
	}},
	{"KeepFor: Lock and Release, taken again", func(w *world) func() {
		m := w.kept(w.c)
		w.Keep(m)
		return func() { w.cycle(m) }
	}},
	{"KeepFor: TryLock and Release, taken again", func(w *world) func() {
		m := w.kept(w.c)
		w.Keep(m)
		return func() { w.release(recipetest.Held(w.t, m.TryLock)) }
	}},
	{"KeepFor: not used for that long", func(w *world) func() {
		w.Keep(w.kept(w.c))
		return func() { time.Sleep(recipetest.KeepFor + time.Second) }
	}},
	{"KeepFor: in use for longer, ten times as long", func(w *world) func() {
		m := w.kept(w.c)
		w.Keep(m)
		return func() {
			for range 20 {
				w.cycle(m)
				time.Sleep(recipetest.KeepFor / 2)
			}
		}
	}},
	{"KeepFor: Release with a waiter", func(w *world) func() {
		l := recipetest.LockOn(w.t, w.kept(w.c))
		a := w.waits(w.other)
		return func() { w.release(l); a.Get() }
	}},
	{"KeepFor: Release with a waiter, after a wait", func(w *world) func() {
		l := w.locks(w.other)
		a := w.Waits(w.kept(w.c))
		behind := w.waits(w.other)
		w.release(l)
		l = a.Get()
		return func() { w.release(l); behind.Get() }
	}},
	{"KeepFor: Release after a wait, nobody is left", func(w *world) func() {
		l := w.locks(w.other)
		a := w.Waits(w.kept(w.c))
		w.release(l)
		l = a.Get()
		return func() { w.release(l) }
	}},
	{"LockDelay: Lock and Release, free", func(w *world) func() {
		m := w.delayed(w.c)
		return func() { w.cycle(m) }
	}},
	{"LockDelay: Lock of a held lock", func(w *world) func() {
		m, other := w.delayed(w.c), w.delayed(w.other)
		recipetest.LockOn(w.t, other)
		return func() { w.Waits(m) }
	}},
	{"LockDelay: Release with a waiter, which is granted", func(w *world) func() {
		m, other := w.delayed(w.c), w.delayed(w.other)
		l := recipetest.LockOn(w.t, other)
		a := w.Waits(m)
		return func() { w.release(l); a.Get() }
	}},
}
