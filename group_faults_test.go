package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults that hit groups.

// Whatever happens to any request, the member is there with its last data, watchers see it in
// the end, and nothing is left after Leave.
func TestB104AMemberSurvivesAMishapAtAnyRequest(t *testing.T) {
	eachRequest(t, mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
			w.plan.Add(fault)
			r := w.sees(b)
			m := w.joins(a, "1", "x")
			other := w.joins(b, "2", "y")
			time.Sleep(time.Minute)
			require.Equal(t, "1=x 2=y", r.last())
			require.NoError(t, m.Update(harness.Within(t, 5*time.Minute), []byte("x2")))
			time.Sleep(time.Minute)
			require.Equal(t, "1=x2 2=y", r.last())
			require.NoError(t, m.Leave())
			time.Sleep(time.Minute)
			require.Equal(t, "2=y", r.last())
			require.NoError(t, other.Leave())
			time.Sleep(time.Minute)
			require.Equal(t, "", r.last())
			require.Zero(t, a.Status().Znodes)
			require.Zero(t, b.Status().Znodes)
			met = w.met()
		})
		return met
	})
}

// As before, and the context of Join, or of Update, ends while the fault lasts.
func TestB104AJoinThatIsCanceledAtAnyRequestLeavesNoMember(t *testing.T) {
	for _, fault := range mishaps {
		for skip := range 4 {
			fault.Skip = skip
			t.Run(fmt.Sprint(fault), func(t *testing.T) {
				inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
					w.plan.Add(fault)
					ctx, cancel := context.WithCancel(t.Context())
					g := NewGroup(a, w.path)
					done := make(chan *Membership)
					go func() {
						m, _ := g.Join(ctx, nil)
						done <- m
					}()
					synctest.Wait()
					cancel()
					if m := <-done; m != nil {
						_ = m.Leave()
					}
					time.Sleep(time.Minute)
					w.membersAre(b, "")
					require.Zero(t, a.Status().Znodes)
				})
			})
		}
	}
}

// The reply to the create is lost. The member finds its znode, and does not take that of
// another session for it.
func TestB01AMemberWhoseReplyIsLostIsThereOnce(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		require.NoError(t, w.joins(b, "0", "").Leave())
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "multi(create)"})
		m := w.joins(a, "1", "x")
		w.membersAre(b, "1=x")
		require.Equal(t, 1, a.Status().Znodes)
		require.NoError(t, m.Leave())
		w.membersAre(b, "")
	})
}

// The reply to the create is lost, and before the member finds its znode, an event comes late that
// says that the one of the session before has gone. What the session weighs is counted still.
func TestAMemberWhoseReplyIsLostCountsForTheSession(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		require.NoError(t, w.joins(b, "0", "").Leave())
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "multi(create)"})
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		later := w.joinsLater(a, "1", "x")
		spurious(a, w.path+"/1", jute.EventDeleted)
		w.back()
		m := later.Get()
		require.Equal(t, 1, a.Status().Znodes)
		require.NoError(t, m.Leave())
		require.Zero(t, a.Status().Znodes)
	})
}

// A watcher's next server lags.
func TestB103AGroupsWatcherMeetsAServerThatLags(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		c := w.stranger(nil)
		m := w.joins(a, "1", "x")
		r := w.sees(c)
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		time.Sleep(10 * time.Second)
		require.NoError(t, m.Leave())
		time.Sleep(10 * time.Second)
		want := []string{"1=x", "1=x2", ""}
		require.Equal(t, want, r.texts())
		w.srv.Expire(sessionID(c))
		time.Sleep(time.Minute)
		require.Equal(t, want, r.texts())
	}, behind(3, 20))
}

// The server computes the library's identity by another algorithm, so the member may not write
// its own znode.
func TestAMemberThatMayNotWriteItsZnodeReplacesIt(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, _, b *Client) {
		read := zk.WorldACL(zk.PermRead | zk.PermCreate | zk.PermDelete)
		c := w.stranger(&Options{ACL: read})
		s, _ := c.client.Session()
		s.OwnWriteFailed(zk.ErrNoAuth) // what it creates has Options.ACL from now on
		m := w.joins(c, "1", "x")
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		settle()
		w.membersAre(b, "1=x2")
		require.NoError(t, m.Update(t.Context(), []byte("x3")))
		w.membersAre(b, "1=x3")
		require.NoError(t, m.Leave())
		w.membersAre(b, "")
	})
}

// A watcher's session ends when it has listed the group, and before it has read who has come.
func TestB103AGroupsWatcherYieldsWhatHasChangedBeforeItsSessionEnded(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		w.joins(a, "0", "stays")
		leaves, comes := w.joins(a, "1", "x"), w.stranger(nil)
		r := w.sees(b)
		w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: "getData", Path: w.path + "/2"})
		require.NoError(t, leaves.Leave())
		m := w.joins(comes, "2", "y")
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		settle()
		require.Equal(t, "0=stays 1=x", r.last())
		require.NoError(t, m.Leave())
		w.back()
		time.Sleep(time.Minute)
		require.Equal(t, "0=stays", r.last())
	})
}
