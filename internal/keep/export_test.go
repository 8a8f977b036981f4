package keep

import (
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// InUse returns how many locks of a Client are in use.
func InUse(c *session.Client) int {
	all := keptBy(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.locks)
}

// MutexOf returns the mutex of a lock that is in use.
func MutexOf(at session.At) *sync.Mutex { return &keptBy(at.Client).locks[at].mu }

// BeginLeave begins to leave an idle place. leave goes on.
func BeginLeave(at session.At) (leave func()) {
	k := keptBy(at.Client).locks[at]
	g := k.beginLeave(func(*hold.Grant) bool { return true })
	return func() { k.leave(g) }
}

// HoldUnchecked gives the idle place to a caller, whatever the clock says.
func HoldUnchecked(at session.At) *hold.Grant {
	k := keptBy(at.Client).locks[at]
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.current
	k.become(held, g)
	return g
}

// BeforePassOn calls f with the next grant of the place right before it is decided what becomes of
// that, when the lock, which is held, is released.
func BeforePassOn(at session.At, f func(next *hold.Grant)) {
	k := keptBy(at.Client).locks[at]
	k.mu.Lock()
	g := k.current
	k.mu.Unlock()
	g.KeepBy(interposed{k, f})
}

type interposed struct {
	*keptLock
	f func(next *hold.Grant)
}

func (i interposed) PassOn(g *hold.Grant) error {
	i.mu.Lock()
	next := i.current
	i.mu.Unlock()
	i.f(next)
	return i.keptLock.PassOn(g)
}
