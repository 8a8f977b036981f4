package zkconn

import "sync"

// WatchSet collects watches as they fire. So a caller with a hundred thousand watches
// need not look at each of them to learn which has fired. The zero value is an empty set.
type WatchSet struct {
	mu    sync.Mutex
	fired []*Watch
	some  chan struct{} // closed while there are any; nil: nobody has asked
}

// Add puts w into the set once it fires, or now if it has fired.
func (set *WatchSet) Add(w *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.HasFired() {
		set.put(w)
		return
	}
	w.sets = append(w.sets, set)
}

func (set *WatchSet) put(w *Watch) {
	set.mu.Lock()
	defer set.mu.Unlock()
	if len(set.fired) == 0 && set.some != nil {
		close(set.some)
	}
	set.fired = append(set.fired, w)
}

// Take removes the watches that have fired, and returns them.
func (set *WatchSet) Take() []*Watch {
	set.mu.Lock()
	defer set.mu.Unlock()
	fired := set.fired
	if len(fired) > 0 {
		set.fired, set.some = nil, nil
	}
	return fired
}

// Some returns a channel that is closed once the set has a watch.
func (set *WatchSet) Some() <-chan struct{} {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.some == nil {
		set.some = make(chan struct{})
		if len(set.fired) > 0 {
			close(set.some)
		}
	}
	return set.some
}
