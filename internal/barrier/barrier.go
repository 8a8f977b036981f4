// Package barrier has the rounds of a Barrier, and the double barrier with its visits. The
// package above checks what users give, traces, and wraps errors.
package barrier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/lineacl"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// kindMember is the kind of a barrier's members. Locks and barriers do not see each
// other's places.
const kindMember placename.Kind = "member-"

var MemberKinds = []placename.Kind{kindMember}

// Barrier is a barrier of n members.
type Barrier struct {
	Line *line.Line
	// Round is the generation: one znode, created anew for each round.
	Round *line.Line
	N     int

	mu sync.Mutex
	// sizeChecked is when the path's data was last read and was n, and bears what its ACL was
	// then.
	sizeChecked time.Time
	bears       lineacl.ACL
	// leaves are what leaveLater has put off. Some may have been called since.
	leaves []func()
}

// New returns the barrier of n members with that path.
func New(c *session.Client, path string, n int) *Barrier {
	return &Barrier{
		Line:  &line.Line{Client: c, Path: path, Recipe: "barrier"},
		Round: &line.Line{Client: c, Path: path + "/round", Recipe: "round", Kinds: []placename.Kind{MemberKindOf(n), kindMember}},
		N:     n,
	}
}

// Check refuses an n below 1, and one for which a transaction has no room.
func (b *Barrier) Check() error { return checkMembers(b.Line.Client, "barrier", b.N, b.OpeningSize()) }

// Wait joins the round and returns the member's index once the round has been opened.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	c := b.Line.Client
	ctx, done := c.BindWait(ctx)
	defer done()
	b.leaveNow()
	for _, l := range []*line.Line{b.Line, b.Round} {
		if err := l.AwaitAbandoned(ctx); err != nil {
			return 0, err
		}
	}
	m := &participant{Barrier: b, ctx: ctx, end: make(chan struct{})}
	c.Tasks.Start(func() {
		defer b.Line.EndAbandoned(m.end)
		m.index, m.err = m.run()
	})
	select {
	case <-m.end:
		return m.index, m.err
	case <-ctx.Done():
	}
	m.awaitAnswer()
	if !b.Line.Abandon(m.end) {
		return m.index, m.err
	}
	err := c.ContextErr(ctx)
	if m.exposure.CompareAndSwap(unexposed, abandoned); m.exposure.Load() == exposed {
		err = fmt.Errorf("%w: the round may be opened with this member: %w", errs.ErrUncertain, err)
	}
	return 0, err
}

// awaitAnswer waits until the participant whose context has ended has ended, too: only the servers
// know whether the round was opened with it. They are asked while there is a connection, and not
// for longer than a Grace.
func (a *participant) awaitAnswer() {
	if a.exposure.CompareAndSwap(unexposed, abandoned) {
		return
	}
	c, grace := a.Line.Client, time.NewTimer(zkconn.Grace)
	defer grace.Stop()
	for {
		s, changed := c.Session()
		up, flipped := s.Connected()
		if !up {
			return
		}
		select {
		case <-a.end:
			return
		case <-grace.C:
			return
		case <-flipped:
		case <-changed:
		}
	}
}

// checkMembers refuses a number of members below 1, and one for which the transaction
// that lets them go has no room.
func checkMembers(c *session.Client, recipe string, n, size int) error {
	if n < 1 {
		return fmt.Errorf("a %s of %d members", recipe, n)
	}
	if err := zkconn.CheckSize(size, c.MaxBuffer); err != nil {
		return fmt.Errorf("a %s of %d members: %w", recipe, n, err)
	}
	return nil
}

// For how many members a barrier waits: its size. The path's znode holds it, and each
// member's name says for how many that one waits.

// MemberKindOf is kindMember of a barrier of n members. Members say in their names how
// many they wait for, so that a listing tells who disagrees, and costs nothing more.
func MemberKindOf(n int) placename.Kind {
	return placename.Kind("of" + strconv.Itoa(n) + "-" + string(kindMember))
}

// memberSize returns for how many members the member with that name waits, or 0 if the
// name does not say so.
func memberSize(name string) int {
	_, size, _ := strings.Cut(name, "-of") // which no uuid contains
	size, _, _ = strings.Cut(size, "-"+string(kindMember))
	n, _ := strconv.Atoi(size)
	return n
}

// knowsSize reports whether CheckSize has nothing to read.
func (b *Barrier) knowsSize() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.sizeChecked) < line.IdleLine
}

// CheckSize makes sure that the path's znode holds n, and creates the znode if there
// is none. The servers delete an idle container, and others may use the path then, so
// it reads n again every line.IdleLine. A round is opened by what is read then: see open.
func (b *Barrier) CheckSize(ctx context.Context, s *session.Session) error {
	if b.knowsSize() {
		return nil
	}
	for tries := 0; tries < zkconn.MaxTries; {
		data, stat, err := s.Get(ctx, b.Line.Abs())
		var bears lineacl.ACL
		switch {
		case errs.IsContextErr(ctx, err):
			return err
		case errors.Is(err, zk.ErrNoNode):
			err, bears = s.CreateContainer(ctx, b.Line.Abs(), layout.Size(b.N)), lineacl.ACL{}
		case err == nil:
			if _, err = b.agree(ctx, s, data, stat); err == nil {
				bears, err = b.readACL(ctx, s, stat)
			}
		}
		switch {
		case err == nil:
			b.mu.Lock()
			b.sizeChecked, b.bears = time.Now(), bears
			b.mu.Unlock()
			return nil
		case errs.IsContextErr(ctx, err):
			return err
		case zkconn.Transient(err):
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
			tries++
		default:
			return err
		}
	}
	return zkconn.ErrContended
}

// readACL returns what is known of the path's list. It costs a read, once for each znode.
func (b *Barrier) readACL(ctx context.Context, s *session.Session, stat *zk.Stat) (lineacl.ACL, error) {
	b.mu.Lock()
	known := b.bears
	b.mu.Unlock()
	if known.Czxid == stat.Czxid && known.Aversion == stat.Aversion {
		return known, nil
	}
	return lineacl.Read(ctx, s.Session, b.Line.Abs(), stat)
}

// childACL returns the list of what the session creates below the path.
func (b *Barrier) childACL(s *session.Session) []zk.ACL {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bears.ForWritten(s.Session)
}

// agree returns the version in which the path's znode, of which data and stat were
// read, holds n. It writes n if the znode is empty.
func (b *Barrier) agree(ctx context.Context, s *session.Session, data []byte, stat *zk.Stat) (version int32, err error) {
	size, err := layout.SizeIn(b.Line.Recipe, "members", data, stat)
	switch {
	case err == nil && size == 0:
		if err := b.Line.CheckUnmarked(ctx, s); err != nil {
			return 0, err
		}
		_, err := layout.WriteSize(ctx, s.Session, b.Line.Abs(), b.N, stat.Version)
		return stat.Version + 1, err
	case size == b.N:
		return stat.Version, nil
	}
	b.ForgetSize()
	if err == nil {
		err = layout.WrongSize(b.Line.Recipe, "members", size, b.N)
	}
	return 0, err
}

// ForgetSize makes CheckSize read the path again.
func (b *Barrier) ForgetSize() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizeChecked = time.Time{}
}
