package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How a participant ends: with an index, or without having been a member of a round
// that was opened. The latter must be so on the servers, too.

// finish ends the participation of the member p with an index, or for that reason.
func (a *participant) finish(p *line.Place, index int, why error) (int, error) {
	switch {
	case why == nil:
		a.leaveLater(p)
		return index, nil
	case why == ErrExcluded:
		a.exposure.CompareAndSwap(exposed, unexposed)
		select {
		case <-a.leave(p):
		case <-a.ctx.Done():
		}
		return 0, why
	case errors.Is(why, zkconn.ErrSessionOver):
		return a.outcomeAfterExpiry(p, a.Line.Client.Expired())
	case errs.IsContextErr(a.ctx, why):
	case errors.Is(why, zk.ErrNoNode), why == errNoRound:
		_, _, err := p.Session.Get(p.Session.Lifetime(), p.Path)
		switch {
		case err == nil:
			why = errNoReady
		case errors.Is(err, zk.ErrNoNode):
			if err := p.WhyGone(p.Session.Lifetime()); !errors.Is(err, zkconn.ErrSessionOver) {
				return a.outcomeAfterExpiry(p, err)
			}
			fallthrough
		case errors.Is(err, zkconn.ErrSessionOver):
			return a.outcomeAfterExpiry(p, a.Line.Client.Expired())
		default:
			why = err
		}
	}
	return a.withdraw(p, why)
}

// leaveLater lets the member leave when the others have probably been told, too. The leaves of
// the members that a server tells first would delay its events to the others. The next Wait
// sends the leave before its join, which otherwise would have to wait for this member.
func (a *participant) leaveLater(p *line.Place) {
	const each, most = 50 * time.Microsecond, 100 * time.Millisecond // that a server needs to tell a member, and all
	leave := sync.OnceFunc(func() { a.leave(p) })
	a.mu.Lock()
	a.leaves = append(a.leaves, leave)
	a.mu.Unlock()
	c := a.Line.Client
	c.Tasks.Start(func() {
		told := time.NewTimer(min(time.Duration(a.N)*each, most))
		defer told.Stop()
		select {
		case <-told.C:
		case <-c.Closing.Done():
		}
		leave()
	})
}

// leaveNow sends the leaves that leaveLater has put off.
func (b *Barrier) leaveNow() {
	b.mu.Lock()
	leaves := b.leaves
	b.leaves = nil
	b.mu.Unlock()
	for _, leave := range leaves {
		leave()
	}
}

// leave deletes the member in the background, and then closes the channel. A member that sees
// that it was the last deletes the round. While connected, leave sends the request before it
// returns. Otherwise the Barrier's next join could come first, and wait for this member.
func (a *participant) leave(p *line.Place) <-chan struct{} {
	round := &zk.SetDataRequest{Path: a.Round.Abs(), Data: []byte{}, Version: -1}
	t, err := p.Session.Start(&zk.DeleteRequest{Path: p.Path, Version: -1}, round)
	signal, gone := a.left, make(chan struct{})
	a.Line.Client.Tasks.Start(func() {
		defer close(gone)
		last := false
		if err == nil {
			o := t.Wait(p.Session.Lifetime())
			if err = o.Err(); err == nil {
				last = o.Stat(round).NumChildren == 1
			}
		}
		if err != nil { // then it is not known whether it was the last
			p.Withdraw()
		}
		if err != nil || last {
			// If it fails, the next to come deletes the round.
			_ = a.deleteRound(p.Session.Lifetime(), p.Session, 1, signal)
		}
	})
	return gone
}

// withdraw deletes a member that no longer waits, for that reason, unless the round is
// open. Then it must look whether the round names the member, while that still exists and
// keeps the round from being deleted.
func (a *participant) withdraw(p *line.Place, why error) (int, error) {
	member := &zk.DeleteRequest{Path: p.Path, Version: -1}
	notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}
	round := &zk.SetDataRequest{Path: a.Round.Abs(), Data: []byte{}, Version: -1}
	for repeated := false; ; {
		o := p.Session.Multi(p.Session.Lifetime(), member, notOpen, round)
		switch {
		case o.Applied():
			if o.Stat(round).NumChildren == 1 {
				// If it fails, the next to come uses the round.
				a.Line.Client.Tasks.Start(func() { _ = a.deleteRound(p.Session.Lifetime(), p.Session, 0, signalDown) })
			}
			return 0, why
		case o.Transient():
			repeated = repeated || !o.Unsent()
			continue
		case o.SessionOver():
			return a.outcomeAfterExpiry(p, why)
		case o.RefusedAt(member, zk.ErrNoNode):
			if !repeated { // else an earlier attempt was carried out, or somebody has deleted it all the same
				why = fmt.Errorf("%w: %w", why, errs.ErrEvicted)
			}
			return a.outcomeAfterExpiry(p, why)
		case o.RefusedAt(notOpen, zk.ErrBadVersion):
			return a.outcomeOfOpenRound(p, why)
		}
		a.Line.Client.Tasks.Start(p.Withdraw)
		return 0, uncertain(why, o.Err())
	}
}

// outcomeOfOpenRound is for a member that no longer waits, for that reason, and still
// exists: the round may have been opened with it.
func (a *participant) outcomeOfOpenRound(p *line.Place, why error) (int, error) {
	data, stat, err := p.Session.Get(p.Session.Lifetime(), a.Ready())
	if errors.Is(err, zkconn.ErrSessionOver) {
		return a.outcomeAfterExpiry(p, why)
	}
	index := 0
	if err == nil {
		index, err = a.judge(p, data, stat)
	}
	a.leave(p)
	switch {
	case err == nil:
		return index, nil
	case err == ErrExcluded, errors.Is(err, errs.ErrSize):
		return 0, why
	}
	return 0, uncertain(why, err)
}

// outcomeAfterExpiry finds out whether the round was opened with a member that is gone,
// for that reason, which is the outcome otherwise: it can never be from now on. It must
// not believe another round's ready.
func (a *participant) outcomeAfterExpiry(p *line.Place, why error) (int, error) {
	ctx, done := a.Line.Client.Bind(context.Background())
	defer done()
	for {
		s, err := a.Line.Client.Live(ctx)
		if err == nil {
			err = s.Sync(ctx, a.Ready())
		}
		var data []byte
		var stat *zk.Stat
		if err == nil {
			data, stat, err = s.Get(ctx, a.Ready())
		}
		if errors.Is(err, zkconn.ErrSessionOver) {
			continue
		}
		var index int
		if err == nil {
			index, err = a.judge(p, data, stat)
		}
		switch {
		case err == nil:
			return index, nil
		case err == errPending:
			a.deleteEmptyRound(s)
			return 0, why
		case err == ErrExcluded, errors.Is(err, errs.ErrSize):
			return 0, why
		}
		return 0, uncertain(why, err)
	}
}

// uncertain returns the error of a participant that cannot find out whether the round was
// opened with it.
func uncertain(why, err error) error {
	if errors.Is(err, why) || errors.Is(why, errNoReady) || errors.Is(why, ErrWritten) { // it says as much
		return fmt.Errorf("%w: %w", errs.ErrUncertain, why)
	}
	return fmt.Errorf("%w: %w: %w", errs.ErrUncertain, why, err)
}
