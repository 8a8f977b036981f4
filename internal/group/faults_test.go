package group_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults that hit groups.

// The table of faults (recipetest.Faults): nothing is left of a member that left, or whose Join
// was canceled.
func TestGroupUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.GroupDriver())
}

// Whatever happens to any request, the member is there with its last data, watchers see it
// in the end, and nothing is left after Leave.
func TestAMemberSurvivesAMishapAtAnyRequest(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
			w.Plan.Add(fault)
			r := w.Sees(b)
			m := w.Joins(a, "1", "x")
			other := w.Joins(b, "2", "y")
			time.Sleep(time.Minute)
			require.Equal(t, "1=x 2=y", r.Last())
			require.NoError(t, m.Update(harness.Within(t, 5*time.Minute), []byte("x2")))
			time.Sleep(time.Minute)
			require.Equal(t, "1=x2 2=y", r.Last())
			require.NoError(t, m.Leave())
			time.Sleep(time.Minute)
			require.Equal(t, "2=y", r.Last())
			require.NoError(t, other.Leave())
			time.Sleep(time.Minute)
			require.Equal(t, "", r.Last())
			require.Zero(t, a.Status().Znodes)
			require.Zero(t, b.Status().Znodes)
			met = w.Met()
		})
		return met
	})
}

// The reply to the create is lost, and before the member finds its znode, an event comes late that
// says that the one of the session before has gone. What the session weighs is counted still.
func TestAMemberWhoseReplyIsLostCountsForTheSession(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, b *zkrecipes.Client) {
		require.NoError(t, w.Joins(b, "0", "").Leave())
		link := harness.NewLink(w.Srv)
		a := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "create2"}, zktest.Fault{Do: zktest.Delay, Op: "getEphemerals", For: 2 * time.Second})
		later := w.JoinsLater(a, "1", "x")
		time.Sleep(time.Second)
		require.Equal(t, 1, w.Plan.Fired()["delay before"], "the client asks what it has")
		link.Deliver(jute.EventDeleted, w.Path+"/1")
		m := later.Get()
		require.Equal(t, 1, a.Status().Znodes)
		require.NoError(t, m.Leave())
		require.Zero(t, a.Status().Znodes)
	})
}

// A watcher's session ends when it has listed the group, and before it has read who
// has come.
func TestAGroupsWatcherYieldsWhatHasChangedBeforeItsSessionEnded(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Joins(a, "0", "stays")
		leaves, comes := w.Joins(a, "1", "x"), w.Stranger(nil)
		r := w.Sees(b)
		w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: "getData", Path: w.Path + "/2"})
		require.NoError(t, leaves.Leave())
		m := w.Joins(comes, "2", "y")
		w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		recipetest.Settle()
		require.Equal(t, "0=stays 1=x", r.Last())
		require.NoError(t, m.Leave())
		w.Back()
		time.Sleep(time.Minute)
		require.Equal(t, "0=stays", r.Last())
	})
}
