package group

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What a member's goroutine does: it keeps the znode there.

// run keeps the member present.
func (m *Member) run() {
	defer m.unregister()
	for {
		s, err := m.c.Live(m.leaving)
		if err != nil {
			return
		}
		m.own = nil
		for !errors.Is(err, zkconn.ErrSessionOver) {
			if err = m.stay(s); m.leaving.Err() != nil {
				m.remove(s)
				return
			}
			if !errors.Is(err, zkconn.ErrSessionOver) {
				m.setErr(err)
				m.c.Log(slog.LevelWarn, "a member of a group cannot be there", "path", m.path, "err", err)
				m.pause(s)
			}
		}
	}
}

// retryInterval is how long a member waits when the servers refuse it.
const retryInterval = time.Second

func (m *Member) pause(s *session.Session) {
	select {
	case <-time.After(retryInterval):
	case <-s.Over():
	case <-m.leaving.Done():
	}
}

// stay keeps the znode there until the session ends or the member leaves, or returns why the
// servers refuse.
func (m *Member) stay(s *session.Session) error {
	for {
		m.own = nil
		version, err := m.create(s)
		if err != nil {
			return err
		}
		// A watch on the children of an ephemeral znode fires at its deletion alone, not at
		// an Update.
		w, err := s.WatchChildren(m.leaving, m.path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue // somebody has deleted it
		case err != nil:
			return err
		}
		if w.Stat.EphemeralOwner != s.ID() {
			continue // deleted, and created by a member of another session with the same id
		}
		m.own = w
		m.wrote(version)
		gone, err := m.keepWritten(s, w, version)
		if !gone {
			return err
		}
	}
}

// keepWritten writes what Update says, until the znode is gone or the session is over.
func (m *Member) keepWritten(s *session.Session, w *zkconn.Watch, version int) (gone bool, err error) {
	for history := s.NewHistory(); ; {
		data, wanted, changed := m.wanted()
		if wanted > version {
			switch err := m.write(s, w, data); {
			case errors.Is(err, zk.ErrNoNode):
				return true, nil
			case err != nil:
				return false, err
			}
			version = wanted
			m.wrote(version)
			continue
		}
		select {
		case <-w.Fired():
			return true, nil
		case <-changed:
		case <-history: // the servers may have lost an Update
			history = s.NewHistory()
			if has, _, err := s.Get(m.leaving, m.path); err == nil && !bytes.Equal(has, data) {
				version = 0
			}
		case <-s.Over():
			return false, zkconn.ErrSessionOver
		case <-m.leaving.Done():
			return false, s.ContextErr(m.leaving)
		}
	}
}

// write sets the data of the znode that w is on, or returns zk.ErrNoNode once w has fired: then another
// member may have created a znode there. That may happen while there is no connection, and on the next one
// w fires before requests pass. So it looks at w just before it sends.
func (m *Member) write(s *session.Session, w *zkconn.Watch, data []byte) error {
	start := func(ops ...any) (*zkconn.Transaction, error) {
		if w.HasFired() {
			return nil, zk.ErrNoNode
		}
		return s.Start(ops...)
	}
	for {
		t, err := s.BeginBy(m.leaving, start, &zk.SetDataRequest{Path: m.path, Data: data, Version: -1})
		if err != nil {
			return err
		}
		// The reply is awaited even if the member leaves, so that remove comes after it.
		if o := t.Wait(s.UntilAnswered()); !o.Transient() {
			return o.Err()
		}
	}
}

// create creates the znode, and the group's path if need be, and returns the version of the
// data that it has. It waits for the end of a znode of another session: that of the Client
// before, of a process that had the same id, or of another member with that id.
func (m *Member) create(s *session.Session) (version int, err error) {
	for tries := 0; ; {
		data, version, _ := m.wanted()
		op := &zk.CreateRequest{Path: m.path, Data: data, Acl: s.ACL(), Flags: zk.FlagEphemeral}
		// The reply is awaited even if the member leaves, so that remove comes after it.
		o := s.Retry(nil, []any{op}).Settle(m.leaving)
		switch {
		case o.RefusedAt(op, zk.ErrNodeExists):
			mine, err := m.awaitOther(s)
			if mine {
				version = 0 // by an attempt whose reply was lost; what it has written is not known
			}
			if mine || err != nil {
				return version, err
			}
		case o.RefusedAt(op, zk.ErrNoNode):
			if tries++; tries > zkconn.MaxTries {
				return 0, zkconn.ErrContended
			}
			err := s.CreateContainer(m.leaving, m.dir, nil)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return 0, err
			}
		default:
			return version, o.Err()
		}
	}
}

// awaitOther waits until the znode that stands at the path is gone. mine: it is this session's.
func (m *Member) awaitOther(s *session.Session) (mine bool, err error) {
	for {
		w, err := s.WatchExistence(m.leaving, m.path)
		switch {
		case err != nil:
			return false, err
		case w.Absent:
			return false, nil
		case w.Stat.EphemeralOwner == s.ID():
			return true, nil
		case w.Stat.EphemeralOwner == 0:
			return false, zkconn.Errorf(zkconn.ErrPathInUse, "the znode %s is not ephemeral: no member has created it", m.path)
		}
		if err := zkconn.Until(m.leaving, s.Session, w.Fired()); err != nil {
			return false, err
		}
		if w.Deleted() { // and not updated
			return false, nil
		}
	}
}

// remove deletes the znode, if it is the session's, until it is gone or the session is. If the
// Client is being closed, it leaves that to the end of the session.
func (m *Member) remove(s *session.Session) {
	for wait := 100 * time.Millisecond; m.c.Closing.Err() == nil; m.own = nil {
		gone, err := m.removeOnce(s)
		switch {
		case gone, errors.Is(err, zkconn.ErrSessionOver), m.c.Closing.Err() != nil:
			return
		case zkconn.Transient(err):
			continue
		}
		m.mu.Lock()
		m.refused = err
		m.note()
		m.mu.Unlock()
		m.c.Log(slog.LevelError, "cannot delete a member of a group", "path", m.path, "err", err)
		select {
		case <-time.After(wait):
		case <-s.Over():
		case <-m.c.Closing.Done():
		}
		wait = min(2*wait, s.Timeout())
	}
}

// removeOnce deletes the znode. If it is not known whose it is, it looks first: a delete whose
// reply was lost, or an operator, may have made room for another member with the same id. If that may
// have happened while there was no connection, it sends nothing, and the error is Transient.
func (m *Member) removeOnce(s *session.Session) (gone bool, err error) {
	known, on := m.own != nil, s.On()
	if !known {
		if err := s.Sync(m.c.Closing, m.path); err != nil {
			return false, err
		}
		stat, err := s.Exists(m.c.Closing, m.path)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.EphemeralOwner != s.ID():
			return true, nil
		case err != nil:
			return false, err
		}
	}
	del := &zk.DeleteRequest{Path: m.path, Version: -1}
	o := s.MultiBy(s.UntilAnswered(), func(ops ...any) (*zkconn.Transaction, error) {
		if known && m.own.HasFired() || !known && s.On() != on {
			return nil, zk.ErrConnectionClosed
		}
		return s.Start(ops...)
	}, del)
	return o.Applied() || o.RefusedAt(del, zk.ErrNoNode), o.Err()
}
