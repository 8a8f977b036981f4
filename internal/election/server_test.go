package election_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Elections on the shared server, which may be a real one.

func TestRealAnElectionIsHandedOverReplacedAndObserved(t *testing.T) {
	path, ctx, raw := harness.NewPath(t), harness.Within(t, 2*time.Minute), harness.Raw(t)
	a, b, watcher := zkrecipes.NewElection(recipetest.Dial(t, nil), path), zkrecipes.NewElection(recipetest.Dial(t, nil), path), zkrecipes.NewElection(recipetest.Dial(t, nil), path)
	seen := recipetest.Yields(t, watcher.Observe, func(l zkrecipes.Leader) string { return fmt.Sprint(string(l.Value), l.Token) })
	sees := func(value string, token zkrecipes.Token) { t.Helper(); seen(fmt.Sprint(value, token)) }
	sees("", 0)
	first := recipetest.Campaigns(t, a, "a")
	sees("a", first.Token())
	require.NoError(t, first.Proclaim(ctx, []byte("a2")))
	sees("a2", first.Token())
	require.NoError(t, first.Resign())
	sees("", 0)

	second := recipetest.Campaigns(t, b, "b")
	sees("b", second.Token())
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, raw.Delete(second.Checks()[0].Path, -1)) // not watched yet
	third := recipetest.Campaigns(t, a, "c")                    // replaces what the evicted leader left
	sees("c", third.Token())
	require.Greater(t, third.Token(), second.Token())
	harness.Eventually(t, "the term is lost", func() bool { return second.Err() != nil })
	require.ErrorIs(t, second.Resign(), zkrecipes.ErrLost)

	require.NoError(t, raw.Delete(path+election.LeaderName, -1))
	harness.Eventually(t, "the term is lost", func() bool { return third.Err() != nil })
	sees("", 0)
	last := recipetest.Campaigns(t, b, "d")
	sees("d", last.Token())
	_, stat, err := raw.Get(path + election.LeaderName)
	require.NoError(t, err)
	require.Equal(t, recipetest.NewToken(stat.Czxid, 0), last.Token())
	// A write of somebody who may is no resignation
	_, err = raw.Set(path+election.LeaderName, nil, -1)
	require.NoError(t, err)
	_, err = last.Commit(t.Context())
	require.NoError(t, err)
	require.NoError(t, last.Resign())
	sees("", 0)
	require.Empty(t, harness.Children(t, raw, path))
}
