package barrier_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members of a double barrier whose sessions all end while they leave, also because the servers
// have lost the sessions.

// process enters a double barrier, and moves from one server to another.
type process struct {
	c      *zkrecipes.Client
	server atomic.Pointer[zktest.Server]
	v      *zkrecipes.Visit
	inside int64 // the session of the visit
	leaves *harness.Call[struct{}]
}

func (w *world) process() *process {
	p := &process{}
	p.server.Store(w.Srv)
	p.c = w.Stranger(&zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return p.server.Load().DialContext(ctx, network, addr)
	}})
	return p
}

// processes returns n of them that are inside, in the order of their names.
func (w *world) processes(n int) (ps []*process) {
	w.T.Helper()
	var as []entering
	for range n {
		p := w.process()
		ps, as = append(ps, p), append(as, w.entersIn(p.c, n))
	}
	for i, v := range recipetest.Visits(w.T, as...) {
		ps[i].v, ps[i].inside, w.insiders[v] = v, ps[i].c.Status().Session, ps[i].c
	}
	slices.SortFunc(ps, func(a, b *process) int { return strings.Compare(w.znodeOf(a.v), w.znodeOf(b.v)) })
	return ps
}

// returns requires that Leave does, and enters anew in the next session.
func (w *world) returns(p *process) entering {
	w.T.Helper()
	p.leaves.Get()
	for range 100 {
		if s := p.c.Status().Session; s != 0 && s != p.inside {
			break
		}
		time.Sleep(time.Second)
	}
	return w.entersIn(p.c, members)
}

const members = 2

// leaveUntil stops the servers at each request in turn that is sent when all members leave, before
// it is carried out or after that, and then runs f. The members are in the order of their names,
// beginning with each in turn.
func leaveUntil(t *testing.T, f func(t *testing.T, w *world, ps []*process)) {
	stops := []zktest.Fault{{Do: zktest.Withhold, Times: -1}, {Do: zktest.Withhold, Times: -1, After: true}}
	for first := range members {
		t.Run(fmt.Sprint("first: ", first), func(t *testing.T) {
			recipetest.EachRequest(t, stops, func(t *testing.T, stop zktest.Fault) (met bool) {
				inBubble(t, func(t *testing.T, w *world) {
					w.Srv.Restore(w.Srv.Snapshot()) // its epoch is not the first
					ps := w.processes(members)
					w.Plan.Add(stop)
					for _, p := range ps {
						p.leaves = w.leaves(p.v)
					}
					met = w.Met()
					f(t, w, slices.Concat(ps[first:], ps[:first]))
				})
				return met
			})
		})
	}
}

// A member that comes anew waits for the others to come, so none may wait for it.
func TestLeaveDoesNotWaitForMembersThatComeWhenAllSessionsHaveEnded(t *testing.T) {
	leaveUntil(t, func(t *testing.T, w *world, ps []*process) {
		w.Plan.Stop()
		for _, p := range ps {
			w.expire(p.c)
		}
		var as []entering
		for _, p := range ps {
			as = append(as, w.returns(p))
		}
		w.leave(as...)
	})
}

// The members come to servers that have lost the opening and all sessions, and that give the
// zxids of the lost epochs again.
func TestLeaveDoesNotWaitForMembersThatHaveComeSinceTheOpeningWasLost(t *testing.T) {
	leaveUntil(t, func(t *testing.T, w *world, ps []*process) {
		other := zktest.NewServer(t, zktest.InMemory(), zktest.ContainerCheckInterval(time.Hour))
		var as []entering
		for _, p := range ps {
			p.server.Store(other)
			w.Srv.Disconnect(p.inside)
			as = append(as, w.returns(p))
		}
		recipetest.LeaveAll(t, recipetest.Visits(t, as...)...)
		synctest.Wait()
		require.Empty(t, other.Children("/d"))
	})
}
