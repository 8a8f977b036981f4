package zkrecipes

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Who is in a group.

func TestWatchersOfAGroupSeeWhoComesAndLeaves(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		r := w.sees(b) // the path does not exist yet
		m := w.joins(a, "1", "x")
		settle()
		other := w.joins(b, "2", "y")
		settle()
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		settle()
		require.NoError(t, m.Leave())
		settle()
		require.NoError(t, other.Leave())
		settle()
		require.Equal(t, []string{"", "1=x", "1=x 2=y", "1=x2 2=y", "2=y", ""}, r.texts())
		r.stop()
		require.ErrorIs(t, r.ended(), context.Canceled)
		require.ErrorContains(t, r.err, "zkrecipes: watch /app/members: ")
	})
}

func TestAMemberIsListedWithSessionAndTime(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		ms, err := NewGroup(b, w.path).Members(t.Context())
		require.NoError(t, err)
		require.Empty(t, ms, "the path does not exist")
		began := time.Now()
		m := w.joins(a, "1", "x")
		require.Equal(t, "1", m.ID())
		time.Sleep(time.Hour)
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		ms, err = NewGroup(b, w.path).Members(t.Context())
		require.NoError(t, err)
		require.Len(t, ms, 1)
		require.Equal(t, sessionID(a), ms[0].Session)
		require.WithinDuration(t, began, ms[0].Since, time.Second)
		require.Equal(t, "x2", string(ms[0].Data))
		for seen, err := range NewGroup(b, w.path).Watch(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, ms, seen)
			break
		}
	})
}

// The layout is that of Curator's GroupMember: nothing but the members stands below the path,
// their names are the ids, and their values the data, which are never null.
func TestAGroupHasCuratorsLayout(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.joins(a, "1", "x")
		m, err := NewGroup(a, w.path).Join(t.Context(), nil, MemberID("2"))
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"1", "2"}, w.srv.Children(w.path))
		data, stat, err := w.operator.Get(w.path + "/1")
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		require.Equal(t, sessionID(a), stat.EphemeralOwner)
		require.Contains(t, w.srv.Tree(), w.path+"/2 \"\"")
		require.NoError(t, m.Update(t.Context(), nil))
		require.Contains(t, w.srv.Tree(), w.path+"/2 \"\"")
		data, _, err = w.operator.Get(w.path)
		require.NoError(t, err)
		require.Empty(t, data)
		_, err = w.operator.Create(w.path+"/curator", []byte("z"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		w.membersAre(a, "1=x 2= curator=z")
	})
}

// Options.Identity is often not unique. The id is.
func TestTheIDOfAMemberIsUniqueByDefault(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
		for identity, prefix := range map[string]string{
			"host:1":                 "host:1-",
			"a/b":                    "",
			strings.Repeat("x", 100): "",
		} {
			c := w.stranger(&Options{Identity: identity})
			ids := map[string]bool{}
			for range 3 {
				m, err := NewGroup(c, w.path).Join(t.Context(), nil)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(m.ID(), prefix), m.ID())
				require.Less(t, len(m.ID()), 100)
				ids[m.ID()] = true
			}
			require.Len(t, ids, 3)
		}
	})
}

func TestB104AMemberIsBackInTheNextSession(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		m := w.joins(a, "1", "x")
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		r := w.sees(b)
		w.srv.Expire(sessionID(a))
		time.Sleep(time.Minute)
		w.membersAre(b, "1=x2")
		require.Equal(t, "1=x2", r.last())
		ms, err := NewGroup(b, w.path).Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, sessionID(a), ms[0].Session)
		require.NoError(t, m.Update(t.Context(), []byte("x3")))
		w.away(a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, m.Update(ctx, []byte("x4")), context.DeadlineExceeded)
		time.Sleep(time.Minute) // the session expires
		require.Equal(t, "", r.last())
		w.back()
		time.Sleep(time.Minute)
		require.Equal(t, "1=x4", r.last())
	})
}

// A process is restarted: the znode of its old session is there until that has timed out.
func TestB04JoinWaitsForTheEndOfTheSessionBefore(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		w.joins(a, "1", "old")
		w.away(a)
		require.ErrorIs(t, a.Close(), ErrSessionNotClosed)
		w.back()
		began := time.Now()
		next := w.joinsLater(b, "1", "new")
		require.True(t, next.Waiting())
		next.Get()
		require.InDelta(t, defaultSessionTimeout, time.Since(began), float64(2*time.Second))
		w.membersAre(b, "1=new")
	})
}

func TestAMemberWhoseZnodeIsDeletedIsBack(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		m := w.joins(a, "1", "x")
		w.deletes(w.path + "/1")
		synctest.Wait()
		w.membersAre(b, "1=x")
		require.NoError(t, m.Leave())
		w.membersAre(b, "")
	})
}

// An operator deletes the path, and the znode, which another member with the same id creates
// first. Leave deletes nothing of it.
func TestAMemberDoesNotDeleteTheZnodeOfAnotherOne(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		m := w.joins(a, "1", "a")
		w.away(a)
		require.NoError(t, w.operator.Delete(w.path+"/1", -1))
		other := w.joins(b, "1", "b")
		w.back()
		time.Sleep(20 * time.Second)
		_, before, err := w.operator.Get(w.path + "/1")
		require.NoError(t, err)
		require.NoError(t, m.Leave())
		synctest.Wait()
		_, after, err := w.operator.Get(w.path + "/1")
		require.NoError(t, err)
		require.Equal(t, before, after)
		w.membersAre(b, "1=b")
		require.NoError(t, other.Leave())
		w.membersAre(b, "")
	})
}

func TestAClientsSecondMemberWithAnIDIsRefused(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		m := w.joins(a, "1", "x")
		_, err := NewGroup(a, w.path).Join(t.Context(), nil, MemberID("1"))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "zkrecipes: join /app/members: this Client has a member with that id")
		require.NoError(t, m.Leave())
		require.NoError(t, w.joins(a, "1", "y").Leave())
	})
}

func TestLeaveEndsTheMembership(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		m := w.joins(a, "1", "x")
		require.NoError(t, m.Leave())
		require.NoError(t, m.Leave())
		require.ErrorContains(t, m.Update(t.Context(), nil), "zkrecipes: update /app/members: the member has left")
		w.srv.Expire(sessionID(a))
		time.Sleep(time.Minute)
		w.membersAre(b, "")
		require.Zero(t, a.Status().Znodes)
	})
}

func TestB08LeaveWhileDisconnected(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		m := w.joins(a, "1", "x")
		w.away(a)
		began := time.Now()
		require.NoError(t, m.Leave())
		require.Zero(t, time.Since(began))
		w.membersAre(b, "1=x")
		next := w.joinsLater(a, "1", "y")
		require.True(t, next.Waiting())
		w.back()
		m = next.Get()
		w.membersAre(b, "1=y")
		require.NoError(t, m.Leave())
		w.membersAre(b, "")
	})
}

func TestJoinThatIsCanceledLeavesNoMember(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		other := w.joins(b, "1", "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := NewGroup(a, w.path).Join(ctx, nil, MemberID("1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, other.Leave())
		time.Sleep(time.Minute)
		w.membersAre(b, "")
	})
}

func TestCloseEndsTheMembers(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		m, r := w.joins(a, "1", "x"), w.sees(b)
		waits := w.joinsLater(a, "2", "")
		waits.Get()
		require.NoError(t, a.Close())
		settle()
		require.Equal(t, "", r.last())
		require.ErrorIs(t, m.Update(t.Context(), nil), ErrClosed)
		require.NoError(t, m.Leave())
		_, err := NewGroup(a, w.path).Join(t.Context(), nil)
		require.ErrorIs(t, err, ErrClosed)
		other := w.joins(b, "1", "")
		require.NoError(t, b.Shutdown(t.Context()), "a member is no grant")
		require.ErrorIs(t, other.Update(t.Context(), nil), ErrClosed)
	})
}

func TestAZnodeThatIsNotEphemeralIsNoMember(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		require.NoError(t, w.joins(b, "1", "").Leave())
		w.creates(w.path+"/1", "somebody's")
		_, err := NewGroup(a, w.path).Join(t.Context(), nil, MemberID("1"))
		require.ErrorIs(t, err, ErrPathInUse)
		data, _, err := w.operator.Get(w.path + "/1")
		require.NoError(t, err)
		require.Equal(t, "somebody's", string(data))
	})
}

func TestAMemberThatMayNotJoinGetsNoAuth(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		w.creates("/app", "")
		require.NoError(t, w.operator.AddAuth("digest", []byte("owner:x")))
		_, err := w.operator.Create(w.path, nil, 0, append(zk.DigestACL(zk.PermAll, "owner", "x"), zk.WorldACL(zk.PermRead)...))
		require.NoError(t, err)
		_, err = NewGroup(a, w.path).Join(t.Context(), nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = w.operator.Create(w.path+"/secret", []byte("x"), zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		w.membersAre(b, "secret=")
		require.Equal(t, "secret=", w.sees(b).last())
	})
}

func TestAMemberThatTheSessionHasNoRoomForIsRefused(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, _, b *Client) {
		c := w.stranger(&Options{MaxBuffer: 1100})
		var err error
		n := 0
		for ; err == nil; n++ {
			require.Less(t, n, 100)
			_, err = NewGroup(c, w.path).Join(t.Context(), nil)
		}
		require.ErrorIs(t, err, ErrSessionFull)
		ms, err := NewGroup(b, w.path).Members(t.Context())
		require.NoError(t, err)
		require.Len(t, ms, n-1)
		require.Equal(t, n-1, c.Status().Znodes)
	})
}

func TestGroupsRefuseBadInput(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		m := w.joins(a, "1", "")
		var noContext context.Context
		require.Empty(t, w.requests(func() {
			for name, test := range map[string]struct {
				g    *Group
				ctx  context.Context
				text string
			}{
				"nil group":   {nil, t.Context(), "not made by its constructor"},
				"zero value":  {&Group{}, t.Context(), "not made by its constructor"},
				"nil client":  {NewGroup(nil, "/a"), t.Context(), "nil client"},
				"nil context": {NewGroup(a, "/a"), noContext, "nil context"},
				"no path":     {NewGroup(a, ""), t.Context(), "path is empty"},
				"the root":    {NewGroup(a, "/"), t.Context(), "path is the root"},
			} {
				_, err := test.g.Join(test.ctx, nil)
				require.ErrorContains(t, err, test.text, name)
				_, err = test.g.Members(test.ctx)
				require.ErrorContains(t, err, test.text, name)
				for _, err = range test.g.Watch(test.ctx) {
				}
				require.ErrorContains(t, err, test.text, name)
			}
			for _, id := range []string{"", "a/b", ".", "..", "a\x00", "/"} {
				_, err := NewGroup(a, w.path).Join(t.Context(), nil, MemberID(id))
				require.ErrorIs(t, err, ErrInvalidPath, id)
			}
			_, err := NewGroup(a, w.path).Join(t.Context(), make([]byte, jute.MaxFrame))
			require.ErrorIs(t, err, ErrTooLarge)
			require.ErrorIs(t, m.Update(t.Context(), make([]byte, jute.MaxFrame)), ErrTooLarge)
			require.ErrorContains(t, m.Update(noContext, nil), "nil context")
			for _, zero := range []*Membership{nil, {}} {
				require.ErrorContains(t, zero.Update(t.Context(), nil), "not made by Join")
				require.ErrorContains(t, zero.Leave(), "not made by Join")
				require.Empty(t, zero.ID())
			}
		}))
	})
}
