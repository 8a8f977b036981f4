package recipetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Arrival is the result of a member that was admitted.
type Arrival struct {
	Index int                         // for a Barrier
	Leave func(context.Context) error // for a DoubleBarrier, else nil
}

// BarrierCase is one of the two kinds of barrier.
type BarrierCase struct {
	Name    string
	Op      string // the operation, as errors name it
	Path    string // of the barrier that tests in bubbles use
	Members string // parent of the members' znodes, relative to path
	Arrive  func(c *zkrecipes.Client, path string, n int) func(context.Context) (Arrival, error)

	Data    map[string]string // by data that the znode at path already holds, the error
	Refused []refusal
}

// refusal is a missing permission.
type refusal struct {
	Znode string // relative to the path
	Perms int32  // the permissions that are left
	Alone bool   // before the first member has joined
	What  string // the step that fails
	Says  string // the error, if it is not zk.ErrNoAuth
}

var BothBarriers = []BarrierCase{
	{
		Name: "barrier", Op: "wait", Path: "/b", Members: "/round",
		Arrive: func(c *zkrecipes.Client, path string, n int) func(context.Context) (Arrival, error) {
			return func(ctx context.Context) (Arrival, error) {
				index, err := zkrecipes.NewBarrier(c, path, n).Wait(ctx)
				return Arrival{Index: index}, err
			}
		},
		Data: otherData("mine", "-2", "0", "2 ", "zkrecipes/1 mutex", "99999999999999999999"),
		Refused: []refusal{
			{What: "reading", Alone: true, Perms: 0},
			{What: "creating the round", Alone: true, Perms: zk.PermRead},
			{What: "joining", Znode: "/round", Perms: zk.PermAll &^ zk.PermCreate},
			{What: "counting", Znode: "/round", Perms: zk.PermAll &^ zk.PermWrite},
			{What: "listing", Znode: "/round", Perms: zk.PermAll &^ zk.PermRead},
			{What: "opening", Znode: "/round/ready", Perms: zk.PermAll &^ zk.PermWrite},
		},
	},
	{
		Name: "double barrier", Op: "enter", Path: "/d",
		Arrive: func(c *zkrecipes.Client, path string, n int) func(context.Context) (Arrival, error) {
			return func(ctx context.Context) (Arrival, error) {
				v, err := zkrecipes.NewDoubleBarrier(c, path, n).Enter(ctx)
				if err != nil {
					if v != nil {
						panic("Enter returned a visit and an error")
					}
					return Arrival{}, err
				}
				return Arrival{Leave: v.Leave}, v.Err()
			}
		},
		Data: map[string]string{
			"mine": "holds other data", "2": "path holds the size of a semaphore or barrier",
		},
		Refused: []refusal{
			{What: "joining", Perms: zk.PermAll &^ zk.PermCreate},
			{What: "listing", Perms: zk.PermAll &^ zk.PermRead},
			{What: "writing", Perms: zk.PermAll &^ zk.PermWrite},
		},
	},
}

// otherData returns, for data that is not a number of members, the errors of a
// Barrier.
func otherData(all ...string) map[string]string {
	says := map[string]string{}
	for _, data := range all {
		says[data] = fmt.Sprintf("path does not hold a barrier's number of members: %q", data)
	}
	return says
}

// Arrives starts a member of a barrier of two, in the background.
func (m BarrierCase) Arrives(t testing.TB, c *zkrecipes.Client, path string) *harness.Call[Arrival] {
	return harness.Go(t, m.Arrive(c, path, 2))
}

// ArrivesIn starts a member of the barrier that tests in bubbles use, and returns when it sleeps or is
// through.
func (m BarrierCase) ArrivesIn(w *World, c *zkrecipes.Client) *harness.Call[Arrival] {
	return settled(m.Arrives(w.T, c, m.Path))
}

// Passes requires that the members get through, and that they leave nothing.
func (m BarrierCase) Passes(w *World, members ...*harness.Call[Arrival]) {
	w.T.Helper()
	m.Pass(w.T, members...)
	MembersLeft()
	require.Empty(w.T, w.Srv.Children(m.Path))
}

// WaitsIn starts a member of a round of n in the session of c, and returns when it sleeps or is
// through.
func (w *World) WaitsIn(c *zkrecipes.Client, n int) *harness.Call[int] {
	return settled(WaitLater(w.T, zkrecipes.NewBarrier(c, "/b", n)))
}

// Try returns the error of a member of a barrier of two.
func (m BarrierCase) Try(ctx context.Context, c *zkrecipes.Client, path string) error {
	_, err := m.Arrive(c, path, 2)(ctx)
	return err
}

// Standing returns the members of the barrier that tests in bubbles use.
func (m BarrierCase) Standing(w *World) []string {
	return slices.DeleteFunc(w.Srv.Children(m.Path+m.Members), func(name string) bool { return name == "ready" })
}

// Pass waits until the members of one barrier are admitted, and then makes them
// leave.
func (m BarrierCase) Pass(t testing.TB, members ...*harness.Call[Arrival]) {
	t.Helper()
	var indexes []int
	var leaving []*harness.Call[struct{}]
	for _, a := range members {
		got := a.Get()
		if got.Leave != nil {
			leaving = append(leaving, harness.GoErr(t, got.Leave))
		} else {
			indexes = append(indexes, got.Index)
		}
	}
	for _, l := range leaving {
		l.Get()
	}
	slices.Sort(indexes)
	for i, index := range indexes {
		require.Equal(t, i, index)
	}
}

// InRound returns a barrier of n, of a Client of its own, at the path that these tests use.
func (w *World) InRound(n int) *zkrecipes.Barrier {
	c := w.Stranger(nil)
	return uses(w, zkrecipes.NewBarrier(c, "/b", n), c)
}

// RequireSize requires that a call failed because of those two sizes.
func RequireSize(t testing.TB, err error, says string) {
	t.Helper()
	require.ErrorIs(t, err, zkrecipes.ErrSize)
	require.ErrorContains(t, err, says)
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
}

// WaitLater starts a member that waits at a barrier, in the background.
func WaitLater(t testing.TB, b *zkrecipes.Barrier) *harness.Call[int] { return harness.Go(t, b.Wait) }

// Indexes waits for all members of a round and requires that each has an index of
// its own.
func Indexes(t testing.TB, as ...*harness.Call[int]) {
	t.Helper()
	var got, want []int
	for i, a := range as {
		index, err := a.Wait()
		require.NoError(t, err)
		got, want = append(got, index), append(want, i)
	}
	slices.Sort(got)
	require.Equal(t, want, got)
}

const (
	OpJoinRound   = "multi(check,create,setData)"                   // joins a round
	OpLeaveRound  = "multi(delete,setData)"                         // a member leaves an open round
	OpCancelWait  = "multi(delete,check,setData)"                   // a member cancels its Wait
	OpMakeRound   = "multi(create,create,create,create,setData)"    // creates a round, and joins it
	OpDeleteRound = "multi(check,delete,delete,delete,delete)"      // deletes a round whose signal was raised
	OpOpenRound   = "multi(check,create,setData,check,check,check)" // opens a round of two members
	RoundOf2      = "/b/round"                                      // the round of the barrier that tests in bubbles use
	ReadyOf2      = RoundOf2 + "/ready"
	SignalOf2     = ReadyOf2 + "/signal-of2"
)

// Present returns the members in that barrier's round.
func (w *World) Present() []layout.PlaceName {
	return layout.ParsePlaces(w.Srv.Children(RoundOf2), barrier.MemberKinds)
}

// DoubleOf returns a double barrier of n on the path that tests in bubbles use.
func (w *World) DoubleOf(n int) *zkrecipes.DoubleBarrier {
	return zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", n)
}

const (
	OpEnter      = OpJoin
	OpOpenAll    = "multi(create,setData)"        // opens a double barrier
	OpReplace    = "multi(delete,create,setData)" // opens it and replaces an older ready
	OpDepart     = "multi(delete,setData)"        // gives up
	OpLastLeaves = "multi(check,delete,delete)"   // the last member leaves
)

// Couple returns the double barrier of two members that tests in bubbles use.
func Couple(c *zkrecipes.Client) *zkrecipes.DoubleBarrier {
	return zkrecipes.NewDoubleBarrier(c, "/d", 2)
}

// Inside returns the names of its members, including Curator's.
func (w *World) Inside() []string {
	return slices.DeleteFunc(w.Srv.Children("/d"), func(name string) bool { return name == "ready" })
}

// Enter calls Enter in the background.
func Enter(t testing.TB, d *zkrecipes.DoubleBarrier) *harness.Call[*zkrecipes.Visit] {
	return harness.Go(t, d.Enter)
}

// Visits waits until all calls of Enter have returned, and returns their visits.
func Visits(t testing.TB, as ...*harness.Call[*zkrecipes.Visit]) (vs []*zkrecipes.Visit) {
	t.Helper()
	for _, a := range as {
		v, err := a.Wait()
		require.NoError(t, err)
		require.NoError(t, v.Err())
		vs = append(vs, v)
	}
	return vs
}

// LeaveAll calls Leave on all visits at the same time and waits for all of them.
func LeaveAll(t testing.TB, vs ...*zkrecipes.Visit) {
	t.Helper()
	var ls []*harness.Call[struct{}]
	for _, v := range vs {
		ls = append(ls, harness.GoErr(t, v.Leave))
	}
	for _, l := range ls {
		_, err := l.Wait()
		require.NoError(t, err)
	}
}

// EnterLater starts a member in the background. It returns when the member has
// entered or sleeps.
func EnterLater(t testing.TB, d *zkrecipes.DoubleBarrier) *harness.Call[*zkrecipes.Visit] {
	return settled(harness.Go(t, d.Enter))
}

// Observer sees each change of a barrier's znodes as the server applies it. It
// records the members present whenever ready admits them.
type Observer struct {
	mu       sync.Mutex
	Dir      string // parent of the members and of ready
	Created  bool   // ready admits members by its creation; else when it is written
	standing map[string]bool
	opened   []int // the number of members, at each opening
}

func (o *Observer) Option() zktest.Option { return zktest.OnChange(o.Note) }

func (o *Observer) Note(c zktest.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.standing == nil {
		o.standing = map[string]bool{}
	}
	switch name, ok := strings.CutPrefix(c.Path, o.Dir+"/"); {
	case !ok, strings.Contains(name, "/"): // below ready
	case name == "ready":
		if c.Created == o.Created && !c.Deleted {
			o.opened = append(o.opened, len(o.standing))
		}
	case c.Created:
		o.standing[name] = true
	case c.Deleted:
		delete(o.standing, name)
	}
}

// Openings returns the number of members at each opening since the last call.
func (o *Observer) Openings() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	opened := o.opened
	o.opened = nil
	return opened
}

// MembersLeft returns when the members whose Wait has returned have left, or have tried to.
func MembersLeft() { synctest.Wait() }

// Mishaps are the faults that can hit a request.
var Mishaps = []zktest.Fault{
	{Do: zktest.Drop}, {Do: zktest.Drop, After: true},
	{Do: zktest.Expire}, {Do: zktest.Expire, After: true},
	{Do: zktest.Withhold}, {Do: zktest.Withhold, After: true},
	{Do: zktest.Delay, For: 3 * time.Second}, {Do: zktest.Delay, For: 3 * time.Second, After: true},
	{Do: zktest.Answer, Code: jute.ErrOperationTimeout}, {Do: zktest.Answer, Code: jute.ErrOperationTimeout, After: true},
}

// EachRequest runs f with each mishap hitting the first request, the second, and so
// on, until no request is left for it to hit. f adds the fault to the plan and
// reports whether it fired.
func EachRequest(t *testing.T, mishaps []zktest.Fault, f func(t *testing.T, fault zktest.Fault) (met bool)) {
	for _, fault := range mishaps {
		n := 0
		for met := true; met; fault.Skip++ {
			t.Run(fmt.Sprint(fault), func(t *testing.T) { met = f(t, fault) })
			n++
			require.Less(t, n, 500)
		}
		require.Greater(t, n, 5, "requests")
	}
}

// Met reports whether the only fault of the plan has fired.
func (w *World) Met() bool {
	return FiredOf(w.Plan) > 0
}
