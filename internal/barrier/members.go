// Package barrier has the rounds of a Barrier, and the double barrier with its visits. The
// package above checks what users give, traces, and wraps errors.
package barrier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A member is an ephemeral znode of one that waits or has entered, and beside the members stands the
// znode ready. An opening is a transaction on ready, by a member that sees that n are there. It
// fails if one of the n may have gone since. Of n members that are there, the last to come has
// seen n, so one of them has, even if others die. The others wait for a change of ready, which
// tells each whether it has entered. The recipes differ in what ready says, and in how members
// leave. The rules were model-checked.

// kindMember is the kind of a barrier's members. Locks and barriers do not see each
// other's places.
const kindMember layout.Kind = "member-"

var MemberKinds = []layout.Kind{kindMember}

// MemberKindOf is kindMember of a barrier of n members. Members say in their names how
// many they wait for, so that a listing tells who disagrees, and costs nothing more.
func MemberKindOf(n int) layout.Kind {
	return layout.Kind("of" + strconv.Itoa(n) + "-" + string(kindMember))
}

// memberSize returns for how many members the member with that name waits, or 0 if the
// name does not say so.
func memberSize(name string) int {
	_, size, _ := strings.Cut(name, "-of") // which no uuid contains
	size, _, _ = strings.Cut(size, "-"+string(kindMember))
	n, _ := strconv.Atoi(size)
	return n
}

// members are those of a barrier that wait for n.
type members struct {
	*line.Line // the znode in which they stand
	recipe     string
	n          int
}

func membersOf(c *session.Client, path, kind, recipe string, n int) members {
	l := &line.Line{At: session.At{Client: c, Path: path, Recipe: kind}, Kinds: []layout.Kind{MemberKindOf(n), kindMember}}
	return members{l, recipe, n}
}

func (m members) Ready() string { return m.Abs() + "/ready" }

func (m members) kind() layout.Kind { return MemberKindOf(m.n) }

// counts reports whether the member with that name waits for n, or does not say for how many.
func (m members) counts(name string) bool {
	size := memberSize(name)
	return size == 0 || size == m.n
}

// check refuses an n below 1, and one for which a transaction of that size has no room.
func (m members) check(size int) error {
	if m.n < 1 {
		return fmt.Errorf("n is %d members: must be at least 1", m.n)
	}
	if err := zkconn.CheckSize(size, m.Client.MaxBuffer); err != nil {
		return fmt.Errorf("a %s of %d members: %w", m.recipe, m.n, err)
	}
	return nil
}

func (m members) wrongSize(n int) error { return layout.WrongSize(m.recipe, "members", n, m.n) }

// errPending: the barrier has not been opened for the member.
var errPending = errors.New("the barrier is not open")

// await returns what read says of ready, once that is not errPending. read gets the watch that watch
// has returned, and nil when that has fired. A member that has waited for a tenth of the session
// timeout is late: watch may return another one then, and the member is watched itself from then on.
// Short waits do not pay for that.
func await[R any](ctx context.Context, p *line.Place, watch func(late bool) (*zkconn.Watch, error), read func(*zkconn.Watch) (R, error)) (r R, err error) {
	short, stop := context.WithTimeout(context.Background(), p.Session.Timeout()/10)
	defer stop()
	for wake := short.Done(); ; {
		if short.Err() != nil {
			wake = nil
		}
		w, err := watch(wake == nil)
		if err != nil {
			return r, err
		}
		if !w.HasFired() { // others that share it may have set it before
			if r, err = read(w); err != errPending {
				return r, err
			}
		}
		if wake == nil || p.Own != nil { // which the search for a lost join may have set
			if err := p.WatchOwn(ctx); err != nil {
				return r, err
			}
		}
		select {
		case <-w.Fired():
			if r, err = read(nil); err != errPending {
				return r, err
			}
		case <-p.Own.Fired():
		case <-wake:
		case <-p.Session.Over():
			return r, zkconn.ErrSessionOver
		case <-ctx.Done():
			return r, p.Session.ContextErr(ctx)
		}
	}
}

// awaitGone waits until gone is closed. It gives up when ctx ends, when there is no connection,
// and after that time.
func awaitGone(ctx context.Context, s *session.Session, gone <-chan struct{}, most time.Duration) {
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	for {
		up, changed := s.Connected()
		if !up {
			return
		}
		select {
		case <-gone:
			return
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
