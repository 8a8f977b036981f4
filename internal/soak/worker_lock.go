package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// claim is what a Lease and an Item have in common.
type claim interface {
	Err() error
	ValidUntil() time.Time
	Token() zkrecipes.Token
}

// fenced is what a Lease, a SlotLease and a Term have in common.
type fenced interface {
	claim
	Context(parent context.Context) context.Context
	Get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	Commit(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error)
}

// restMost is how long a worker rests at most after a hold.
const restMost = 20 * time.Millisecond

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
	l := acquire(w.ctx, w, lock, e)
	if l == nil {
		return
	}
	h := w.granted(l, e)
	h.work(w.ctx)
	wrote, read, known := w.commit(l, key)
	h.believe()
	if rw != nil && w.oneIn(5) {
		h = h.downgrade(l)
		if known && h.event.Shared {
			h.unwritten(l, wrote, read)
		}
	}
	w.check(key, l.Release())
	h.over()
	w.sleep(w.ctx, 0, restMost)
}

// churn takes one of many locks, which are mostly free, and releases it at once. So each
// session's places, and whatever belongs to them, come and go as often as possible.
func (w *worker) churn() {
	e := judge.Event{Recipe: "lock", Key: churnKey(w.rand.IntN(churned))}
	l := acquire(w.ctx, w, zkrecipes.NewMutex(w.client, e.Key).Lock, e)
	if l == nil {
		return
	}
	h := w.granted(l, e)
	h.believe()
	w.check(e.Key, l.Release())
	h.over()
}

// acquire calls lock, sometimes for a short time only. It returns nil if that fails.
func acquire[L any](ctx context.Context, w *worker, lock func(context.Context) (*L, error), e judge.Event) *L {
	cancel := context.CancelFunc(func() {})
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

// commit writes to the data of what is held, and reports which version it wrote over which.
// It returns the first version, if the servers told, and when it read what that replaced.
func (w *worker) commit(l fenced, keys ...string) (version int32, read time.Duration, known bool) {
	var events []judge.Event
	var ops []zkrecipes.Op
	for _, key := range keys {
		read := w.now()
		_, stat, err := l.Get(l.Context(w.ctx), dataOf(key))
		if err != nil {
			w.check(key, err)
			return 0, 0, false
		}
		events = append(events, judge.Event{Kind: judge.Committed, Key: key, Token: int64(l.Token()), From: read, Was: stat.Version})
		ops = append(ops, zkrecipes.OpSet(dataOf(key), []byte(w.name), -1))
	}
	results, err := l.Commit(w.ctx, ops...)
	if err != nil && !errors.Is(err, zkrecipes.ErrUncertain) {
		w.check(keys[0], err)
		return 0, 0, false
	}
	for i, e := range events {
		if err != nil {
			e.Kind = judge.Doubted
		} else {
			e.Zxid, e.Version = results[i].Stat.Mzxid, results[i].Stat.Version
			version, read, known = results[0].Stat.Version, e.From, true
		}
		w.tell(e)
	}
	return version, read, known
}

// downgrade goes on as a reader. It claims to have read from the last moment on in which it
// could believe that it wrote, so that the judge finds a writer in between.
func (h *hold) downgrade(l *zkrecipes.Lease) *hold {
	call := judge.Event{Recipe: judge.RecipeDowngrade, Key: h.event.Key + judge.DowngradeSuffix}
	if !h.w.attempt(call, func(*judge.Event) error { return l.Downgrade(h.w.ctx) }) {
		return h
	}
	h.over()
	e := h.event
	e.Shared, e.From = true, e.Until
	reader := &hold{h.w, l, e}
	reader.work(h.w.ctx)
	return reader
}

// unwritten proves that nobody has written since the holder did, as a writer. Only the lease
// makes the proof: a holder that has lost it gets ErrLost.
func (h *hold) unwritten(l *zkrecipes.Lease, wrote int32, at time.Duration) {
	key := h.event.Key
	e := judge.Event{Kind: judge.Downgraded, Key: key, Token: h.event.Token, From: at, Was: wrote, Version: wrote}
	_, err := l.Commit(h.w.ctx, zkrecipes.OpCheck(dataOf(key), wrote))
	if errors.Is(err, zk.ErrBadVersion) {
		var stat *zk.Stat
		if _, stat, err = l.Get(h.w.ctx, dataOf(key)); err == nil {
			e.Version = stat.Version
		}
	}
	if err != nil {
		h.w.check(key, err)
		return
	}
	h.w.tell(e)
}

// read takes the lock as a reader. Nobody may write as long as it holds.
func (w *worker) read(rw *zkrecipes.RWLock, key string) {
	e := judge.Event{Recipe: "read", Key: key, Shared: true}
	l := acquire(w.ctx, w, rw.RLock, e)
	if l == nil {
		return
	}
	h := w.granted(l, e)
	read := w.now()
	_, stat, err := l.Get(l.Context(w.ctx), dataOf(key))
	w.check(key, err)
	h.work(w.ctx)
	if err == nil {
		_, err = l.Commit(w.ctx, zkrecipes.OpCheck(dataOf(key), stat.Version))
		w.checkSince(read, key, err) // BadVersion: somebody wrote
	}
	h.believe()
	w.check(key, l.Release())
	h.over()
	w.sleep(w.ctx, 0, restMost)
}
