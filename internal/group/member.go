// Package group keeps members of groups there, and follows those that are.
package group

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Member keeps an ephemeral znode there, in one session after the other, until Leave or the
// end of the Client. One goroutine of its own creates, writes and deletes it, so what is
// written last is what the last Update said.
type Member struct {
	c    *session.Client
	dir  string
	path string

	// leaving ends when Leave begins, or the Client is closed.
	leaving context.Context
	leave   context.CancelCauseFunc
	// done is closed when the znode is gone, or is left to the end of its session.
	done chan struct{}

	mu      sync.Mutex
	data    []byte
	version int
	// written is the version of data that the znode has had.
	written int
	// changed is closed and replaced when any of these, or err, changes.
	changed chan struct{}
	err     error
	refused error

	// own is on the znode, while it is known to be the session's. Only the goroutine uses it.
	own *zkconn.Watch
}

var (
	// ErrJoined is returned by Join for an id that the Client has already.
	ErrJoined = fmt.Errorf("this Client has a member with that id: %w", zk.ErrNodeExists)

	errLeft = fmt.Errorf("the member has left: %w", errs.ErrReleased)
)

// members are those of a Client, by the paths of their znodes.
type members struct {
	mu  sync.Mutex
	all map[string]*Member
}

// Join returns a member once its znode is there.
func Join(ctx context.Context, c *session.Client, dir, id string, data []byte) (*Member, error) {
	m := &Member{
		c: c, dir: dir, path: dir + "/" + id, done: make(chan struct{}), changed: make(chan struct{}),
		data: append([]byte{}, data...), version: 1, // not nil: a null value stops Curator's GroupMember
	}
	if err := m.checkSize(data); err != nil {
		return nil, err
	}
	m.leaving, m.leave = context.WithCancelCause(c.Closing) // before others can see m
	if err := m.register(ctx); err != nil {
		m.leave(nil)
		return nil, err
	}
	c.Tasks.Start(m.run)
	if err := m.await(ctx, 1); err != nil {
		m.leave(zkconn.Stopped(errLeft))
		m.awaitGone(ctx)
		return nil, err
	}
	return m, nil
}

// register makes m the Client's only member with that path. It waits for one that is about
// to leave.
func (m *Member) register(ctx context.Context) error {
	ms := session.Attached(m.c, func() *members { return &members{all: map[string]*Member{}} })
	for {
		ms.mu.Lock()
		other := ms.all[m.path]
		if other == nil {
			ms.all[m.path] = m
		}
		ms.mu.Unlock()
		switch {
		case other == nil:
			return nil
		case other.leaving.Err() == nil:
			return ErrJoined
		}
		if err := m.c.AwaitEnd(ctx, other.done); err != nil {
			return err
		}
	}
}

func (m *Member) unregister() {
	ms := session.Attached(m.c, func() *members { return &members{all: map[string]*Member{}} })
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.all, m.path)
	close(m.done)
}

// Update writes other data, and returns once the znode has them or later ones.
func (m *Member) Update(ctx context.Context, data []byte) error {
	if err := m.checkSize(data); err != nil {
		return err
	}
	m.mu.Lock()
	m.data = append([]byte{}, data...)
	m.version++
	version := m.version
	m.note()
	m.mu.Unlock()
	return m.await(ctx, version)
}

// Leave deletes the znode. While connected, it returns once that is done.
func (m *Member) Leave() error {
	m.leave(zkconn.Stopped(errLeft))
	return m.awaitGone(context.Background())
}

// checkSize refuses data too large for one request.
func (m *Member) checkSize(data []byte) error {
	create := &zk.CreateRequest{Path: m.path, Data: data, Acl: m.c.ACL}
	return zkconn.CheckSize(zkconn.MultiSize([]any{create}), m.c.MaxBuffer)
}

// note wakes those who wait for a change. m.mu must be held.
func (m *Member) note() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// setErr notes why the znode is not as it should be.
func (m *Member) setErr(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	m.note()
}

// wrote notes that the znode has these data.
func (m *Member) wrote(version int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written, m.err = version, nil
	m.note()
}

// wanted returns the data that the znode should have, and a channel that is closed when
// that, or anything else, changes.
func (m *Member) wanted() (data []byte, version int, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data, m.version, m.changed
}

// await waits until that version is written, or the servers refuse the member.
func (m *Member) await(ctx context.Context, version int) error {
	for {
		m.mu.Lock()
		written, err, changed := m.written, m.err, m.changed
		m.mu.Unlock()
		switch {
		case written >= version:
			return nil
		case err != nil:
			return err
		case m.leaving.Err() != nil:
			return m.ended()
		}
		select {
		case <-changed:
		case <-m.leaving.Done():
		case <-ctx.Done():
			return m.c.ContextErr(ctx)
		}
	}
}

// ended returns why the member is none any more.
func (m *Member) ended() error {
	if m.c.Closing.Err() != nil {
		return errs.ErrClosed
	}
	return errLeft
}

// awaitGone waits until the znode is gone, ctx ends, or there is no connection. The error says why
// the servers refuse to delete it.
func (m *Member) awaitGone(ctx context.Context) error {
	for {
		s, next := m.c.Session()
		up, changed := s.Connected()
		m.mu.Lock()
		err, noted := m.refused, m.changed
		m.mu.Unlock()
		select {
		case <-m.done:
			return nil
		default:
		}
		if !up || err != nil {
			return err
		}
		select {
		case <-m.done:
		case <-ctx.Done():
			return nil
		case <-noted:
		case <-changed:
		case <-next:
		}
	}
}
