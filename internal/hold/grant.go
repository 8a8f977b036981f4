package hold

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/assert"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Thing is what a grant holds. Each embeds a Znode, whose methods are right for a thing that is one
// znode and is held alone, and overrides the others.
type Thing interface {
	// Node returns the Znode.
	Node() *Znode
	// Paths returns the paths of all znodes without which it is not held, that of the Znode first.
	Paths() []string
	// Checked returns the paths of further znodes without which it is not held either. A Commit
	// checks them, and the recipe watches them.
	Checked() []string
	// Exclusive reports whether it is held alone.
	Exclusive() bool
	// Delete deletes it, once, by a transaction that begin sends. signal: it was held until now, so
	// a successor may get a signal that it is next. zk.ErrNoNode: it was gone before.
	Delete(signal bool, begin BeginFunc) error
}

// BeginFunc sends a transaction: zkconn.Session.Begin or Start.
type BeginFunc func(ops ...any) (*zkconn.Transaction, error)

// Znode is an ephemeral znode of a session.
type Znode struct {
	Session *session.Session
	Path    string
	// Czxid is 0 if it is not known yet.
	Czxid int64
	// Own is the watch on Path, nil if there is none yet.
	Own *zkconn.Watch
}

func (z *Znode) Node() *Znode { return z }

func (z *Znode) Paths() []string { return []string{z.Path} }

func (z *Znode) Checked() []string { return nil }

func (z *Znode) Exclusive() bool { return true }

// Grant is one holding of a Thing, from its turn until it is released or lost. The holder's leases, one
// for each entry, are handles of it.
type Grant struct {
	At      session.At
	Session *session.Session
	Token   int64
	// current is replaced by Handle.Replace.
	current atomic.Pointer[Thing]
	// Over is closed when the grant ends, and announced after that, once all of the holder's contexts have
	// ended.
	Over, announced chan struct{}

	mu sync.Mutex
	// handles are those that are not released.
	handles map[*Handle]struct{}
	// err is why the grant has ended, nil while it holds.
	err error
	// changing is closed at the end of a change, and nil without one.
	changing chan struct{}

	// since is when the thing was granted.
	since time.Time
	// watched: its znodes are watched, or are about to be. deleted: an event said that one was
	// deleted. watchdog.mu guards both.
	watched bool
	deleted bool

	// kept is nil if the thing is deleted after a release. mu guards what follows, too.
	kept keeper
	// limit ends the grant, see EndAfter; nil: nothing does.
	limit *time.Timer
	// idle: nobody has been given the grant yet.
	idle     bool
	replaced bool
	tellEnd  func(why error, replaced bool)
}

// Thing returns what is held.
func (g *Grant) Thing() Thing { return *g.current.Load() }

// Path returns the path of its Znode.
func (g *Grant) Path() string { return g.Thing().Node().Path }

// Name returns the last element of Path.
func (g *Grant) Name() string {
	path := g.Path()
	return path[strings.LastIndexByte(path, '/')+1:]
}

// TokenOf returns the token of the nth, from 0, of the grants that share a czxid: those of a kept place one
// after the other, or those of the claims of one transaction.
func TokenOf(czxid int64, n int) int64 { return czxid<<grantBits | int64(n) }

const (
	grantBits = 8
	lastGrant = 1<<grantBits - 1
)

// New grants a thing whose turn it is. nth is its number among the things that one transaction has
// created, if each gets a grant. It looks at both clocks first (H1): a process that slept may see the
// predecessor's event although its own session has expired. Where a clock says so, a read that is
// answered proves that the session lives.
func New(ctx context.Context, at session.At, t Thing, nth int) (*Grant, error) {
	z := t.Node()
	if z.Czxid == 0 {
		own, err := z.Session.Watch(ctx, z.Path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, z.WhyGone(ctx)
		}
		if err != nil {
			return nil, err
		}
		z.Own, z.Czxid = own, own.Stat.Czxid
	}
	for {
		if z.Session.IsValid() { // H1
			return newGrant(at, t, nth)
		}
		_, _, err := z.Session.Get(ctx, z.Path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, z.WhyGone(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// newGrant makes a grant. From here on it ends when the session ends, when the session's clock runs
// out, and when a znode is deleted.
func newGrant(at session.At, t Thing, nth int) (*Grant, error) {
	z := t.Node()
	g := &Grant{
		At: at, Session: z.Session, Token: TokenOf(z.Czxid, nth),
		Over: make(chan struct{}), announced: make(chan struct{}), handles: map[*Handle]struct{}{},
		since: time.Now(), watched: z.Own != nil && len(t.Paths()) == 1,
	}
	g.current.Store(&t)
	if assert.Failed != nil && assert.SimulatedTime && !z.Session.IsValid() {
		assert.Failed("H1")
	}
	if err := watchdogOf(z.Session).add(g); err != nil {
		return nil, err
	}
	if z.Own != nil && z.Own.HasFired() { // before add, so the event reached no grant
		at.Client.Tasks.Start(g.watch)
	}
	return g, nil
}

// endIfLost ends a grant that can no longer be trusted. It returns why the grant has ended, nil
// while it holds.
func (g *Grant) endIfLost() error {
	g.mu.Lock()
	err := g.err
	g.mu.Unlock()
	if err != nil {
		return err
	}
	s := g.Session
	switch {
	case s.IsOver():
		g.End(errs.Lost(s.Cause()))
	case !time.Now().Before(s.ValidUntil()):
		g.End(errs.Lost(errs.ErrSilent))
	default:
		return nil
	}
	return g.endIfLost()
}

// Start sends a transaction of the holder's, unless the grant has ended. So it is sent
// before anything that the next holder of a kept thing sends (H5).
func (g *Grant) Start(ops ...any) (*zkconn.Transaction, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	return g.Session.Start(ops...)
}

// exclusive reports whether the grant is exclusive and stays so. g.mu must be held.
func (g *Grant) exclusive() bool { return g.changing == nil && g.Thing().Exclusive() }

// HoldsAlone is exclusive for a caller without g.mu.
func (g *Grant) HoldsAlone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exclusive()
}

// Tell calls begun with mu held, so that the grant cannot end meanwhile. It keeps the function that begun
// returns, and calls it once the grant has ended, with mu held; nil: it calls nothing.
func (g *Grant) Tell(begun func() (ended func(why error, downgraded bool))) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tellEnd = begun(); g.err != nil {
		g.noteEnd()
	}
}

func newHandle(g *Grant) *Handle {
	h := &Handle{Grant: g, contexts: map[context.Context]context.CancelCauseFunc{}, ended: make(chan struct{})}
	h.own, h.cancel = context.WithCancelCause(context.WithValue(context.Background(), g.At, Holder{Handle: h}))
	return h
}

// AddHandle adds a handle, which is exclusive or shared. It returns ErrUpgrade if it is exclusive
// and the grant is not.
func (g *Grant) AddHandle(exclusive bool) (*Handle, error) {
	if err := g.endIfLost(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return nil, g.err
	case exclusive && !g.exclusive():
		return nil, errs.ErrUpgrade
	}
	l := newHandle(g)
	g.handles[l] = struct{}{}
	return l, nil
}
