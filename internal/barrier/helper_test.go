package barrier_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// world has a Barrier at /b and a DoubleBarrier at /d.
type world struct {
	*recipetest.World
	// insiders are the clients of the visits that visits and processes have returned.
	insiders map[*zkrecipes.Visit]*zkrecipes.Client
}

func inBubble(t *testing.T, f func(t *testing.T, w *world), opts ...zktest.Option) {
	t.Helper()
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, &world{w, map[*zkrecipes.Visit]*zkrecipes.Client{}}) }, opts...)
}

// each runs f for each case, in a bubble of its own.
func each[C any](t *testing.T, cases map[string]C, f func(t *testing.T, w *world, c C), opts ...zktest.Option) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T, w *world) { f(t, w, c) }, opts...) })
	}
}

type (
	waiting  = *harness.Call[int]              // a call of Wait
	entering = *harness.Call[*zkrecipes.Visit] // a call of Enter
)

// waits is WaitsIn in a session of its own.
func (w *world) waits(n int) waiting { return w.WaitsIn(w.Stranger(nil), n) }

func (w *world) waitsAt(b *zkrecipes.Barrier) waiting {
	a := recipetest.WaitLater(w.T, b)
	synctest.Wait()
	return a
}

// passes opens a round of n from beginning to end.
func (w *world) passes(n int) {
	w.T.Helper()
	var as []waiting
	for range n {
		as = append(as, w.waits(n))
	}
	recipetest.Indexes(w.T, as...)
}

// used returns a Barrier that has been used, so that it knows the path and its n.
func (w *world) used(n int) *zkrecipes.Barrier {
	w.T.Helper()
	b := w.InRound(n)
	var as []waiting
	for range n {
		as = append(as, recipetest.WaitLater(w.T, b))
	}
	recipetest.Indexes(w.T, as...)
	recipetest.MembersLeft()
	return b
}

// empty requires that the members of the last round have left nothing.
func (w *world) empty() {
	w.T.Helper()
	recipetest.MembersLeft()
	require.Empty(w.T, w.Srv.Children("/b"))
}

// member returns the path of the only member of the round.
func (w *world) member() string {
	w.T.Helper()
	require.Len(w.T, w.Present(), 1)
	return recipetest.RoundOf2 + "/" + w.Present()[0].Name
}

// membersStay keeps the next two members that are through in their round.
func (w *world) membersStay() {
	w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpLeaveRound, Times: 2})
}

// enters starts a member of a double barrier of n in a session of its own, entersIn in that
// of c. They return when it sleeps or is inside.
func (w *world) enters(n int) entering { return w.entersIn(w.Stranger(nil), n) }

func (w *world) entersIn(c *zkrecipes.Client, n int) entering {
	return recipetest.EnterLater(w.T, zkrecipes.NewDoubleBarrier(c, "/d", n))
}

// visits returns the visits of n members that are inside, each in a session of its own.
func (w *world) visits(n int) []*zkrecipes.Visit {
	w.T.Helper()
	var as []entering
	var cs []*zkrecipes.Client
	for range n {
		c := w.Stranger(nil)
		cs, as = append(cs, c), append(as, w.entersIn(c, n))
	}
	vs := recipetest.Visits(w.T, as...)
	for i, v := range vs {
		w.insiders[v] = cs[i]
	}
	return vs
}

// leave has the members leave that are, or get, inside, and requires that nothing is left.
func (w *world) leave(as ...entering) {
	w.T.Helper()
	w.allLeave(recipetest.Visits(w.T, as...)...)
}

func (w *world) allLeave(vs ...*zkrecipes.Visit) {
	w.T.Helper()
	recipetest.LeaveAll(w.T, vs...)
	synctest.Wait()
	require.Empty(w.T, w.Srv.Children("/d"))
}

// leaves starts Leave, and returns when it sleeps or has returned.
func (w *world) leaves(v *zkrecipes.Visit) *harness.Call[struct{}] {
	a := harness.GoErr(w.T, v.Leave)
	synctest.Wait()
	return a
}

// znodeOf returns the path of a member inside.
func (w *world) znodeOf(v *zkrecipes.Visit) string {
	w.T.Helper()
	paths := w.SessionOf(w.insiders[v]).Ephemerals
	require.Len(w.T, paths, 1)
	return paths[0]
}

// sortByName puts visits in the order of their members' names.
func (w *world) sortByName(vs []*zkrecipes.Visit) {
	slices.SortFunc(vs, func(a, b *zkrecipes.Visit) int { return strings.Compare(w.znodeOf(a), w.znodeOf(b)) })
}

// dies ends the session of a member inside.
func (w *world) dies(v *zkrecipes.Visit) {
	w.T.Helper()
	require.True(w.T, w.Srv.Expire(w.insiders[v].Status().Session))
}

func (w *world) expire(c *zkrecipes.Client) {
	w.T.Helper()
	require.True(w.T, w.Srv.Expire(recipetest.SessionID(c)))
}

// kind is one of the two kinds of barrier.
type kind struct {
	recipetest.BarrierCase
	join    string   // the request that joins
	open    string   // the request that opens
	watched []string // what a member watches beside its own znode, relative to the path
}

var (
	barrierKind = kind{
		BarrierCase: recipetest.BothBarriers[0], join: recipetest.OpJoinRound, open: recipetest.OpOpenRound,
		watched: []string{"/round/ready", "/round/ready/signal-of2"},
	}
	doubleKind = kind{
		BarrierCase: recipetest.BothBarriers[1], join: recipetest.OpEnter, open: recipetest.OpOpenAll,
		watched: []string{"/ready"},
	}
	kinds = map[string]kind{barrierKind.Name: barrierKind, doubleKind.Name: doubleKind}
)

// opening returns the faults that meet the last of two members: before it lists the members,
// and before it opens.
func (k kind) opening(do zktest.Action) map[string]zktest.Fault {
	open := zktest.Fault{Do: do, Op: k.open}
	if k.Name == doubleKind.Name {
		open.Path = "/d/ready"
	}
	return map[string]zktest.Fault{"listing": {Do: do, Op: "getChildren2", Path: k.Path + k.Members}, "opening": open}
}

type arriving = *harness.Call[recipetest.Arrival]

// arrives starts a member of a barrier of two in a session of its own, arrivesIn in that of c.
// They return when it sleeps or is through.
func (k kind) arrives(w *world) arriving { return k.arrivesIn(w, w.Stranger(nil)) }

func (k kind) arrivesIn(w *world, c *zkrecipes.Client) arriving {
	return k.ArrivesIn(w.World, c)
}

// members returns the paths of those that wait, or have not left.
func (k kind) members(w *world) (paths []string) {
	for _, name := range k.Standing(w.World) {
		paths = append(paths, k.Path+k.Members+"/"+name)
	}
	return slices.Sorted(slices.Values(paths))
}

// passes requires that the members get through, and that they leave nothing.
func (k kind) passes(w *world, members ...arriving) {
	w.T.Helper()
	k.Passes(w.World, members...)
}
