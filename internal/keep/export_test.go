package keep

import (
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// InUse returns how many locks of a Client are in use.
func InUse(c *session.Client) int { return len(keptBy(c).locks) }

// MutexOf returns the mutex of a lock that is in use.
func MutexOf(at session.At) *sync.Mutex { return &keptBy(at.Client).locks[at].mu }

// HoldUnchecked gives the idle place to a caller, whatever the clock says.
func HoldUnchecked(at session.At) *hold.Grant {
	k := keptBy(at.Client).locks[at]
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.current
	k.become(held, g)
	return g
}
