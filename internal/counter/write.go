package counter

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// writers are those of a Client, by path. Its lock comes before theirs.
type writers struct {
	mu  sync.Mutex
	all map[string]*writer
}

func writersOf(c *session.Client) *writers {
	return session.Attached(c, func() *writers { return &writers{all: map[string]*writer{}} })
}

// writer writes for all calls of a Client on one path, one write at a time. Its goroutine ends
// when there has been no call for a while.
type writer struct {
	*Counter
	wake chan struct{}

	mu      sync.Mutex
	waiting []*call

	// The fields below belong to the goroutine.

	base base
	// log is that of the receipts, and in the session whose it is.
	log *queuelog.Log
	in  *session.Session
	// crowd is when others last were quicker.
	crowd time.Time
}

// base is what a write rests on.
type base struct {
	on      session.Connection
	value   int64
	version int32
	known   bool
	// keep: others have made the znode, and may have made it a container.
	keep bool
}

// add has a call carried out by the writer of the counter's path.
func (ws *writers) add(x *Counter, one *call) *writer {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[x.at.Path]
	if w == nil {
		w = &writer{Counter: x, wake: make(chan struct{}, 1)}
		ws.all[x.at.Path] = w
		x.at.Client.Tasks.Start(w.run)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, one)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return w
}

// end ends the writer, unless a call waits.
func (w *writer) end() bool {
	ws := writersOf(w.at.Client)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.hasCalls() {
		return false
	}
	delete(ws.all, w.at.Path)
	return true
}

func (w *writer) hasCalls() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting) > 0
}

// leave is for a caller that waits no more. taken: its change may be carried out. ended: it
// was carried out or refused before.
func (w *writer) leave(one *call) (taken, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-one.done:
		return one.taken, true
	default:
	}
	one.left = true
	w.waiting = slices.DeleteFunc(w.waiting, func(other *call) bool { return other == one })
	return one.taken, false
}

// takeAll takes the calls that wait.
func (w *writer) takeAll() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.waiting
	w.waiting = nil
	for _, one := range batch {
		one.taken = true
	}
	return batch
}

// putBack has calls wait again, before those that came meanwhile. Their callers may have left.
func (w *writer) putBack(batch []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch = slices.DeleteFunc(batch, func(one *call) bool { return one.left })
	for _, one := range batch {
		one.taken = false
	}
	w.waiting = append(batch, w.waiting...)
}

// settle ends calls. nil: as apply has found.
func (w *writer) settle(batch []*call, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range batch {
		if err != nil {
			one.value, one.err = 0, err
		}
		close(one.done)
	}
}

// run carries out what waits, until nothing has for a while.
func (w *writer) run() {
	ctx, done := w.at.Client.Bind(context.Background())
	defer done()
	for w.await(ctx) {
		if err := w.write(ctx); err != nil {
			w.settle(w.takeAll(), err)
		}
	}
	if w.log != nil {
		w.log.Close()
	}
}

// await returns true once a call waits, and false once the writer has ended. It keeps the
// receipt, and what it knows, for as long as the Client keeps lines that it does not use.
func (w *writer) await(ctx context.Context) bool {
	timer := time.NewTimer(w.at.Client.Idle)
	defer timer.Stop()
	for !w.hasCalls() {
		select {
		case <-w.wake:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		if w.end() {
			return false
		}
	}
	return true
}

// errLeft has a place deleted whose turn has ended without a write that deletes it.
var errLeft = errors.New("the turn has ended")

// errCrowded is returned where others were quicker again and again.
var errCrowded = errors.New("others write, too")

// write carries out what waits by one write: at once, or at its turn in the line if others
// write, too.
func (w *writer) write(ctx context.Context) error {
	err := errCrowded
	if time.Since(w.crowd) >= crowded {
		err = w.at.Client.InSessions(ctx, func(s *session.Session) error { return w.writeIn(ctx, s, nil) })
	}
	if err == errCrowded {
		err = w.line.InTurn(ctx, layout.KindLock, func(p *line.Place) error { return w.writeAtTurn(ctx, p) })
	}
	if err == errLeft {
		return nil
	}
	return err
}

// writeAtTurn is writeIn at the turn of a place in the line.
func (w *writer) writeAtTurn(ctx context.Context, p *line.Place) error {
	w.crowd = time.Now()
	if p.LineCount == 1 {
		w.crowd = time.Time{}
	}
	w.base.known = false // others have written
	return w.writeIn(ctx, p.Session, p)
}

// maxLost is after how many lost races a writer waits for its turn.
const maxLost = 3

// writeIn writes in one session, because the receipt ends with it. p is the place in the line
// whose turn it is, nil if the writer did not wait for one.
func (w *writer) writeIn(ctx context.Context, s *session.Session, p *line.Place) error {
	var leave line.Deletion
	if p != nil {
		leave = p.Deletion(true)
	}
	for lost := 0; ; {
		if err := w.read(ctx, s); err != nil {
			return err
		}
		batch, value, err := w.choose(ctx, s)
		if err != nil || len(batch) == 0 {
			return cmp.Or(err, errLeft)
		}
		set := &zk.SetDataRequest{Path: w.at.Abs(), Data: []byte(strconv.FormatInt(value, 10)), Version: w.base.version}
		keep := w.keepOps(s)
		o := w.logIn(s).Transact(ctx, "counter", errs.ErrUncertain, slices.Concat([]any{set}, keep, leave.Ops))
		switch {
		case o.Applied():
			w.base = base{on: w.base.on, known: o.HasResults(), value: value}
			if o.HasResults() {
				w.base.version = o.Stat(set).Version
			}
			w.settle(batch, nil)
			return nil
		case o.Is(errs.ErrUncertain):
			w.base.known = false
			w.settle(batch, o.Err())
			return errLeft
		}
		w.putBack(batch)
		switch {
		case o.RefusedAt(set, zk.ErrBadVersion, zk.ErrNoNode), o.RefusedIn(keep, zk.ErrNodeExists), o.Is(zkconn.ErrContended):
			w.base.known = false
			if lost++; p == nil && lost == maxLost {
				w.crowd = time.Now()
				return errCrowded
			}
			err = s.Sync(ctx, w.at.Abs()) // the server may lag
		case p != nil:
			leave, err = p.DeletionAgain(ctx, leave, o)
		default:
			err = o.Err()
		}
		if err != nil {
			return err
		}
	}
}

// read reads the value, unless it is known, and creates the znode if there is none.
func (w *writer) read(ctx context.Context, s *session.Session) error {
	if w.base.on != s.On() || w.base.version == -1 { // which stands for any, in a request
		w.base.known = false
	}
	for range zkconn.MaxTries {
		if w.base.known {
			return nil
		}
		on := s.On()
		data, stat, err := s.Get(ctx, w.at.Abs())
		if errors.Is(err, zk.ErrNoNode) {
			if err = w.create(ctx, s); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		b := base{on: on, version: stat.Version, known: true}
		if b.value, err = w.parse(ctx, s, data, stat); err != nil {
			return err
		}
		if stat.Version == -1 {
			return zkconn.Errorf(errs.ErrExhausted, "the version of the data is -1: write them by hand, and so raise it")
		}
		if len(data) == 0 {
			_, err = s.Exists(ctx, w.keepPath())
			if b.keep = errors.Is(err, zk.ErrNoNode); err != nil && !b.keep {
				return err
			}
		}
		w.base = b
	}
	if w.base.known {
		return nil
	}
	return zkconn.ErrContended
}

// create creates the znode, with 0. It stays when it is idle.
func (w *writer) create(ctx context.Context, s *session.Session) error {
	o := s.Retry(nil, []any{&zk.CreateRequest{Path: w.at.Abs(), Data: []byte("0"), Acl: s.Client.ACL}}).Wait(ctx)
	switch parent := zkconn.Parent(w.at.Abs()); {
	case o.Is(zk.ErrNoNode) && parent != "":
		err := s.CreateContainer(ctx, parent, nil)
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	case o.Applied(), o.Is(zk.ErrNodeExists):
		return nil
	}
	return o.Err()
}

func (w *writer) keepPath() string { return w.at.Abs() + "/counter" }

// keepOps keep a znode that others have made, and that may be a container, from being deleted.
func (w *writer) keepOps(s *session.Session) []any {
	if !w.base.keep {
		return nil
	}
	return []any{&zk.CreateRequest{Path: w.keepPath(), Data: []byte{}, Acl: s.ACL()}}
}

// choose takes the calls that wait, and returns those of which at least one changes the value,
// and the value after them. The others it settles: there is nothing to write.
func (w *writer) choose(ctx context.Context, s *session.Session) (batch []*call, value int64, err error) {
	batch = w.takeAll()
	value, changes := w.apply(batch)
	if changes || len(batch) == 0 {
		return batch, value, nil
	}
	// A write would prove that the value was not old. So read it again after the calls began.
	w.base.known = false
	if err = s.Sync(ctx, w.at.Abs()); err == nil {
		err = w.read(ctx, s)
	}
	if err != nil {
		w.putBack(batch)
		return nil, 0, err
	}
	if value, changes = w.apply(batch); !changes {
		w.settle(batch, nil)
		return nil, 0, nil
	}
	return batch, value, nil
}

// apply returns the value after the calls' changes, and notes with each call what becomes of
// it. changes: there is one that was not refused.
func (w *writer) apply(batch []*call) (value int64, changes bool) {
	value = w.base.value
	for _, one := range batch {
		one.value, one.err = one.change(value)
		if one.err == nil {
			value, changes = one.value, true
		}
	}
	return value, changes
}

// logIn returns what makes receipts in the session.
func (w *writer) logIn(s *session.Session) *queuelog.Log {
	if w.in != s {
		w.in, w.log = s, queue.NewQueueLog(s, w.at.Abs())
	}
	return w.log
}
