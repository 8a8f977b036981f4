package line

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The servers delete idle containers slowly, so the Client deletes its own.

const (
	// tidyBatch is how many containers are deleted, and tidyPause is from one batch to the next: there
	// are 1,000 deletions a second at most.
	tidyBatch = 50
	tidyPause = 50 * time.Millisecond
)

// tidy deletes containers that have been idle, until none is left that may be deleted. It waits
// while there is no connection.
func (t *containers) tidy() {
	closing := t.client.Closing
	for wait := t.idle; ; {
		select {
		case <-time.After(wait + t.idle/30): // a little later there are more, which go together
		case <-closing.Done():
			return
		}
		for {
			s, err := t.client.Live(closing)
			if err != nil {
				return
			}
			var due []container
			if due, wait = t.due(s.Parents()); len(due) == 0 {
				break
			}
			for batch := range slices.Chunk(due, tidyBatch) {
				next := time.After(tidyPause)
				zkconn.AtATime(len(batch), func(i int) { t.delete(s, batch[i]) })
				select {
				case <-next:
				case <-closing.Done():
					return
				}
			}
		}
		if wait == 0 {
			return
		}
	}
}

// due returns the containers to be deleted, or else after how long there may be one: 0 if there
// will be none. used are paths with a znode of the session's right below them. A container below
// which the client knows another is deleted after that one.
func (t *containers) due(used map[string]bool) (due []container, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	parents := map[string]bool{}
	for path, e := range t.all {
		if e.czxid != 0 {
			parents[zkconn.Parent(path)] = true
		}
	}
	for path, e := range t.all {
		if e.czxid == 0 || parents[path] {
			continue
		}
		if used[path] {
			e.used = time.Now()
		}
		if left := time.Until(e.used.Add(t.idle)); left <= 0 {
			due = append(due, *e)
		} else if wait == 0 || left < wait {
			wait = left
		}
	}
	t.tidying = len(due) > 0 || wait > 0
	slices.SortFunc(due, func(a, b container) int { return strings.Compare(a.path, b.path) })
	return due, wait
}

// delete deletes a container. It looks at it before: a deletion that the servers refuse costs them a
// commit, too. And the same version of the data may be another znode's, which somebody has created in
// the meantime: any fresh znode has that of a container without data. So the look must not be older than
// the connection.
func (t *containers) delete(s *session.Session, e container) {
	on := s.On()
	now, err := s.Exists(t.client.Closing, e.path)
	switch {
	case err != nil:
	case now.Czxid != e.czxid, now.Version != e.version, now.Aversion != 0, now.NumChildren > 0:
		err = zk.ErrBadVersion
	default:
		err = multiOn(t.client.Closing, s, on, &zk.DeleteRequest{Path: e.path, Version: e.version}).Err()
	}
	t.settle(e, err)
}

// multiOn is Session.Multi for a transaction that rests on what was read on that connection. On a later
// one it is not sent, and its outcome is Transient: in between, somebody may have replaced the znodes.
func multiOn(ctx context.Context, s *session.Session, on session.Connection, ops ...any) zkconn.Outcome {
	return s.MultiBy(ctx, func(ops ...any) (*zkconn.Transaction, error) {
		if s.On() != on {
			return nil, zk.ErrConnectionClosed
		}
		return s.Start(ops...)
	}, ops...)
}

// settle notes what became of the deletion of a container that was known as was.
func (t *containers) settle(was container, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[was.path]
	switch {
	case e == nil, e.czxid != was.czxid: // it was made anew
	case err == nil, errors.Is(err, zk.ErrNoNode):
		delete(t.all, was.path)
	case zkconn.Transient(err), errors.Is(err, zkconn.ErrSessionOver): // it is looked at again
	case e.used.Equal(was.used): // others use it, and delete it
		e.czxid = 0
	}
}
