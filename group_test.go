package zkrecipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestWatchersOfAGroupSeeWhoComesAndLeaves(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		r := w.Sees(b) // the path does not exist yet
		m := w.Joins(a, "1", "x")
		recipetest.Settle()
		other := w.Joins(b, "2", "y")
		recipetest.Settle()
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		recipetest.Settle()
		require.NoError(t, m.Leave())
		recipetest.Settle()
		require.NoError(t, other.Leave())
		recipetest.Settle()
		require.Equal(t, []string{"", "1=x", "1=x 2=y", "1=x2 2=y", "2=y", ""}, r.Texts())
		r.Stop()
		require.ErrorIs(t, r.Ended(), context.Canceled)
		require.ErrorContains(t, r.Err, "zkrecipes: watch /app/members: ")
	})
}

func TestAMemberIsListedWithSessionAndTime(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		ms, err := zkrecipes.NewGroup(b, w.Path).Members(t.Context())
		require.NoError(t, err)
		require.Empty(t, ms, "the path does not exist")
		began := time.Now()
		m := w.Joins(a, "1", "x")
		require.Equal(t, "1", m.ID())
		time.Sleep(time.Hour)
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		ms, err = zkrecipes.NewGroup(b, w.Path).Members(t.Context())
		require.NoError(t, err)
		require.Len(t, ms, 1)
		require.Equal(t, recipetest.SessionID(a), ms[0].Session)
		require.WithinDuration(t, began, ms[0].Since, time.Second)
		require.Equal(t, "x2", string(ms[0].Data))
		for seen, err := range zkrecipes.NewGroup(b, w.Path).Watch(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, ms, seen)
			break
		}
	})
}

// The layout is that of Curator's GroupMember: nothing but the members stands below the path,
// their names are the ids, and their values the data, which are never null.
func TestAGroupHasCuratorsLayout(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Joins(a, "1", "x")
		m, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID("2"))
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"1", "2"}, w.Srv.Children(w.Path))
		data, stat, err := w.Operator.Get(w.Path + "/1")
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		require.Equal(t, recipetest.SessionID(a), stat.EphemeralOwner)
		require.Contains(t, w.Srv.Tree(), w.Path+"/2 \"\"")
		require.NoError(t, m.Update(t.Context(), nil))
		require.Contains(t, w.Srv.Tree(), w.Path+"/2 \"\"")
		require.Empty(t, w.Text(w.Path))
		_, err = w.Operator.Create(w.Path+"/curator", []byte("z"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		w.MembersAre(a, "1=x 2= curator=z")
	})
}

// Options.Identity is often not unique. The id is.
func TestTheIDOfAMemberIsUniqueByDefault(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		for identity, prefix := range map[string]string{
			"host:1":                 "host:1-",
			"a/b":                    "",
			strings.Repeat("x", 100): "",
		} {
			c := w.Stranger(&zkrecipes.Options{Identity: identity})
			ids := map[string]bool{}
			for range 3 {
				m, err := zkrecipes.NewGroup(c, w.Path).Join(t.Context(), nil)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(m.ID(), prefix), m.ID())
				require.Less(t, len(m.ID()), 100)
				ids[m.ID()] = true
			}
			require.Len(t, ids, 3)
		}
	})
}

func TestAMemberIsBackInTheNextSession(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		m := w.Joins(a, "1", "x")
		require.NoError(t, m.Update(t.Context(), []byte("x2")))
		r := w.Sees(b)
		w.Srv.Expire(recipetest.SessionID(a))
		time.Sleep(time.Minute)
		w.MembersAre(b, "1=x2")
		require.Equal(t, "1=x2", r.Last())
		ms, err := zkrecipes.NewGroup(b, w.Path).Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, recipetest.SessionID(a), ms[0].Session)
		require.NoError(t, m.Update(t.Context(), []byte("x3")))
		w.Away(a)
		ctx := harness.Within(t, time.Second)
		require.ErrorIs(t, m.Update(ctx, []byte("x4")), context.DeadlineExceeded)
		time.Sleep(time.Minute) // the session expires
		require.Equal(t, "", r.Last())
		w.Back()
		time.Sleep(time.Minute)
		require.Equal(t, "1=x4", r.Last())
	})
}

func TestAClientsSecondMemberWithAnIDIsRefused(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		m := w.Joins(a, "1", "x")
		_, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID("1"))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "zkrecipes: join /app/members: this Client has a member with that id")
		require.NoError(t, m.Leave())
		require.NoError(t, w.Joins(a, "1", "y").Leave())
	})
}

func TestLeaveEndsTheMembership(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		m := w.Joins(a, "1", "x")
		require.NoError(t, m.Leave())
		require.NoError(t, m.Leave())
		require.ErrorContains(t, m.Update(t.Context(), nil), "zkrecipes: update /app/members: the member has left")
		w.Srv.Expire(recipetest.SessionID(a))
		time.Sleep(time.Minute)
		w.MembersAre(b, "")
		require.Zero(t, a.Status().Znodes)
	})
}

func TestCloseEndsTheMembers(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		m, r := w.Joins(a, "1", "x"), w.Sees(b)
		waits := w.JoinsLater(a, "2", "")
		waits.Get()
		require.NoError(t, a.Close())
		recipetest.Settle()
		require.Equal(t, "", r.Last())
		require.ErrorIs(t, m.Update(t.Context(), nil), zkrecipes.ErrClosed)
		require.NoError(t, m.Leave())
		_, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		other := w.Joins(b, "1", "")
		require.NoError(t, b.Shutdown(t.Context()), "a member is no grant")
		require.ErrorIs(t, other.Update(t.Context(), nil), zkrecipes.ErrClosed)
	})
}

func TestAMemberThatMayNotJoinGetsNoAuth(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Creates("/app", "")
		require.NoError(t, w.Operator.AddAuth("digest", []byte("owner:x")))
		_, err := w.Operator.Create(w.Path, nil, 0, append(zk.DigestACL(zk.PermAll, "owner", "x"), zk.WorldACL(zk.PermRead)...))
		require.NoError(t, err)
		_, err = zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = w.Operator.Create(w.Path+"/secret", []byte("x"), zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		w.MembersAre(b, "secret=")
		require.Equal(t, "secret=", w.Sees(b).Last())
	})
}

func TestAMemberThatTheSessionHasNoRoomForIsRefused(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, b *zkrecipes.Client) {
		c := w.Stranger(&zkrecipes.Options{MaxBuffer: 1100})
		var err error
		n := 0
		for ; err == nil; n++ {
			require.Less(t, n, 100)
			_, err = zkrecipes.NewGroup(c, w.Path).Join(t.Context(), nil)
		}
		require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
		ms, err := zkrecipes.NewGroup(b, w.Path).Members(t.Context())
		require.NoError(t, err)
		require.Len(t, ms, n-1)
		require.Equal(t, n-1, c.Status().Znodes)
	})
}

func TestGroupsRefuseBadInput(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		m := w.Joins(a, "1", "")
		require.Empty(t, w.Requests(func() {
			for _, id := range []string{"a/b", ".", "..", "a\x00", "/"} {
				_, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID(id))
				require.ErrorIs(t, err, zkrecipes.ErrInvalidPath, id)
			}
			_, err := zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID("x"), zkrecipes.MemberID("x"))
			require.ErrorContains(t, err, "MemberID is given more than once")
			_, err = zkrecipes.NewGroup(a, w.Path).Join(t.Context(), nil, zkrecipes.MemberID("1"), zkrecipes.MemberID(""), zkrecipes.JoinOption{})
			require.ErrorIs(t, err, zk.ErrNodeExists, "those without an id do nothing")
			_, err = zkrecipes.NewGroup(a, w.Path).Join(t.Context(), make([]byte, jute.MaxFrame))
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
			require.ErrorIs(t, m.Update(t.Context(), make([]byte, jute.MaxFrame)), zkrecipes.ErrTooLarge)
			for _, zero := range []*zkrecipes.Membership{nil, {}} {
				require.ErrorIs(t, zero.Update(t.Context(), nil), zkrecipes.ErrZeroValue)
				require.ErrorIs(t, zero.Leave(), zkrecipes.ErrZeroValue)
				require.Empty(t, zero.ID())
			}
		}))
		require.NoError(t, m.Leave())
		require.ErrorIs(t, m.Update(t.Context(), nil), zkrecipes.ErrReleased)
	})
}
