package costs

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// terms are what steps of elections, lists and evictions leave.
type terms struct {
	term      *zkrecipes.Term
	leader    *zkrecipes.Election
	candidate *harness.Call[*zkrecipes.Term]
	listed    []zkrecipes.Contender
}

func (w *world) election(c *zkrecipes.Client) *zkrecipes.Election {
	return zkrecipes.NewElection(c, "/e")
}

// leads has a client lead that has led before.
func (w *world) leads(c *zkrecipes.Client) {
	w.leader = w.election(c)
	all(campaign, resign, campaign)(w)
}

func iLead(w *world)             { w.leads(w.c) }
func theyLead(w *world)          { w.leads(w.other) }
func campaign(w *world)          { w.term = recipetest.Campaigns(w.t, w.leader, "a") }
func proclaim(w *world)          { w.ok(w.term.Proclaim(w.ctx(), []byte("b"))) }
func resign(w *world)            { w.ok(w.term.Resign()) }
func resignToMe(w *world)        { resign(w); w.candidate.Get() }
func iCampaign(w *world)         { w.candidate = recipetest.CampaignLater(w.t, w.election(w.c), "b") }
func newcomerCampaigns(w *world) { recipetest.CampaignLater(w.t, w.election(w.client()), "c") }
func iObserve(w *world)          { recipetest.Follow(w.t, w.election(w.c)) }
func theyObserve(w *world)       { recipetest.Follow(w.t, w.election(w.other)) }
func newcomerObserves(w *world)  { recipetest.Follow(w.t, w.election(w.client())) }

func secondLead(w *world) {
	ctx, cancel := context.WithTimeout(w.ctx(), time.Millisecond)
	defer cancel()
	err := w.election(w.c).Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return nil })
	require.ErrorIs(w.t, err, context.DeadlineExceeded)
}

var electionRows = []row{
	{"Campaign and Resign, free", steps{iLead, resign, all(campaign, resign)}},
	{"Campaign with a leader", steps{theyLead, iCampaign}},
	{"Resign with one candidate, which leads", steps{theyLead, iCampaign, resignToMe}},
	{"Resign with 20 candidates, one of which leads", steps{theyLead, iCampaign, times(19, newcomerCampaigns), resignToMe}},
	{"Proclaim", steps{iLead, proclaim}},
	{"a term that lasts: the watches on its znodes", steps{iLead, othersIdle, settle}},
	{"... and five Proclaims later", steps{iLead, settle, all(times(5, proclaim), settle)}}, // which fire neither watch
	{"Leader", steps{theyLead, func(w *world) { _, err := w.election(w.c).Leader(w.ctx()); w.ok(err) }}},
	{"Observe: to begin, with a leader", steps{theyLead, iObserve}},
	{"Campaign, seen by three observers", steps{iLead, times(3, newcomerObserves), resign, campaign}},
	{"Proclaim, seen by three observers", steps{iLead, times(3, newcomerObserves), proclaim}},
	{"Resign, seen by three observers", steps{iLead, times(3, newcomerObserves), resign}},
	{"Proclaim, seen by three observers of one client", steps{iLead, times(3, theyObserve), proclaim}},
	{"an observer, for a minute", steps{theyLead, newcomerObserves, settle, pass(time.Minute)}},
	{"Lead, free", steps{iLead, resign, func(w *world) { recipetest.Lead(w.t, w.leader, false) }}},
	{"Lead, the second of a process", steps{theyLead, func(w *world) { recipetest.Lead(w.t, w.election(w.c), false) }, secondLead}},
}

// A list is one of mine.
type list = func(context.Context) ([]zkrecipes.Contender, error)

func ofMutex(w *world) list     { return w.mine.Contenders }
func ofSemaphore(w *world) list { return zkrecipes.NewSemaphore(w.c, "/s", 3).Contenders }
func ofElection(w *world) list  { return w.election(w.c).Contenders }
func ofBarrier(w *world) list   { return zkrecipes.NewBarrier(w.c, "/b", 2).Contenders }
func ofDouble(w *world) list    { return recipetest.Couple(w.c).Contenders }

// iList lists n contenders.
func iList(n int, of func(*world) list) step {
	return func(w *world) {
		synctest.Wait()
		cs, err := of(w)(w.ctx())
		w.ok(err)
		require.Len(w.t, cs, n)
		w.listed = cs
	}
}

// iEvict evicts the i-th contender of the list.
func iEvict(i int) step {
	return func(w *world) {
		evicted, err := w.c.Evict(w.ctx(), w.listed[i], &zkrecipes.EvictOptions{Holder: true})
		w.ok(err)
		require.True(w.t, evicted)
	}
}

// iFind finds one recipe below a path.
func iFind(path string) step {
	return func(w *world) {
		found := 0
		for _, err := range w.c.Recipes(w.ctx(), path, nil) {
			w.ok(err)
			found++
		}
		require.Equal(w.t, 1, found)
	}
}

func theyWaitAtBarrier(w *world) { recipetest.WaitLater(w.t, zkrecipes.NewBarrier(w.other, "/b", 2)) }
func theyWaitToEnter(w *world)   { recipetest.Enter(w.t, recipetest.Couple(w.other)) }

var operatorRows = []row{
	{"Contenders of a lock that is held", steps{theyHold, iList(1, ofMutex)}},
	{"Contenders of a lock that is held and has two waiters", steps{theyHold, theyWait, theyWait, iList(3, ofMutex)}},
	{"Contenders of a semaphore with three slots taken and two waiters", steps{full(3), times(2, newcomerWaitsFor(1, 3)), iList(5, ofSemaphore)}},
	{"... none of whose slots was taken for a minute", steps{theirSlots(3), theyUseSlots(2), pass(time.Minute), iList(0, ofSemaphore)}},
	{"Contenders of an election with a leader and a candidate", steps{theyLead, newcomerCampaigns, iList(2, ofElection)}},
	{"Contenders of a barrier with one member", steps{theyWaitAtBarrier, iList(1, ofBarrier)}},
	{"Contenders of a double barrier with one member", steps{theyWaitToEnter, iList(1, ofDouble)}},
	{"Evict of the last waiter of a line, without what the evicted call does", steps{theyHold, foreignPlace, iList(2, ofMutex), iEvict(1)}},
	{"Evict of the first of two waiters, with what both calls do", steps{theyHold, times(2, newcomerWaits), iList(3, ofMutex), iEvict(1)}},
	{"Evict of the holder", steps{theyHold, iList(1, ofMutex), iEvict(0)}},
	{"Evict of the leader", steps{theyLead, iList(1, ofElection), iEvict(0)}},
	{"Recipes below the path of a mutex with two waiters", steps{theyHold, times(2, newcomerWaits), iFind("/line")}},
	{"... with twenty", steps{theyHold, times(20, newcomerWaits), iFind("/line")}},
	{"... of an rwlock that is held", steps{rw, hold(theirRead), iFind("/rw")}},
	{"... of a semaphore with a slot taken", steps{theirSlots(3), theyAcquire(1), iFind("/s")}},
	{"... of an election with a leader", steps{theyLead, iFind("/e")}},
	{"... of a queue with two items, one of which is taken", steps{theirQueue, put("a", "b"), take, iFind("/q")}},
	{"... of a barrier with a member", steps{theyWaitAtBarrier, iFind("/b")}},
	{"... of a double barrier with a member", steps{theyWaitToEnter, iFind("/d")}},
	{"... of a gate that is shut", steps{theyShut, iFind("/gate")}},
	{"... of a group with three members", steps{group(3), iFind("/g")}},
	{"... of a counter", steps{theyCount, pass(time.Second), iFind("/c")}},
}
