package recipetest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// InGroupBubble runs f in a bubble with two clients.
func InGroupBubble(t *testing.T, f func(t *testing.T, w *WatchWorld, a, b *zkrecipes.Client), opts ...zktest.Option) {
	InWatchBubble(t, func(t *testing.T, w *WatchWorld, a, b *zkrecipes.Client) {
		w.Path = "/app/members"
		f(t, w, a, b)
	}, opts...)
}

// Joins joins the world's group and fails the test if it cannot.
func (w *WatchWorld) Joins(c *zkrecipes.Client, id, data string) *zkrecipes.Membership {
	w.T.Helper()
	m, err := zkrecipes.NewGroup(c, w.Path).Join(harness.Within(w.T, 5*time.Minute), []byte(data), zkrecipes.MemberID(id))
	require.NoError(w.T, err)
	return m
}

// JoinsLater joins in the background, and returns once the call sleeps.
func (w *WatchWorld) JoinsLater(c *zkrecipes.Client, id, data string) *harness.Call[*zkrecipes.Membership] {
	return settled(harness.Go(w.T, func(ctx context.Context) (*zkrecipes.Membership, error) {
		return zkrecipes.NewGroup(c, w.Path).Join(ctx, []byte(data), zkrecipes.MemberID(id))
	}))
}

// TextOf returns the members as "id=data ..".
func TextOf(ms []zkrecipes.Member) string {
	var all []string
	for _, m := range ms {
		all = append(all, fmt.Sprintf("%s=%s", m.ID, m.Data))
	}
	return strings.Join(all, " ")
}

// Sees reads what Group.Watch yields.
func (w *WatchWorld) Sees(c *zkrecipes.Client) *Readout {
	return read(w.T, func(ctx context.Context) iter.Seq2[[]zkrecipes.Member, error] {
		return zkrecipes.NewGroup(c, w.Path).Watch(ctx)
	}, TextOf)
}

// MembersAre requires that Members returns these.
func (w *WatchWorld) MembersAre(c *zkrecipes.Client, want string) {
	w.T.Helper()
	ms, err := zkrecipes.NewGroup(c, w.Path).Members(harness.Within(w.T, time.Minute))
	require.NoError(w.T, err)
	require.Equal(w.T, want, TextOf(ms))
}

// Settle waits until watchers have read what has happened.
func Settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}
