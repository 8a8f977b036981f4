package zkconn

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// An ensemble that has lost transactions: see wire/epoch.go. Whenever the session is resumed, its
// znodes are compared with its account. Those that it does not know were deleted once, and are
// deleted again: otherwise they would stand for as long as the session lives. If the servers may
// have lost transactions, those that are missing are as good as deleted by somebody else.

// onEphemerals is called by internal/wire, in the order of the replies, and before requests
// pass if the session has watches, or leases.
func (s *Session) onEphemerals(paths []string, mayHaveLost bool) {
	missing, strange, doubt := s.account.compare(paths, 0)
	lost := 0
	switch {
	case mayHaveLost:
		lost = s.beginHistory(missing)
	case len(strange) == 0: // the replies to their deletions were lost
		for _, path := range missing {
			s.account.deleted(path)
		}
	}
	if len(strange) > 0 || mayHaveLost && doubt {
		s.cfg.Tasks.Start(func() { s.deleteReturned(mayHaveLost, lost) })
	}
}

// beginHistory takes the znodes that are missing for lost, and has all be read again that may have
// gone back. It returns how many are lost that were not before: the next connection may show once
// more what is back, and no longer what is missing.
func (s *Session) beginHistory(missing []string) (lost int) {
	s.mu.Lock()
	for _, path := range slices.Concat(missing, s.mayBeLost) {
		if !s.lost[path] {
			s.lost[path] = true
			lost++
		}
	}
	s.mayBeLost = nil
	watches := slices.Collect(maps.Values(s.watches))
	close(s.newHistory)
	s.newHistory = make(chan struct{})
	s.mu.Unlock()
	for _, path := range missing {
		s.onEvent(wire.Event{Type: jute.EventDeleted, Path: path})
	}
	s.cfg.Tasks.Start(func() { s.recheck(watches) })
	return lost
}

// History returns a number that grows whenever the servers may have lost transactions: what was
// read in an earlier history may not be so any more. It is noted before a reply is passed on.
func (s *Session) History() int64 { return s.wire.History() }

// Losses is for the Config of the next session.
func (s *Session) Losses() int64 { return s.wire.Losses() }

// NewHistory returns a channel that is closed when the servers may have lost transactions.
func (s *Session) NewHistory() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newHistory
}

// WasLost reports whether the znode of the session at that path, which is gone, was found
// missing when a history began: the servers have lost it, or somebody has deleted it while there
// was no connection. Of a path that is used once, that is.
func (s *Session) WasLost(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[path]
}

// noteRearmed notes that the first events on a connection say that a znode is gone.
func (s *Session) noteRearmed(path string) {
	if !s.account.knows(path) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mayBeLost = append(s.mayBeLost, path)
}

// deleteReturned deletes znodes that the session does not know, until there are none. It asks
// again, behind a sync, before it deletes any: that a znode is gone may have been learned of by
// an event, which does not keep a server that lags from showing it.
//
// No other session has them: nearly all have names that no other session uses. The others go
// in one transaction with those with which they came.
//
// begun: it was known before that the servers may have lost transactions, and that so many
// znodes are lost.
func (s *Session) deleteReturned(begun bool, lost int) {
	told, absent := false, map[string]bool{}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, s.Timeout()) {
		on, _ := s.Connection()
		missing, strange, doubt, err := s.strangeZnodes(0)
		switch {
		case Transient(err):
			continue
		case err != nil: // the session is over, or the servers do not know the request
			return
		case len(strange) == 0 && !doubt:
			return
		case len(strange) > 0 && !told:
			told = true
			if !begun {
				s.wire.NoteLoss()
				lost = s.beginHistory(missing)
			}
			s.cfg.RolledBack(strange, lost)
		}
		s.deleteTogether(on, strange, absent)
		select {
		case <-time.After(wait):
		case <-s.over:
			return
		}
	}
}

// strangeZnodes asks the leader for the session's znodes, and compares them with the account. The
// sync and the question go over one connection: the next one may lead to a server that lags.
// What was begun until that create, and is not there, counts no more.
func (s *Session) strangeZnodes(until int64) (missing, strange []string, doubt bool, err error) {
	ctx := s.UntilAnswered()
	if err := s.Ready(ctx); err != nil {
		return nil, nil, false, err
	}
	sync := jute.AppendString(make([]byte, wire.Headroom), "/")
	ask := jute.AppendString(make([]byte, wire.Headroom), "/")
	nc, err := s.passing(sync, ask)
	if err != nil {
		return nil, nil, false, err
	}
	first, second := nc.CallBoth(jute.OpSync, sync, jute.OpGetEphemerals, ask, func(sync, call *wire.Call) {
		code, record, err := call.Result()
		if err != nil || code != 0 { // the first may not have ended yet
			return
		}
		if synced, _, _ := sync.Result(); synced == 0 {
			missing, strange, doubt = s.account.compare(jute.NewDecoder(record).Strings(), until)
		}
	})
	<-second.Done()
	err = (&Reading{call: second}).result(func(d *jute.Decoder) { d.Strings() })
	if err == nil { // if the second has a reply, so has the first
		err = (&Reading{call: first}).result(func(d *jute.Decoder) { _ = d.String() })
	}
	if Transient(err) && s.IsOver() {
		err = ErrSessionOver
	}
	s.backOff(ctx, jute.OpGetEphemerals, err)
	return missing, strange, doubt, err
}

// deleteTogether deletes znodes, those with neighbouring paths in one transaction: a recipe's
// znodes that came together then go together, so that no other client finds a part of them. If one of
// them has gone since the comparison, another client may have made the others anew. Then none of
// them is deleted, nor if the session creates one again, nor on a later connection than that of the
// comparison: the next one tells. What a server lists although the leader lacks it is absent, and
// goes alone.
func (s *Session) deleteTogether(on uint64, paths []string, absent map[string]bool) {
	start := func(deletes ...any) (*Transaction, error) {
		again := func(op any) bool { return s.account.counts(op.(*zk.DeleteRequest).Path) }
		if now, _ := s.Connection(); now != on || slices.ContainsFunc(deletes, again) {
			return nil, zk.ErrConnectionClosed
		}
		return s.Start(deletes...)
	}
	slices.Sort(paths)
	var together, alone []string
	for _, path := range paths {
		if absent[path] {
			alone = append(alone, path)
		} else {
			together = append(together, path)
		}
	}
	for batch := range slices.Chunk(together, 100) {
		var deletes []any
		for _, path := range batch {
			deletes = append(deletes, &zk.DeleteRequest{Path: path, Version: -1})
		}
		o := s.MultiBy(s.UntilAnswered(), start, deletes...)
		if i := o.IndexIn(deletes); i >= 0 && o.Is(zk.ErrNoNode) {
			absent[batch[i]] = true
		} else if o.Refused() || o.Is(ErrTooLarge) {
			AtATime(len(deletes), func(i int) { s.MultiBy(s.UntilAnswered(), start, deletes[i]) })
		}
	}
	for _, path := range alone {
		s.MultiBy(s.UntilAnswered(), start, &zk.DeleteRequest{Path: path, Version: -1})
	}
}

// recheck has the watches fire whose znodes are not as they were told. The servers compare
// zxids when watches are set again: they report what is newer than what the client has seen,
// and not what is older.
func (s *Session) recheck(watches []*Watch) {
	var changeable []*Watch
	for _, w := range watches {
		select {
		case <-w.armed:
		default: // it is being set, and so will tell what is
			continue
		}
		switch {
		case w.err != nil || w.HasFired():
		case w.volatile.Load():
			s.fireAnew(w)
		case w.mayGoBack():
			changeable = append(changeable, w)
		}
	}
	AtATime(len(changeable), func(i int) {
		w := changeable[i]
		stat, err := s.Exists(s.UntilAnswered(), w.key.path)
		if errors.Is(err, zk.ErrNoNode) || err == nil && w.wentBack(stat) {
			s.fireAnew(w)
		}
	})
}

// fireAnew fires a watch whose znode may have changed in any way. The next one shares its watch on the
// server.
func (s *Session) fireAnew(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[w.key] == w {
		delete(s.watches, w.key)
		w.fire(wire.Event{Path: w.key.path})
	}
}

// mayGoBack reports whether the znode can be in an earlier state without being gone. An
// ephemeral one that was never written is there, or it is not. That another had its name before is left
// to FireInNewHistory.
func (w *Watch) mayGoBack() bool {
	return !w.Absent && (w.key.kind == ofChildren || w.Stat.EphemeralOwner == 0 || w.Stat.Version > 0)
}

// wentBack reports whether the znode, which has that Stat, is another than was told.
func (w *Watch) wentBack(now *zk.Stat) bool {
	if now.Czxid != w.Stat.Czxid {
		return true
	}
	if w.key.kind == ofChildren {
		return now.Pzxid != w.Stat.Pzxid
	}
	return now.Mzxid != w.Stat.Mzxid
}

// FireInNewHistory has the watch fire when a new history begins, whatever has become of its znode:
// the caller has to look at more than that.
func (w *Watch) FireInNewHistory() { w.volatile.Store(true) }

// compare compares the account with a list of the session's znodes, in the order of the
// replies: all that was sent before on this connection has been settled, and nothing that was
// sent later is in the list. missing exist no more, although a server has said that they do.
// strange should not exist. doubt: what may have created a znode in the list is under way.
//
// The list was asked for behind a sync when that many creates had begun, 0 if it was not.
func (a *account) compare(listed []string, begun int64) (missing, strange []string, doubt bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	there := make(map[znodeKey]bool, len(listed))
	for _, path := range listed {
		there[znodeKey{path: path}] = true
		switch k, ok := a.at(path); {
		case !ok:
			strange = append(strange, path)
		case a.znodes[k].doubtful > 0:
			a.found(path)
		case !a.znodes[k].known:
			doubt = true
		}
	}
	for k, z := range a.znodes {
		if there[k] || z.underWay > 0 {
			continue
		}
		if z.known {
			missing = append(missing, k.path)
		}
		if z.begun <= begun {
			a.set(k, znode{})
		}
	}
	return missing, strange, doubt
}

// counts reports whether a znode with that path exists, or may.
func (a *account) counts(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.at(path)
	return ok
}

// knows reports whether a server has said that a znode with that path exists.
func (a *account) knows(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.znodes[znodeKey{path: path}].known
}
