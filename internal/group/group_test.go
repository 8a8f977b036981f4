package group_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/group"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Who is in a group.

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

func TestOneOfSeveralConcurrentJoinsWithTheSameIDIsThere(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		for range 600 {
			joined := make(chan *zkrecipes.Membership, 4)
			begin := make(chan struct{})
			for range cap(joined) {
				go func() {
					<-begin
					m, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID("1"))
					if err != nil {
						assert.ErrorIs(t, err, zk.ErrNodeExists)
					}
					joined <- m
				}()
			}
			close(begin)
			members, there := 0, (*zkrecipes.Membership)(nil)
			for range cap(joined) {
				if m := <-joined; m != nil {
					members++
					there = m
				}
			}
			require.Equal(t, 1, members)
			require.NoError(t, there.Leave())
		}
	})
}

// A process is restarted: the znode of its old session is there until that has timed out.
func TestJoinWaitsForTheEndOfTheSessionBefore(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Joins(a, "1", "old")
		w.Away(a)
		require.ErrorIs(t, a.Close(), zkrecipes.ErrSessionNotClosed)
		w.Back()
		began := time.Now()
		next := w.JoinsLater(b, "1", "new")
		require.True(t, next.Waiting())
		next.Get()
		require.InDelta(t, recipetest.DefaultSessionTimeout, time.Since(began), float64(2*time.Second))
		w.MembersAre(b, "1=new")
	})
}

func TestAMemberWhoseZnodeIsDeletedIsBack(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		m := w.Joins(a, "1", "x")
		w.Deletes(w.Path + "/1")
		synctest.Wait()
		w.MembersAre(b, "1=x")
		require.NoError(t, m.Leave())
		w.MembersAre(b, "")
	})
}

// An operator deletes the path, and the znode, which another member with the same id creates
// first. Leave deletes nothing of it.
func TestAMemberDoesNotDeleteTheZnodeOfAnotherOne(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		m := w.Joins(a, "1", "a")
		w.Away(a)
		require.NoError(t, w.Operator.Delete(w.Path+"/1", -1))
		other := w.Joins(b, "1", "b")
		w.Back()
		time.Sleep(20 * time.Second)
		_, before, err := w.Operator.Get(w.Path + "/1")
		require.NoError(t, err)
		require.NoError(t, m.Leave())
		synctest.Wait()
		_, after, err := w.Operator.Get(w.Path + "/1")
		require.NoError(t, err)
		require.Equal(t, before, after)
		w.MembersAre(b, "1=b")
		require.NoError(t, other.Leave())
		w.MembersAre(b, "")
	})
}

// It has happened while the member was away, and Update or Leave was called before it was back.
func TestACallWhileDisconnectedLeavesTheZnodeOfAnotherOneAlone(t *testing.T) {
	requests := map[string]string{"Update": "setData", "Leave": "delete"}
	for name, call := range map[string]func(ctx context.Context, m *zkrecipes.Membership) error{
		"Update": func(ctx context.Context, m *zkrecipes.Membership) error { return m.Update(ctx, []byte("x")) },
		"Leave":  func(_ context.Context, m *zkrecipes.Membership) error { return m.Leave() },
	} {
		for how, begin := range map[string]func(w *recipetest.WatchWorld, a *zkrecipes.Client, called func()){
			"called while away": func(w *recipetest.WatchWorld, a *zkrecipes.Client, called func()) { w.Away(a); called() },
			"request lost": func(w *recipetest.WatchWorld, a *zkrecipes.Client, called func()) {
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: requests[name], Path: w.Path + "/1"}, zktest.Fault{Do: zktest.Refuse, Times: -1})
				called()
				require.False(w.T, a.Status().Connected)
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
					m := w.Joins(a, "1", "a")
					var c *harness.Call[struct{}]
					begin(w, a, func() {
						c = harness.GoErr(t, func(ctx context.Context) error { return call(ctx, m) })
						synctest.Wait()
					})
					w.Deletes(w.Path + "/1")
					other := w.Joins(b, "1", "b")
					_, before, err := w.Operator.Get(w.Path + "/1")
					require.NoError(t, err)
					w.Back()
					time.Sleep(20 * time.Second)
					_, after, err := w.Operator.Get(w.Path + "/1")
					require.NoError(t, err)
					require.Equal(t, before, after)
					w.MembersAre(b, "1=b")
					require.Equal(t, name == "Update", c.Waiting(), "until the data are there")
					require.NoError(t, other.Leave())
					c.Get()
					if name == "Update" {
						w.MembersAre(b, "1=x")
					} else {
						w.MembersAre(b, "")
					}
				})
			})
		}
	}
}

// Leave looks whose znode it is, since an earlier delete was lost. The answer is an outage old.
func TestALookBeforeAnOutageDoesNotLetLeaveDeleteTheZnodeOfAnotherOne(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, b *zkrecipes.Client) {
		link := harness.NewLink(w.Srv)
		a := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		m := w.Joins(a, "1", "a")
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete", Path: w.Path + "/1"})
		var before *zk.Stat
		w.AwayBehindTheReplyTo(a, link, "exists", w.Path+"/1", func() { require.NoError(t, m.Leave()) }, func() {
			require.NoError(t, w.Operator.Delete(w.Path+"/1", -1))
			w.Joins(b, "1", "b")
			var err error
			_, before, err = w.Operator.Get(w.Path + "/1")
			require.NoError(t, err)
		})
		time.Sleep(20 * time.Second)
		_, after, err := w.Operator.Get(w.Path + "/1")
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

func TestLeaveWhileDisconnectedReturnsAtOnceAndTheNextJoinWaitsForIt(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		m := w.Joins(a, "1", "x")
		w.Away(a)
		began := time.Now()
		require.NoError(t, m.Leave())
		require.Zero(t, time.Since(began))
		w.MembersAre(b, "1=x")
		next := w.JoinsLater(a, "1", "y")
		require.True(t, next.Waiting())
		w.Back()
		m = next.Get()
		w.MembersAre(b, "1=y")
		require.NoError(t, m.Leave())
		w.MembersAre(b, "")
	})
}

func TestAZnodeThatIsNotEphemeralIsNoMember(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		require.NoError(t, w.Joins(b, "1", "").Leave())
		w.Creates(w.Path+"/1", "somebody's")
		_, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID("1"))
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.Equal(t, "somebody's", w.Text(w.Path+"/1"))
	})
}

// A thousand members restart within a second. Listings of each watcher are a pause apart
// at least, and each new member is read once.
func TestAThousandMembersThatRestartTakeFewListings(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		const n, clients = 1000, 20
		members := make([][]*zkrecipes.Membership, clients)
		owners := make([]*zkrecipes.Client, clients)
		for i := range members {
			owners[i] = w.Stranger(nil)
			for j := range n / clients {
				members[i] = append(members[i], w.Joins(owners[i], fmt.Sprintf("%d-%d", i, j), "old"))
			}
		}
		readers := []*recipetest.Readout{w.Sees(a), w.Sees(b)}
		recipetest.Settle()
		began := time.Now()
		counts := w.ReadsOf(func() {
			for i := range members {
				for j, m := range members[i] {
					require.NoError(t, m.Leave())
					members[i][j] = w.Joins(owners[i], m.ID(), "new")
					time.Sleep(time.Millisecond)
				}
			}
			recipetest.Settle()
		})
		rounds := int(time.Since(began)/group.Pause) + 1
		require.LessOrEqual(t, counts["getChildren2"]-n, len(readers)*rounds, "without those of the members themselves")
		require.LessOrEqual(t, counts["getData"], len(readers)*2*n)
		for _, r := range readers {
			require.LessOrEqual(t, len(r.Texts()), rounds+1)
			require.NotContains(t, r.Last(), "old")
			require.Len(t, r.Last(), len(readers[0].Last()))
		}
		require.LessOrEqual(t, rounds, 30)
	})
}
