package barrier

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How a member waits until its round is open.

// await waits until the round is opened with the member p, or can never be.
func (a *participant) await(p *line.Place) (int, error) {
	a.long, a.left = false, signalRaised
	// Of n members that are there, the last to come has seen n. So one of them has seen n,
	// even if others die.
	if p.LineCount < 0 || p.LineCount-1 >= a.N { // ready is no member
		names, err := a.open(p)
		if err == nil && names != nil {
			index, _, err := IndexIn(names, p.Number)
			return a.finish(p, index, err)
		}
		if err != nil {
			return a.finish(p, 0, err)
		}
	}
	late := time.NewTimer(p.Session.Timeout() / 10)
	defer late.Stop()
	for {
		if index, err := a.awaitOpening(p, late.C); err != errPending {
			return a.finish(p, index, err)
		}
	}
}

// awaitOpening waits until the round is opened, and returns the member's index, or
// errPending if it was woken by something else.
func (a *participant) awaitOpening(p *line.Place, late <-chan time.Time) (int, error) {
	w, err := a.watchSignal(p)
	if err == nil && w == nil {
		a.left = noSignal
		if w, err = a.watchReady(p.Session); err == nil {
			if index, err := a.judge(p, w.Data, &w.Stat); err != errPending {
				return index, err
			}
		}
	}
	if err != nil {
		return 0, err
	}
	if !isRaised(w) {
		err = a.awaitWake(p, w, late)
	}
	if isRaised(w) { // whatever else has happened
		return a.indexBySignal(p), nil
	}
	if err != nil {
		return 0, err
	}
	// Read without a watch, because mostly there is nothing more to wait for.
	a.left = noSignal
	data, stat, err := p.Session.Get(p.Session.Lifetime(), a.Ready())
	if err != nil {
		return 0, err
	}
	return a.judge(p, data, stat)
}

// awaitWake waits until the watch fires, which is on the signal or on ready. Once the wait
// has lasted for a while, it watches the member and ready too, which others may have
// deleted or written: short waits do not pay for that. zk.ErrNoNode: one was deleted.
func (a *participant) awaitWake(p *line.Place, w *zkconn.Watch, late <-chan time.Time) (err error) {
	for {
		var ready *zkconn.Watch
		if a.long {
			if p.Own, err = p.Session.Watch(a.ctx, p.Path); err != nil {
				return err
			}
			if ready, err = a.watchReady(p.Session); err != nil {
				return err
			}
			if _, err := a.judge(p, ready.Data, &ready.Stat); err != errPending {
				return nil
			}
		}
		select {
		case <-w.Fired():
			return nil
		case <-ready.Fired():
			return nil
		case <-p.Own.Fired(): // which a search for the reply to the join may have set
			a.long = true
		case <-late:
			a.long = true
			if err := a.checkSizeAgain(p.Session); err != nil {
				return err
			}
		case <-p.Session.Over():
			return zkconn.ErrSessionOver
		case <-a.ctx.Done():
			return p.Session.ContextErr(a.ctx)
		}
	}
}

// checkSizeAgain reads n: if all others wait for another n, nobody opens this round. If n
// cannot be read, or is not there, that is for the member that opens.
func (a *participant) checkSizeAgain(s *session.Session) error {
	data, stat, err := s.Get(a.ctx, a.Line.Abs())
	if err == nil && len(data) > 0 {
		_, err = a.agree(a.ctx, s, data, stat)
		return err
	}
	return nil
}

// watchReady returns a watch on ready that was answered after this member came. A watch
// that others share may have been set before.
func (a *participant) watchReady(s *session.Session) (*zkconn.Watch, error) {
	for again := false; ; again = true {
		w, err := s.Watch(s.Lifetime(), a.Ready())
		switch {
		case err == nil && w.HasFired(), errors.Is(err, zk.ErrNoNode) && !again:
			continue
		}
		return w, err
	}
}

// judge returns the member's index, or why it has none. It compares ready with the czxid
// of the member's own round, because another round may have its name. If there is another
// number of names, they are those of members that wait for another n.
func (a *participant) judge(p *line.Place, data []byte, stat *zk.Stat) (int, error) {
	switch {
	case stat.Czxid != p.LineCzxid:
		return 0, errNoRound
	case len(data) == 0 && stat.Version == 0:
		return 0, errPending
	case len(data) == 0: // it can never be opened
		return 0, fmt.Errorf("%w: it is empty", ErrWritten)
	}
	index, n, err := IndexIn(data, p.Number)
	if n > 0 && n != a.N {
		return 0, layout.WrongSize(a.Line.Recipe, "members", n, a.N)
	}
	return index, err
}
