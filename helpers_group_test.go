package zkrecipes

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// inGroupBubble runs f in a bubble with two clients.
func inGroupBubble(t *testing.T, f func(t *testing.T, w *watchWorld, a, b *Client), opts ...zktest.Option) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		w.path = "/app/members"
		f(t, w, a, b)
	}, opts...)
}

// joins joins the world's group and fails the test if it cannot.
func (w *watchWorld) joins(c *Client, id, data string) *Membership {
	w.t.Helper()
	m, err := NewGroup(c, w.path).Join(harness.Within(w.t, 5*time.Minute), []byte(data), MemberID(id))
	require.NoError(w.t, err)
	return m
}

// joinsLater joins in the background, and returns once the call sleeps.
func (w *watchWorld) joinsLater(c *Client, id, data string) *harness.Call[*Membership] {
	a := harness.Go(w.t, func(ctx context.Context) (*Membership, error) {
		return NewGroup(c, w.path).Join(ctx, []byte(data), MemberID(id))
	})
	synctest.Wait()
	return a
}

// textOf returns the members as "id=data ..".
func textOf(ms []Member) string {
	var all []string
	for _, m := range ms {
		all = append(all, fmt.Sprintf("%s=%s", m.ID, m.Data))
	}
	return strings.Join(all, " ")
}

// sees reads what Group.Watch yields.
func (w *watchWorld) sees(c *Client) *readout {
	return read(w.t, func(ctx context.Context) iter.Seq2[[]Member, error] { return NewGroup(c, w.path).Watch(ctx) }, textOf)
}

// membersAre requires that Members returns these.
func (w *watchWorld) membersAre(c *Client, want string) {
	w.t.Helper()
	ms, err := NewGroup(c, w.path).Members(harness.Within(w.t, time.Minute))
	require.NoError(w.t, err)
	require.Equal(w.t, want, textOf(ms))
}

// settle waits until watchers have read what has happened.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}
