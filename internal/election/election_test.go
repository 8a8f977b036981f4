package election_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What users of elections rely on.

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// each runs f for each case, in a bubble of its own.
func each[C any](t *testing.T, cases map[string]C, f func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election, c C)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) { f(t, w, a, b, c) })
		})
	}
}

// The table of faults
func TestElectionUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.ElectionDriver())
}

// mayDo has an operator set what everybody may do at the election's path.
func mayDo(w *recipetest.ElectionWorld, perms int32) {
	w.T.Helper()
	_, err := w.Operator.SetACL(w.Path, zk.WorldACL(perms), -1)
	require.NoError(w.T, err)
}

func TestAProclamationWhoseReplyIsLostIsMade(t *testing.T) {
	replies := map[string]bool{"applied": true, "not applied": false}
	each(t, replies, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election, after bool) {
		term := recipetest.Campaigns(t, a, "a")
		o := recipetest.Follow(t, b)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpProclaim, Times: 2})
		require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
		w.LeaderIs("a2")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a", "a2"}, o.Texts())
		require.NoError(t, term.Resign())
	})
}

// The servers refuse the resignation until the operator gives the permission back.
func TestAResignationThatIsRefusedIsTriedAgain(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		mayDo(w, zk.PermAll&^zk.PermDelete)
		require.ErrorIs(t, term.Resign(), zk.ErrNoAuth)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrReleased)
		w.LeaderIs("a")
		next := recipetest.CampaignLater(t, b, "b")
		time.Sleep(time.Second)
		require.True(t, next.Waiting())
		mayDo(w, zk.PermAll)
		second := next.Get()
		w.LeaderIs("b")
		require.NoError(t, second.Resign())
		w.NoLeader()
	})
}

func TestAnElectionThatIsRefusedReturnsNoAuth(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		mayDo(w, zk.PermRead|zk.PermWrite|zk.PermDelete)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "zkrecipes: campaign "+w.Path)
		err = b.Lead(t.Context(), nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		require.ErrorIs(t, err, zk.ErrNoAuth)
		w.NoLeader()
	})
}

func TestAValueAboveTheSizeLimitIsRefusedBeforeItIsSent(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.Empty(t, w.Requests(func() {
			_, err := a.Campaign(t.Context(), make([]byte, jute.MaxFrame))
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
			err = a.Lead(t.Context(), make([]byte, jute.MaxFrame), func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		}))
		largest := largestValue(w.NewCore().MutexLine(w.Path))
		term, err := a.Campaign(t.Context(), make([]byte, largest))
		require.NoError(t, err)
		seen, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Len(t, seen.Value, largest)
		require.ErrorIs(t, term.Proclaim(t.Context(), make([]byte, jute.MaxFrame)), zkrecipes.ErrTooLarge)
		require.NoError(t, term.Err())
		require.NoError(t, term.Resign())
	})
}

// largestValue returns the size of the largest value.
func largestValue(l *line.Line) int {
	n := jute.MaxFrame
	for errors.Is(election.CheckValue(l, make([]byte, n)), zkconn.ErrTooLarge) {
		n--
	}
	return n
}
