package queuelog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Config is what a Log needs of its owner.
type Config struct {
	Session  *zkconn.Session
	Tasks    *zkconn.Tasks
	Path     string // of the queue, absolute
	Receipts *Receipts
	// Marker is the data of the segments' parent. Known reports whether data found
	// there are of a layout that this version knows.
	Marker []byte
	Known  func(data []byte) bool
	// CheckParent returns an error if the data of the znode at Path say that it belongs to
	// somebody else. It is asked before the queue is made.
	CheckParent func(data []byte) error
}

// Log is what a session knows of one queue's segments, and the receipts that it has
// there. It is safe for concurrent use.
type Log struct {
	cfg     Config
	s       *zkconn.Session
	counter counter

	mu      sync.Mutex
	history int64      // of the session when the rest was read
	checked bool       // the layout is known here
	known   []segment  // segments that were listed, ascending; nil: not listed
	tail    tail       // the segment to append to
	free    []*Receipt // receipts that no transaction uses
	closed  bool
}

// segment is one that was listed, or that follows a sealed one. A queue that was
// deleted and made anew, as a whole or from some segment on, has other segments with
// the same numbers.
type segment struct {
	number  int64
	listed  int64 // pzxid of the segments' parent when it was listed
	guessed bool  // it follows a sealed one; nobody has seen it
	// czxid is the znode's, 0 if it was listed and has not been read. That of a guessed
	// one is known from the segment before, which was sealed by the same transaction.
	czxid int64
}

// New returns the Log of a queue. It sends nothing.
func New(cfg Config) *Log {
	return &Log{cfg: cfg, s: cfg.Session, counter: counter{items: map[*zkconn.Watch]int{}}}
}

// Close deletes the receipts of a Log that is no longer used, in the background.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.discardFree()
}

func (l *Log) root() string { return l.cfg.Path + RootName }

// RootName is what follows a queue's path in the path of the segments' parent.
const RootName = "/s"

// Segment returns the path of a segment.
func (l *Log) Segment(n int64) string { return l.root() + "/" + segmentName(n) }

// ErrStale is returned where the segments have changed; scan again.
var ErrStale = errors.New("segments have changed")

// learn lists the segments, unless they are known.
func (l *Log) learn(ctx context.Context) error {
	l.mu.Lock()
	l.noteHistory()
	known := len(l.known) > 0
	l.mu.Unlock()
	if known {
		return nil
	}
	ns, pzxid, err := l.list(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = make([]segment, len(ns))
	for i, n := range ns {
		l.known[i] = segment{number: n, listed: pzxid}
	}
	return nil
}

// noteHistory forgets everything in a new history: the servers may have lost transactions, so that
// segments are back, or gone. l.mu must be held.
func (l *Log) noteHistory() {
	if history := l.s.History(); history != l.history {
		l.history, l.checked, l.known, l.tail = history, false, nil, tail{}
	}
}

// forget has the layout checked and the segments listed again.
func (l *Log) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checked, l.known = false, nil
}

// after returns the first known segment after the nth.
func (l *Log) after(n int64) (seg segment, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(n + 1); i < len(l.known) {
		return l.known[i], true
	}
	return segment{}, false
}

// find returns where the nth segment is among the known ones, or would be; l.mu is
// held.
func (l *Log) find(n int64) int {
	i, _ := slices.BinarySearchFunc(l.known, n, func(seg segment, n int64) int { return cmp.Compare(seg.number, n) })
	return i
}

// saw notes the Stat of a known segment. It returns false if the segments must be looked
// at again: that one is not known any more, or it is another by the same number, and so
// there may be others before it.
func (l *Log) saw(n int64, stat *zk.Stat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.find(n)
	if i == len(l.known) || l.known[i].number != n {
		return false
	}
	seg := &l.known[i]
	if seg.czxid == 0 && stat.Czxid <= seg.listed {
		seg.czxid = stat.Czxid
	}
	if seg.czxid != stat.Czxid {
		l.checked, l.known = false, nil
		return false
	}
	if stat.Version > 0 && i == len(l.known)-1 {
		l.known = append(l.known, segment{number: n + 1, guessed: true, czxid: stat.Mzxid})
	}
	return true
}

// drop notes that the nth segment, with that czxid, is gone. Another by the same number may be
// known by now.
func (l *Log) drop(n, czxid int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(n); i < len(l.known) && l.known[i].number == n && l.known[i].czxid == czxid {
		l.known = slices.Delete(l.known, i, i+1)
	}
}

// List returns the numbers of the segments, ascending, and none where there is no
// queue. It makes nothing.
func (l *Log) List(ctx context.Context) ([]int64, error) {
	names, _, err := l.s.Children(ctx, l.root())
	if err != nil {
		return nil, goneIsNil(err)
	}
	return segmentNumbers(names), nil
}

// list lists the segments, ascending, and returns their parent's pzxid: the zxid at
// which one was created or deleted last. It makes the queue if there is none.
func (l *Log) list(ctx context.Context) (ns []int64, pzxid int64, err error) {
	for range zkconn.MaxTries {
		if err := l.check(ctx); err != nil {
			return nil, 0, err
		}
		names, stat, err := l.s.Children(ctx, l.root())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			l.forget()
			continue
		case err != nil:
			return nil, 0, err
		}
		if ns := segmentNumbers(names); len(ns) > 0 {
			return ns, stat.Pzxid, nil
		}
		if err := l.repair(ctx); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, zkconn.ErrContended
}

// check makes the queue if there is none, and refuses a layout that is not
// known here.
func (l *Log) check(ctx context.Context) error {
	l.mu.Lock()
	checked := l.checked
	l.mu.Unlock()
	for tries := 0; !checked; tries++ {
		data, stat, err := l.s.Get(ctx, l.root())
		switch {
		case errors.Is(err, zk.ErrNoNode) && tries < zkconn.MaxTries:
			if err := l.create(ctx); err != nil {
				return err
			}
		case err != nil:
			return err
		case stat.EphemeralOwner != 0:
			return zk.ErrNoChildrenForEphemerals
		case !l.cfg.Known(data):
			return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a version with another layout: %.40q", data)
		default:
			checked = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checked = true
	return nil
}

// create makes the parent of the segments together with the first of them, so that
// nobody ever finds it without one. It is no container: an empty queue stays.
func (l *Log) create(ctx context.Context) error {
	data, _, err := l.s.Get(ctx, l.cfg.Path)
	if err == nil {
		err = l.cfg.CheckParent(data)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) && !zkconn.Transient(err) {
		return err
	}
	for tries := 0; tries < zkconn.MaxTries; {
		acl := l.s.ACL()
		write := &zk.SetDataRequest{Path: l.root(), Data: l.cfg.Marker, Version: 0} // or nobody could
		o := l.s.Multi(ctx,
			&zk.CreateRequest{Path: l.root(), Data: l.cfg.Marker, Acl: acl}, write,
			&zk.CreateRequest{Path: l.Segment(0), Acl: acl})
		switch {
		case o.Applied():
			return nil
		case o.Transient(): // the next attempt shows whether it was created
		case o.Is(zk.ErrNodeExists):
			// Created by another client. This session's server may not show it yet.
			return l.s.Sync(ctx, l.root())
		case o.Is(zk.ErrNoNode):
			err := l.s.CreateContainer(ctx, l.cfg.Path, nil)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			tries++
		default:
			return o.Err()
		}
	}
	return zkconn.ErrContended
}

// repair makes a segment if there is none, or if the last one is sealed:
// somebody must have deleted what was there, or set data on the last one. It writes the
// parent's data as they are. Their version keeps two clients from doing so one after the
// other.
func (l *Log) repair(ctx context.Context) error {
	for {
		if err := l.s.Sync(ctx, l.root()); err != nil {
			return err
		}
		data, stat, err := l.s.Get(ctx, l.root())
		if err != nil {
			return goneIsNil(err)
		}
		n, sealed, err := l.lastAndItsSeal(ctx)
		if err != nil || sealed == 0 && n >= 0 { // it is open
			return goneIsNil(err)
		}
		ops := []any{&zk.SetDataRequest{Path: l.root(), Data: data, Version: stat.Version}}
		if n >= 0 {
			ops = append(ops, &zk.CheckVersionRequest{Path: l.Segment(n), Version: sealed})
			// Setting data fires no watch on children. A child that comes and goes wakes
			// consumers that sleep on a segment that they know as the open one.
			alarm := l.Segment(n) + "/sealed-" + NewMark()
			ops = append(ops, &zk.CreateRequest{Path: alarm, Acl: l.s.ACL()}, &zk.DeleteRequest{Path: alarm, Version: -1})
		}
		err = l.s.Multi(ctx, append(ops, &zk.CreateRequest{Path: l.Segment(n + 1), Acl: l.s.ACL()})...).Err()
		switch {
		case err == nil, errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists):
			return nil
		case !zkconn.Transient(err):
			return goneIsNil(err)
		}
	}
}

// lastAndItsSeal returns the last segment, -1 if there is none, and the version of its data,
// which is 0 while it is open. It must list again behind the read of a sealed one: when it
// was listed for the first time it may have been open, and the ones behind it may have
// come, and the first of them gone, since.
func (l *Log) lastAndItsSeal(ctx context.Context) (n int64, sealed int32, err error) {
	for n = -1; ; {
		names, _, err := l.s.Children(ctx, l.root())
		if err != nil {
			return 0, 0, err
		}
		ns := segmentNumbers(names)
		if len(ns) == 0 {
			return -1, 0, nil
		}
		last := ns[len(ns)-1]
		if last == n && sealed > 0 {
			return n, sealed, nil
		}
		_, stat, err := l.s.Get(ctx, l.Segment(last))
		if err != nil {
			return 0, 0, err
		}
		if n, sealed = last, stat.Version; sealed == 0 {
			return n, 0, nil
		}
	}
}

// goneIsNil is for reads of what others may delete: that is no error, and the
// caller reads again.
func goneIsNil(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
