package zkrecipes

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/line"
)

// LockDelay, an option of NewMutex and NewElection, delays the next grant by d if the last
// holder went without a release: its session ended, or somebody deleted its znode. Use it where
// a lock protects something that can check neither a Token nor a Commit. A holder that was
// suspended then has d to notice that it has lost the lock, before anybody else holds it. It is
// no proof: a holder may be suspended for longer. A release delays nothing.
//
// d is counted from when the next in line sees that the holder has gone, or a newcomer to an
// empty line does. It waits as a waiter does: others queue behind it, and the Trace says that it
// is queued. If it gives up, or its session ends, the next one waits for d anew. TryLock does
// not wait. It returns ErrLocked until d after this Client has first seen it, if nobody joins
// meanwhile. So a program that calls TryLock once in the life of its Client should call Lock.
// d must be positive, and LockDelay must be given once: otherwise the first use returns an error.
//
// What to know:
//   - All clients of a path must use LockDelay. A release by one that does not, or by another
//     library's client, delays the next grant, and such clients do not wait.
//   - A grant can be delayed although the last holder has released: if a waiter gave up or died
//     at about the same time, or if the reply to the join was lost.
//   - The path is created as a persistent znode, and neither the client nor the servers delete
//     it. If somebody does, or if it is an older client's container and the servers reap it,
//     it is forgotten that the last holder died.
//   - Lock and TryLock return ErrPathInUse if the path holds other data.
//   - Contenders shows a waiter in the delay as Held. Reentrant calls are not delayed.
//
// Cost: one small read with each join, in the same round trip. In a long line, a TryLock and
// most joins list the line.
func LockDelay(d time.Duration) MutexOption { return MutexOption{delays: true, delay: d} }

// delayLine sets the delay of the options in l. It returns why they are invalid.
func delayLine(l *line.Line, opts []MutexOption) error {
	for _, opt := range opts {
		switch {
		case !opt.delays:
			continue
		case opt.delay <= 0:
			return fmt.Errorf("LockDelay(%v): not positive", opt.delay)
		case l.Delay > 0:
			return errors.New("LockDelay is given more than once")
		}
		l.Delay, l.Writes = opt.delay, true
	}
	return nil
}
