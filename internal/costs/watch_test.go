package costs

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// watches are what steps of watches and groups use and leave.
type watches struct {
	operator    *recipetest.WatchWorld // who changes znodes
	memberships []*zkrecipes.Membership
}

func create(path string) step { return func(w *world) { w.operator.Creates(path, "1") } }
func remove(path string) step { return func(w *world) { w.operator.Deletes(path) } }

func setData(w *world) { w.operator.Sets("/config", "2") }

func iWatch(w *world)              { recipetest.WatchesAt(w.t, w.c, "/config") }
func newcomerWatches(w *world)     { recipetest.WatchesAt(w.t, w.client(), "/config") }
func iWatchChildren(w *world)      { recipetest.ListsOf(w.t, w.c, "/config") }
func newcomerWatchesThem(w *world) { recipetest.ListsOf(w.t, w.client(), "/config") }
func iGet(w *world)                { _, _, err := w.c.Get(w.ctx(), w.Path); w.ok(err) }
func iListChildren(w *world)       { _, _, err := w.c.Children(w.ctx(), w.Path); w.ok(err) }
func iReadItsACL(w *world)         { _, err := w.c.ACL(w.ctx(), w.Path); w.ok(err) }
func iAskWhetherItExists(w *world) { _, err := w.c.Exists(w.ctx(), w.Path); w.ok(err) }
func iCommit(w *world) {
	_, err := w.c.Commit(w.ctx(), zkrecipes.OpCreate("/config", nil, 0, nil))
	w.ok(err)
}
func iDial(w *world) { w.Stranger(nil) }
func iPing(w *world) { w.ok(w.c.Ping(w.ctx())) }

// config is the znode that clients watch.
var config = create("/config")

// threeWatch it, who are newcomers.
var threeWatch = all(config, times(3, newcomerWatches))

// oneWatchesChildren is a newcomer.
var oneWatchesChildren = all(config, newcomerWatchesThem)

var watchRows = []row{
	{"Client.Get", steps{iGet}},
	{"Client.Children", steps{iListChildren}},
	{"Client.Exists", steps{iAskWhetherItExists}},
	{"Client.ACL", steps{iReadItsACL}},
	{"Client.Commit", steps{iCommit}},
	{"Watch: to begin", steps{config, iWatch}},
	{"Watch: to begin, there is no znode", steps{iWatch}},
	{"Watch: ten of one client begin", steps{config, times(10, iWatch)}},
	{"Watch: in a new session", steps{config, iWatch, settle, newSession}},
	{"Watch by three clients: the znode is created, by a create", steps{threeWatch, remove("/config"), create("/config")}},
	{"Watch by three clients: the data changes, by a setData", steps{threeWatch, setData}},
	{"Watch by three clients: the znode is deleted, by a delete", steps{threeWatch, remove("/config")}},
	{"Watch by three clients: for an hour", steps{threeWatch, settle, pass(time.Hour)}},
	{"Watch by three loops of one client: the data changes, by a setData", steps{config, times(3, iWatch), setData}},
	{"WatchChildren: to begin", steps{config, iWatchChildren}},
	{"WatchChildren: to begin, there is no znode", steps{iWatchChildren}},
	{"WatchChildren: the znode is created, by a create", steps{oneWatchesChildren, remove("/config"), create("/config")}},
	{"WatchChildren: the data changes, by a setData", steps{oneWatchesChildren, setData}},
	{"WatchChildren: a child is created, by a create", steps{oneWatchesChildren, create("/config/a")}},
	{"WatchChildren: a child is deleted, by a delete", steps{oneWatchesChildren, create("/config/a"), remove("/config/a")}},
	{"WatchChildren: the znode is deleted, by a delete", steps{oneWatchesChildren, remove("/config")}},
}

var clientRows = []row{
	{"Dial", steps{iDial}},
	{"Ping", steps{iPing}},
	{"Close with a lock held", steps{iHold, iClose}},
	{"Close with nothing held", steps{iClose}},
}

// group has n members of their client.
func group(n int) step {
	return func(w *world) {
		for _, name := range recipetest.Names(n) {
			w.memberships = append(w.memberships, w.operator.Joins(w.other, name, ""))
		}
	}
}

func iJoin(w *world)        { w.operator.Joins(w.c, "x", ""); recipetest.Settle() }
func iSee(w *world)         { w.operator.Sees(w.c); recipetest.Settle() }
func theySee(w *world)      { w.operator.Sees(w.other) }
func newcomerSees(w *world) { w.operator.Sees(w.client()) }
func iListMembers(w *world) { _, err := zkrecipes.NewGroup(w.c, "/g").Members(w.ctx()); w.ok(err) }
func updateMember(w *world) {
	w.ok(w.memberships[0].Update(w.ctx(), []byte("new")))
	recipetest.Settle()
}
func leave(w *world) { w.ok(w.memberships[0].Leave()); recipetest.Settle() }

// twoSee a group of twenty.
var twoSee = all(group(20), times(2, newcomerSees))

var groupRows = []row{
	{"Join", steps{group(1), iJoin}},
	{"Join, the path does not exist", steps{iJoin}},
	{"Join: in a new session", steps{group(1), iJoin, settle, newSession}},
	{"Membership.Update", steps{group(1), updateMember}},
	{"Membership.Leave", steps{group(1), leave}},
	{"Members, of three", steps{group(3), iListMembers}},
	{"Watch: to begin, three members", steps{group(3), iSee}},
	{"Watch: to begin, the path does not exist", steps{iSee}},
	{"Watch by two clients, 20 members: one more joins", steps{twoSee, iJoin}},
	{"Watch by two clients, 20 members: one is updated", steps{twoSee, updateMember}},
	{"Watch by two clients, 20 members: one leaves", steps{twoSee, leave}},
	{"Watch by three loops of one client, 20 members: one more joins", steps{group(20), times(3, theySee), iJoin}},
	{"Watch: for an hour", steps{group(3), iSee, settle, pass(time.Hour)}},
}

func iCount(w *world)    { recipetest.Count(w.t, zkrecipes.NewCounter(w.c, "/c"), 1) }
func theyCount(w *world) { recipetest.Count(w.t, zkrecipes.NewCounter(w.other, "/c"), 1) }

// iSwap is a CompareAndSet.
func iSwap(old int64, want bool) step {
	return func(w *world) {
		swapped, err := zkrecipes.NewCounter(w.c, "/c").CompareAndSet(w.ctx(), old, old+1)
		w.ok(err)
		require.Equal(w.t, want, swapped)
	}
}

// manyAdds come while a write is under way.
func manyAdds(w *world) {
	calls := []*harness.Call[int64]{recipetest.CountLater(w.t, zkrecipes.NewCounter(w.c, "/c"), 1)}
	time.Sleep(time.Second / 2)
	for range 64 {
		calls = append(calls, recipetest.CountLater(w.t, zkrecipes.NewCounter(w.c, "/c"), 1))
	}
	for _, a := range calls {
		a.Get()
	}
}

func writesAreSlow(w *world) {
	w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
}

var counterRows = []row{
	{"Add", steps{iCount, iCount}},
	{"Set", steps{iCount, func(w *world) { w.ok(zkrecipes.NewCounter(w.c, "/c").Set(w.ctx(), 7)) }}},
	{"64 Adds of one client while another write is under way, and that write", steps{iCount, writesAreSlow, manyAdds}},
	{"Add, the first of all", steps{iCount}},
	{"Add, the first of another client", steps{theyCount, iCount}},
	{"Add, the first for a minute, and its clean-up", steps{iCount, pass(2 * line.IdleLine), all(iCount, pass(2*line.IdleLine))}},
	{"Add, another client was quicker", steps{iCount, theyCount, iCount}},
	{"CompareAndSet, it swaps", steps{iCount, iSwap(1, true)}},
	{"CompareAndSet, the value is another one", steps{iCount, iSwap(7, false)}},
	{"CompareAndSet, another client has made it so", steps{iCount, theyCount, iSwap(1, false)}},
	{"Get", steps{iCount, func(w *world) { _, err := zkrecipes.NewCounter(w.c, "/c").Get(w.ctx()); w.ok(err) }}},
}
