package costs

import (
	"context"
	"slices"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// members are what steps of barriers and gates leave.
type members struct {
	barriers []*zkrecipes.Barrier // whose members are yet to arrive
	arrived  []*harness.Call[int]
	doubles  []*zkrecipes.DoubleBarrier // whose members are yet to enter
	entered  []*harness.Call[*zkrecipes.Visit]
	atGate   []*harness.Call[struct{}]
}

// knowing returns a barrier of n members that knows the path's size, from a Wait that was canceled.
// No member may be waiting.
func (w *world) knowing(c *zkrecipes.Client, path string, n int) *zkrecipes.Barrier {
	b := zkrecipes.NewBarrier(c, path, n)
	a := recipetest.WaitLater(w.t, b)
	synctest.Wait()
	recipetest.Cancels(w.t, a)
	synctest.Wait()
	return b
}

// barriers are of n members, k of whom are yet to arrive, each in a client of its own.
func barriers(k, n int) step {
	return times(k, func(w *world) { w.barriers = append(w.barriers, w.knowing(w.client(), "/b", n)) })
}

// arrive has members arrive one after the other.
func arrive(n int) step {
	return times(n, func(w *world) {
		w.arrived = append(w.arrived, recipetest.WaitLater(w.t, w.barriers[0]))
		w.barriers = w.barriers[1:]
		synctest.Wait() // else several would create the round
	})
}

// lastArrives has the last of a round arrive, and all return.
func lastArrives(w *world) {
	arrive(1)(w)
	recipetest.Indexes(w.t, w.arrived...)
	w.arrived = nil
}

// iAmThree makes me three members of a round of four, of which they are the last.
func iAmThree(w *world) {
	last, mine := w.knowing(w.other, "/b", 4), zkrecipes.NewBarrier(w.c, "/b", 4)
	w.barriers = []*zkrecipes.Barrier{mine, mine, mine, last}
	arrive(3)(w)
}

func membersLeave(*world) { recipetest.MembersLeft() }

// roundStays keeps the members of an opened round from leaving it.
func roundStays(w *world) {
	w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: recipetest.LongSession, Times: -1})
}

// lastLeaves deletes the member that came last.
func lastLeaves(w *world) {
	ms := layout.ParsePlaces(w.Srv.Children("/b/round"), barrier.MemberKinds)
	remove("/b/round/" + slices.MaxFunc(ms, layout.PlaceName.Compare).Name)(w)
}

var barrierRows = []row{
	{"nine of ten members wait, who come one by one", steps{barriers(10, 10), arrive(9)}},
	{"the last of ten members comes, all return and leave", steps{barriers(10, 10), arrive(9), lastArrives}},
	{"the last of 100 members comes, all return and leave", steps{barriers(100, 100), arrive(99), lastArrives}},
	{"the last of four members of one client comes, all return and leave", steps{iAmThree, all(lastArrives, membersLeave)}},
	{"a member comes before the ten of the round before have left", steps{roundStays, barriers(11, 10), arrive(9), lastArrives, membersLeave, arrive(1)}},
	{"... the one that it watches leaves, by a delete", steps{roundStays, barriers(11, 10), arrive(9), lastArrives, membersLeave, arrive(1), lastLeaves}},
}

// couples are double barriers of n members, each in a client that has used the path.
func couples(n int) step {
	return times(n, func(w *world) {
		d := zkrecipes.NewDoubleBarrier(w.client(), "/d", n)
		ctx, cancel := context.WithCancel(w.ctx())
		go func() {
			synctest.Wait()
			cancel()
		}()
		_, err := d.Enter(ctx)
		require.ErrorIs(w.t, err, context.Canceled)
		w.doubles = append(w.doubles, d)
	})
}

// enter has members enter one after the other.
func enter(n int) step {
	return times(n, func(w *world) {
		w.entered = append(w.entered, recipetest.EnterLater(w.t, w.doubles[0]))
		w.doubles = w.doubles[1:]
	})
}

func lastEnters(w *world) { enter(1)(w); recipetest.Visits(w.t, w.entered...) }

func iEnter(w *world) { recipetest.EnterLater(w.t, recipetest.Couple(w.c)) }

var doubleBarrierRows = []row{
	{"Enter, the first use of a path that does not exist", steps{iEnter}},
	{"nine of ten members wait, who come one by one", steps{couples(10), enter(9)}},
	{"the last of ten members enters, and all return", steps{couples(10), enter(9), lastEnters}},
}

func (w *world) gate(c *zkrecipes.Client) *zkrecipes.Gate { return zkrecipes.NewGate(c, "/gate") }

func (w *world) waitsAtGate(c *zkrecipes.Client) {
	w.atGate = append(w.atGate, harness.GoErr(w.t, w.gate(c).Wait))
}

func iShut(w *world)               { w.ok(w.gate(w.c).Shut(w.ctx())) }
func theyShut(w *world)            { w.ok(w.gate(w.other).Shut(w.ctx())) }
func theyOpen(w *world)            { w.ok(w.gate(w.other).Open(w.ctx())) }
func newcomerWaitsAtGate(w *world) { w.waitsAtGate(w.client()) }

// threeWait at the gate, in clients that are there already.
func threeWait(w *world) {
	for _, c := range w.newcomers {
		w.waitsAtGate(c)
	}
}

func gateLetsGo(w *world) {
	theyOpen(w)
	for _, a := range w.atGate {
		a.Get()
	}
}

var gateRows = []row{
	{"Wait, open", steps{func(w *world) { w.ok(w.gate(w.c).Wait(w.ctx())) }}},
	{"Wait by three clients, shut", steps{theyShut, times(3, newcomer), threeWait}},
	{"Open with three clients waiting, which return", steps{theyShut, times(3, newcomerWaitsAtGate), gateLetsGo}},
	{"Shut", steps{iShut}},
	{"... of a path that has two missing parents", steps{func(w *world) { w.ok(zkrecipes.NewGate(w.c, "/a/b/gate").Shut(w.ctx())) }}},
	{"Open", steps{theyShut, theyOpen}},
	{"IsOpen", steps{func(w *world) { _, err := w.gate(w.c).IsOpen(w.ctx()); w.ok(err) }}},
}
