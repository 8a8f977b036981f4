package sim

import "time"

// placeUses is what the workers of one process did with a place. A kept one is granted
// several times.
type placeUses struct {
	called int64 // when the first of them called Lock
	number int   // of the last grant and release, counted together
}

// beginUse notes a grant, and returns from when on it may have come, by logical time. A
// process can give a kept place to the next worker although the server has just deleted
// it, with a token that belongs before that moment.
func (w *lockWorld) beginUse(g *grant) (called int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.uses[g.place]
	if u == nil {
		u = &placeUses{called: g.called}
		w.uses[g.place] = u
	} else if g.lock.keepFor > 0 {
		w.events.add("kept lock taken again")
	}
	u.number++
	if w.forcedExpiry && g.lock.keepFor > 0 {
		return u.called
	}
	return g.called
}

// endUse notes a release, and checks that the place is not kept for too long. A client
// that is disconnected keeps it until it is connected again, or its session expires.
func (w *lockWorld) endUse(g *grant) {
	if g.lock.keepFor == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.uses[g.place]
	u.number++
	number := u.number
	time.AfterFunc(g.lock.keepFor+4*w.timeout, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case u.number != number:
		case w.observer.exists(g.place):
			w.log.violation("%s is kept for longer than %v", g.place, g.lock.keepFor)
		default:
			w.events.add("kept lock left")
		}
	})
}
