package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/semaphore"
)

// stock is what a session knows of one queue: its segments, and the receipts
// that the session has there. All values of Queue with the same path share it.
type stock struct {
	s    *session
	path string // of the queue, absolute

	claiming *semaphore.Weighted // held by claims that are made, and as a whole to sweep one

	mu     sync.Mutex
	born   int64     // czxid of the segments' parent; 0: not looked at yet
	known  []segment // that were there, ascending; nil: not known
	end    end       // where items are put
	free   []*slot   // receipts that no transaction uses
	closed bool      // there is another stock by now
}

// segment is one that was there.
type segment struct {
	number  int64
	guessed bool // that it follows on a sealed one; nobody has seen it
	// czxid is that of the znode, 0 if it has not been seen: a queue that was
	// deleted and made anew has other segments of the same numbers.
	czxid int64
}

// stockOf returns what is known of the queue with that absolute path.
func (s *session) stockOf(path string) *stock {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stocks[path]
	if st == nil {
		if len(s.stocks) >= maxKnownLines {
			for other, st := range s.stocks { // any: it costs that queue some reads
				delete(s.stocks, other)
				s.c.tasks.start(st.close)
				break
			}
		}
		st = &stock{s: s, path: path, claiming: semaphore.NewWeighted(maxClaims)}
		s.stocks[path] = st
	}
	return st
}

func (st *stock) root() string { return st.path + "/s" }

func (st *stock) segment(n int64) string { return st.root() + "/" + segmentName(n) }

// errStale: what was known of the segments is not so any more; look again.
var errStale = errors.New("segments have changed")

// learn lists the segments, if none is known.
func (st *stock) learn(ctx context.Context) error {
	st.mu.Lock()
	known := len(st.known) > 0
	st.mu.Unlock()
	if known {
		return nil
	}
	ns, err := st.list(ctx)
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.known = make([]segment, len(ns))
	for i, n := range ns {
		st.known[i].number = n
	}
	return nil
}

// forget has the segments listed anew.
func (st *stock) forget() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.known = nil
}

// behind returns the first known segment behind the nth, and whether it is the
// last one that is known.
func (st *stock) behind(n int64) (seg segment, last, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	i := st.find(n + 1)
	if i == len(st.known) {
		return segment{}, false, false
	}
	return st.known[i], i == len(st.known)-1, true
}

// find returns where the nth segment is among the known ones, or would be; st.mu
// is held.
func (st *stock) find(n int64) int {
	i, _ := slices.BinarySearchFunc(st.known, n, func(seg segment, n int64) int { return cmp.Compare(seg.number, n) })
	return i
}

// saw notes that a segment is there, and whether another follows. It is false
// where it is not the one that was known by this number.
func (st *stock) saw(n, czxid int64, sealed bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	i := st.find(n)
	if i == len(st.known) || st.known[i].number != n {
		return true // dropped in the meantime
	}
	if seg := &st.known[i]; seg.czxid == 0 {
		seg.czxid = czxid
	} else if seg.czxid != czxid {
		return false
	}
	if sealed && i == len(st.known)-1 {
		st.known = append(st.known, segment{number: n + 1, guessed: true})
	}
	return true
}

// drop notes that a segment is gone.
func (st *stock) drop(n int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if i := st.find(n); i < len(st.known) && st.known[i].number == n {
		st.known = slices.Delete(st.known, i, i+1)
	}
}

// same reports whether the queue is the one that was listed, and not another that
// was made in its place.
func (st *stock) same(ctx context.Context) (bool, error) {
	_, stat, err := st.s.get(ctx, st.root())
	if err != nil {
		return false, goneIsStale(err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return stat.Czxid == st.born, nil
}

// list lists the segments, ascending. It makes the queue where there is none.
func (st *stock) list(ctx context.Context) ([]int64, error) {
	for range maxTries {
		if err := st.check(ctx); err != nil {
			return nil, err
		}
		names, _, err := st.s.children(ctx, st.root())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			st.unborn()
			continue
		case err != nil:
			return nil, err
		}
		if ns := segmentNumbers(names); len(ns) > 0 {
			return ns, nil
		}
		if err := st.repair(ctx); err != nil {
			return nil, err
		}
	}
	return nil, errContended
}

// check makes the queue, if need be, and sees that its layout is known here.
func (st *stock) check(ctx context.Context) error {
	st.mu.Lock()
	born := st.born
	st.mu.Unlock()
	for tries := 0; born == 0; tries++ {
		data, stat, err := st.s.get(ctx, st.root())
		switch {
		case errors.Is(err, zk.ErrNoNode) && tries < maxTries:
			if err := st.create(ctx); err != nil {
				return err
			}
		case err != nil:
			return err
		case stat.EphemeralOwner != 0:
			return zk.ErrNoChildrenForEphemerals
		case strings.HasPrefix(string(data), markerLibrary) && !strings.HasPrefix(string(data), markerLayout):
			return fmt.Errorf("queue of a layout that this version does not know: %.40q", data)
		default:
			born = stat.Czxid
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.born = born
	return nil
}

// unborn has the queue looked at, and its segments listed, anew.
func (st *stock) unborn() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.born, st.known = 0, nil
}

// create makes the parent of the segments together with the first of them, so
// that nobody ever finds it without one. It is no container: the queue stays,
// also an empty one.
func (st *stock) create(ctx context.Context) error {
	acl := st.s.c.acl
	for tries := 0; tries < maxTries; {
		_, _, err := st.s.multi(ctx,
			&zk.CreateRequest{Path: st.root(), Data: []byte(markerLayout + "queue"), Acl: acl},
			&zk.CreateRequest{Path: st.segment(0), Acl: acl})
		switch {
		case err == nil:
			return nil
		case unsettled(err): // created or not: the next attempt tells
		case errors.Is(err, zk.ErrNodeExists):
			// By somebody else; this session may be connected to a server that has
			// not heard of it yet.
			return st.s.sync(ctx, st.root())
		case errors.Is(err, zk.ErrNoNode):
			if err := st.s.c.createContainer(ctx, st.s, st.path, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			tries++
		default:
			return err
		}
	}
	return errContended
}

// repair makes a segment where there is none, or where the last one is sealed:
// somebody must have deleted what was there. The parent's data, which is left as it
// is, has a version that keeps two from doing so one after the other.
func (st *stock) repair(ctx context.Context) error {
	for {
		if err := st.s.sync(ctx, st.root()); err != nil {
			return err
		}
		data, stat, err := st.s.get(ctx, st.root())
		if err != nil {
			return goneIsStale(err)
		}
		names, _, err := st.s.children(ctx, st.root())
		if err != nil {
			return goneIsStale(err)
		}
		ops := []any{&zk.SetDataRequest{Path: st.root(), Data: data, Version: stat.Version}}
		n := int64(-1)
		if ns := segmentNumbers(names); len(ns) > 0 {
			n = ns[len(ns)-1]
			_, stat, err := st.s.get(ctx, st.segment(n))
			if err != nil || stat.Version == 0 { // it is the open one
				return goneIsStale(err)
			}
			ops = append(ops, &zk.CheckVersionRequest{Path: st.segment(n), Version: stat.Version})
		}
		_, _, err = st.s.multi(ctx, append(ops, &zk.CreateRequest{Path: st.segment(n + 1), Acl: st.s.c.acl})...)
		switch {
		case err == nil, errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists):
			return nil
		case !unsettled(err):
			return goneIsStale(err)
		}
	}
}

// goneIsStale: that there is no znode is to be found out, not an error.
func goneIsStale(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
