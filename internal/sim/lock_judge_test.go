package sim

import "strings"

// checkGranted checks that a granted place was the first of its line at some moment,
// or a reader's with no writer ahead. It goes by the order of the server's changes,
// so that no clock is involved.
func (w *lockWorld) checkGranted(worker int, place string, reads bool) {
	s, ok := parsePlace(place[strings.LastIndexByte(place, '/')+1:])
	w.observer.mu.Lock()
	turn := w.observer.mayHold[place]
	w.observer.mu.Unlock()
	switch {
	case !ok || s.reader != reads:
		w.log.violation("worker %d was granted %s, a place of another kind", worker, place)
	case !turn:
		w.log.violation("worker %d was granted %s, which could never hold", worker, place)
	case w.isBeyondLimit(s.number):
		w.log.violation("worker %d was granted %s, a number beyond the limit", worker, place)
	}
}

// checkNotDeleted checks that a lease ends by a deletion only in worlds that have an
// operator to delete places, or in which the server may expire the session of a live
// client: that client may see the deletion before the expiry.
func (w *lockWorld) checkNotDeleted(err error) {
	switch {
	case err == nil || !strings.Contains(err.Error(), textDeleted):
	case w.forcedExpiry:
		w.events.add("lease ended by a deletion")
	default:
		w.log.violation("a place was deleted, and here no operator deletes places: %v", err)
	}
}
