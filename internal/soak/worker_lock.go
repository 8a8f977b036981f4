package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/soak/judge"
)

// claim is what a Lease and an Item have in common.
type claim interface {
	Err() error
	ValidUntil() time.Time
	Token() zkrecipes.Token
}

// hold follows a grant, and reports at its end until when the worker could believe in it.
type hold struct {
	w     *worker
	claim claim
	event judge.Event
}

// granted reports a grant.
func (w *worker) granted(c claim, e judge.Event) *hold {
	e.Token, e.Kind, e.At = int64(c.Token()), judge.Granted, w.now()
	e.From, e.Until = e.At, e.At
	if server := w.server.Load(); server != nil {
		e.Server = *server
	}
	w.tell(e)
	return &hold{w, c, e}
}

// believe looks whether the grant is valid at this moment. The moment is read first: a
// process may be stopped in between.
func (h *hold) believe() {
	now := time.Now()
	if h.claim.ValidUntil().After(now) && h.claim.Err() == nil {
		h.event.Until = now.Sub(h.w.Start)
	}
}

// work takes some time, and looks now and then. Sometimes it takes long, so that faults
// find holders.
func (h *hold) work(ctx context.Context) {
	for range h.steps() {
		h.w.sleep(ctx, 0, 5*time.Millisecond)
		h.believe()
	}
}

func (h *hold) steps() int {
	if h.w.oneIn(50) {
		return 100
	}
	return 2
}

// over reports the end of the hold.
func (h *hold) over() {
	e := h.event
	e.Kind, e.At = judge.Held, 0
	h.w.tell(e)
}

// lock takes a lock, writes to its data in a fenced transaction, and releases it. With
// rw it sometimes goes on as a reader.
func (w *worker) lock(lock func(context.Context) (*zkrecipes.Lease, error), rw *zkrecipes.RWLock, key string) {
	e := judge.Event{Recipe: "lock", Key: key}
	if rw != nil {
		e.Recipe = "write"
	}
	l := w.acquire(lock, e)
	if l == nil {
		return
	}
	h := w.granted(l, e)
	h.work(w.ctx)
	w.commit(l, key)
	h.believe()
	if rw != nil && w.oneIn(5) {
		h = h.downgrade(rw, l)
	}
	w.check(key, l.Release())
	h.over()
	w.sleep(w.ctx, 0, 20*time.Millisecond)
}

// acquire takes a lock, sometimes for a short time only.
func (w *worker) acquire(lock func(context.Context) (*zkrecipes.Lease, error), e judge.Event) *zkrecipes.Lease {
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	if w.oneIn(20) {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rand.IntN(100))*time.Millisecond)
	}
	defer cancel()
	e.Kind = judge.Begin
	w.tell(e)
	l, err := lock(ctx)
	if err != nil {
		w.failed(e, err, context.DeadlineExceeded)
		return nil
	}
	return l
}

// commit writes to the lock's data, and reports which version it wrote over which.
func (w *worker) commit(l *zkrecipes.Lease, key string) {
	_, stat, err := l.Get(l.Context(w.ctx), dataOf(key))
	if err != nil {
		w.check(key, err)
		return
	}
	e := judge.Event{Kind: judge.Committed, Key: key, Token: int64(l.Token()), Was: stat.Version}
	results, err := l.Commit(w.ctx, zkrecipes.OpSet(dataOf(key), []byte(w.name), -1))
	switch {
	case err == nil:
		e.Zxid, e.Version = results[0].Stat.Mzxid, results[0].Stat.Version
		w.tell(e)
	case errors.Is(err, zkrecipes.ErrUncertain):
		e.Kind = judge.Doubted
		w.tell(e)
	default:
		w.check(key, err)
	}
}

// downgrade goes on as a reader.
func (h *hold) downgrade(rw *zkrecipes.RWLock, l *zkrecipes.Lease) *hold {
	if err := rw.Downgrade(h.w.ctx, l); err != nil {
		h.w.check(h.event.Key, err)
		return h
	}
	h.over()
	e := h.event
	e.Shared, e.From = true, h.w.now()
	e.Until = e.From
	reader := &hold{h.w, l, e}
	reader.work(h.w.ctx)
	return reader
}

// read takes the lock as a reader. Nobody may write as long as it holds.
func (w *worker) read(rw *zkrecipes.RWLock, key string) {
	e := judge.Event{Recipe: "read", Key: key, Shared: true}
	l := w.acquire(rw.RLock, e)
	if l == nil {
		return
	}
	h := w.granted(l, e)
	_, stat, err := l.Get(l.Context(w.ctx), dataOf(key))
	w.check(key, err)
	h.work(w.ctx)
	if err == nil {
		_, err = l.Commit(w.ctx, zkrecipes.OpCheck(dataOf(key), stat.Version))
		w.check(key, err) // BadVersion: somebody wrote
	}
	h.believe()
	w.check(key, l.Release())
	h.over()
	w.sleep(w.ctx, 0, 20*time.Millisecond)
}
