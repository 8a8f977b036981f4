package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Barrier is a barrier of n members.
type Barrier struct {
	members            // of the round
	Root    session.At // the path, which holds n

	mu sync.Mutex
	// agreed is when the path's data was last read and was n, and bears what its ACL was then.
	agreed time.Time
	bears  line.ACL
}

// New returns the barrier of n members with that path.
func New(c *session.Client, path string, n int) *Barrier {
	return &Barrier{
		members: membersOf(c, path+"/round", "round", "barrier", n),
		Root:    session.At{Client: c, Path: path, Recipe: "barrier"},
	}
}

// Check refuses an n below 1, and one for which a transaction has no room.
func (b *Barrier) Check() error { return b.check(b.OpeningSize()) }

// participant is one call of Wait.
type participant struct {
	*Barrier
	ctx context.Context
	// exposed: others can see a member of this call, or may.
	exposed atomic.Bool
	end     chan struct{} // closed when index and err are set
	index   int
	err     error
}

// Wait joins the round and returns the member's index once the round has been opened.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	c := b.Client
	ctx, done := c.BindWait(ctx)
	defer done()
	for _, at := range []session.At{b.Root, b.At} {
		if err := at.AwaitAbandoned(ctx); err != nil {
			return 0, err
		}
	}
	a := &participant{Barrier: b, ctx: ctx, end: make(chan struct{})}
	c.Tasks.Start(func() {
		defer b.Root.EndAbandoned(a.end)
		a.index, a.err = a.run()
	})
	select {
	case <-a.end:
	case <-ctx.Done(): // only the servers know whether the round was opened with the member
		s, _ := c.Session()
		awaitGone(context.Background(), s, a.end, zkconn.Grace)
	}
	if !b.Root.Abandon(a.end) {
		return a.index, a.err
	}
	err := c.ContextErr(ctx)
	if a.exposed.Load() {
		err = fmt.Errorf("%w: the round may be opened with this member: %w", errs.ErrUncertain, err)
	}
	return 0, err
}

// run joins round after round until one is opened with this member. Requests with
// Session.UntilAnswered are those whose outcome must be known. The caller does not wait for
// them while there is no connection.
func (a *participant) run() (int, error) {
	return session.InSessions(a.ctx, a.Client, func(s *session.Session) (int, error) {
		for {
			p, err := a.join(s)
			if err != nil {
				return 0, err
			}
			index, err := a.awaitOpening(p)
			if index, err = a.finish(p, index, err); err != ErrExcluded {
				return index, err
			}
		}
	})
}

// The path's znode holds n, and members that come with another n are refused.

// CheckSize makes sure that the path's znode holds n, and creates the znode if there
// is none. The servers delete an idle container, and others may use the path then, so
// it reads n again every line.IdleLine. A round is opened by what is read then: see open.
func (b *Barrier) CheckSize(ctx context.Context, s *session.Session) error {
	b.mu.Lock()
	known, bears := time.Since(b.agreed) < line.IdleLine, b.bears
	b.mu.Unlock()
	if known {
		return nil
	}
	for range zkconn.MaxTries {
		data, stat, err := s.Get(ctx, b.Root.Abs())
		switch {
		case errs.IsContextErr(ctx, err):
		case errors.Is(err, zk.ErrNoNode):
			err, bears = s.CreateContainer(ctx, b.Root.Abs(), layout.Size(b.n)), line.ACL{}
		case err == nil:
			_, err = b.agree(ctx, s, data, stat)
			if err == nil {
				bears, err = bears.Read(ctx, s.Session, b.Root.Abs(), stat)
			}
		}
		changed := errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)
		switch {
		case err == nil:
			b.mu.Lock()
			defer b.mu.Unlock()
			b.agreed, b.bears = time.Now(), bears
			return nil
		case errs.IsContextErr(ctx, err), !changed && !zkconn.Transient(err):
			return err
		}
	}
	return zkconn.ErrContended
}

// agree returns the version in which the path's znode, of which data and stat were
// read, holds n. It writes n if the znode is empty.
func (b *Barrier) agree(ctx context.Context, s *session.Session, data []byte, stat *zk.Stat) (version int32, err error) {
	size, err := layout.SizeIn(b.recipe, "members", data, stat)
	switch {
	case err == nil && size == 0:
		if err := layout.CheckUnmarked(ctx, s.Session, b.Root.Abs()); err != nil {
			return 0, err
		}
		_, err := layout.WriteSize(ctx, s.Session, b.Root.Abs(), b.n, stat.Version)
		return stat.Version + 1, err
	case size == b.n:
		return stat.Version, nil
	case err == nil:
		err = b.wrongSize(size)
	}
	b.forgetSize()
	return 0, err
}

// childACL returns the list of what the session creates below the path.
func (b *Barrier) childACL(s *session.Session) []zk.ACL {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bears.ForWritten(s.Session)
}

// forgetSize makes CheckSize read the path again.
func (b *Barrier) forgetSize() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agreed = time.Time{}
}
