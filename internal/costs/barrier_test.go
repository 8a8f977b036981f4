package costs

import (
	"context"
	"slices"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// members returns barriers of n members, each in a client that knows the path's size.
func (w *world) members(n int) (bs []*zkrecipes.Barrier) {
	for range n {
		c := w.client()
		b := zkrecipes.NewBarrier(c, "/b", n)
		w.ok(recipetest.RoundsOf(b).CheckSize(w.ctx(), recipetest.Live(w.t, c)))
		bs = append(bs, b)
	}
	return bs
}

// arrive has members arrive one after the other.
func (w *world) arrive(bs []*zkrecipes.Barrier) (as []*harness.Call[int]) {
	for _, b := range bs {
		as = append(as, recipetest.WaitLater(w.t, b))
		synctest.Wait() // else several would create the round
	}
	return as
}

// full has all but the last of n members wait, and returns the last one's arrival.
func (w *world) full(n int) (last func()) {
	bs := w.members(n)
	as := w.arrive(bs[:n-1])
	return func() { recipetest.Indexes(w.t, append(as, w.arrive(bs[n-1:])...)...) }
}

// early has a round of ten stay opened, and returns a member of the next one.
func (w *world) early() *zkrecipes.Barrier {
	w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: recipetest.LongSession, Times: -1})
	bs := w.members(11)
	for i := range bs {
		bs[i] = zkrecipes.NewBarrier(recipetest.ClientOf(recipetest.RoundsOf(bs[i]).Line.Client), "/b10", 10)
		w.ok(recipetest.RoundsOf(bs[i]).CheckSize(w.ctx(), recipetest.Live(w.t, recipetest.ClientOf(recipetest.RoundsOf(bs[i]).Line.Client))))
	}
	recipetest.Indexes(w.t, w.arrive(bs[:10])...)
	recipetest.MembersLeft()
	return bs[10]
}

var barrierRows = []row{
	{"nine of ten members wait, who come one by one", func(w *world) func() {
		bs := w.members(10)
		return func() { w.arrive(bs[:9]) }
	}},
	{"the last of ten members comes, and all return", func(w *world) func() { return w.full(10) }},
	{"the last of 100 members comes, and all return", func(w *world) func() { return w.full(100) }},
	{"ten members leave", func(w *world) func() {
		w.full(10)()
		return recipetest.MembersLeft
	}},
	{"the last of four members of one client comes, all return and leave", func(w *world) func() {
		b := zkrecipes.NewBarrier(w.c, "/b", 4)
		as := w.arrive([]*zkrecipes.Barrier{b, b, b})
		last := zkrecipes.NewBarrier(w.other, "/b", 4)
		w.ok(recipetest.RoundsOf(last).CheckSize(w.ctx(), recipetest.Live(w.t, w.other)))
		return func() {
			recipetest.Indexes(w.t, append(as, w.arrive([]*zkrecipes.Barrier{last})...)...)
			recipetest.MembersLeft()
		}
	}},
	{"a member comes before the ten of the round before have left", func(w *world) func() {
		b := w.early()
		return func() { w.arrive([]*zkrecipes.Barrier{b}) }
	}},
	{"... the one that it watches leaves, by a delete", func(w *world) func() {
		w.arrive([]*zkrecipes.Barrier{w.early()})
		ms := placename.ParseAll(w.Srv.Children("/b10/round"), barrier.MemberKinds)
		last := slices.MaxFunc(ms, placename.Parts.Compare)
		conn := w.Bare()
		return func() { w.ok(conn.Delete("/b10/round/"+last.Name, -1)) }
	}},
}

// couples returns double barriers of n members, each in a client that has used the path.
func (w *world) couples(n int) (ds []*zkrecipes.DoubleBarrier) {
	for range n {
		d := zkrecipes.NewDoubleBarrier(w.client(), "/d", n)
		ctx, cancel := context.WithCancel(w.ctx())
		go func() {
			synctest.Wait()
			cancel()
		}()
		_, err := d.Enter(ctx)
		require.ErrorIs(w.t, err, context.Canceled)
		ds = append(ds, d)
	}
	return ds
}

// enter has members enter one after the other.
func (w *world) enter(ds []*zkrecipes.DoubleBarrier) (as []*harness.Call[*zkrecipes.Visit]) {
	for _, d := range ds {
		as = append(as, recipetest.EnterLater(w.t, d))
	}
	return as
}

var doubleBarrierRows = []row{
	{"Enter, the first use of a path that does not exist", func(w *world) func() {
		return func() { w.enter([]*zkrecipes.DoubleBarrier{recipetest.Couple(w.c)}) }
	}},
	{"nine of ten members wait, who come one by one", func(w *world) func() {
		ds := w.couples(10)
		return func() { w.enter(ds[:9]) }
	}},
	{"the last of ten members enters, and all return", func(w *world) func() {
		ds := w.couples(10)
		as := w.enter(ds[:9])
		return func() { recipetest.Visits(w.t, append(as, w.enter(ds[9:])...)...) }
	}},
}

func (w *world) gate(c *zkrecipes.Client) *zkrecipes.Gate { return zkrecipes.NewGate(c, "/gate") }

// shut returns the gate, which is shut.
func (w *world) shut() *zkrecipes.Gate {
	g := w.gate(w.other)
	w.ok(g.Shut(w.ctx()))
	return g
}

var gateRows = []row{
	{"Wait, open", func(w *world) func() { return func() { w.ok(w.gate(w.c).Wait(w.ctx())) } }},
	{"Wait by three clients, shut", func(w *world) func() {
		w.shut()
		cs := []*zkrecipes.Client{w.client(), w.client(), w.client()}
		return func() {
			for _, c := range cs {
				harness.GoErr(w.t, w.gate(c).Wait)
			}
		}
	}},
	{"Open with three clients waiting, which return", func(w *world) func() {
		g := w.shut()
		var as []*harness.Call[struct{}]
		for range 3 {
			as = append(as, harness.GoErr(w.t, w.gate(w.client()).Wait))
		}
		return func() {
			w.ok(g.Open(w.ctx()))
			for _, a := range as {
				a.Get()
			}
		}
	}},
	{"Shut", func(w *world) func() { return func() { w.ok(w.gate(w.c).Shut(w.ctx())) } }},
	{"Open", func(w *world) func() { g := w.shut(); return func() { w.ok(g.Open(w.ctx())) } }},
	{"IsOpen", func(w *world) func() { return func() { _, err := w.gate(w.c).IsOpen(w.ctx()); w.ok(err) } }},
}
