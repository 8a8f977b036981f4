package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What users of elections rely on.

// clientOf returns the client of an election.
func clientOf(e *zkrecipes.Election) *zkrecipes.Client {
	return recipetest.ClientOf(recipetest.LineOf(e).Client)
}

// B01, B03, B07, B08, B09, B10, B11, B14, B32, B35: the table of faults
func TestElectionUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.ElectionDriver())
}

// A09
func TestOneCandidateLeadsAndResignationHandsOver(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		first := recipetest.Campaigns(t, a, "a")
		w.LeaderIs("a")
		second := recipetest.CampaignLater(t, b, "b")
		require.True(t, second.Waiting())
		require.NoError(t, first.Resign())
		require.ErrorIs(t, first.Err(), zkrecipes.ErrReleased)
		next := second.Get()
		w.LeaderIs("b")
		require.Greater(t, next.Token(), first.Token())
		require.NoError(t, next.Resign())
		w.NoLeader()
	})
}

// A05
func TestAnElectionWorksUnderAPrefix(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		inside, outside := zkrecipes.NewElection(w.Stranger(&zkrecipes.Options{Prefix: "/apps/one"}), "/shards/7/leader"), zkrecipes.NewElection(w.Stranger(nil), "/apps/one/shards/7/leader")
		term := recipetest.Campaigns(t, inside, "a")
		seen, err := outside.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", string(seen.Value))
		require.NoError(t, term.Proclaim(t.Context(), []byte("b")))
		seen, err = inside.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", string(seen.Value))
		require.NoError(t, term.Resign())
	})
}

// A06
func TestTheLeaderReentersAndTheLastResignationEndsTheTerm(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		requests := w.Requests(func() {
			again, err := a.Campaign(term.Reentrant(t.Context()), []byte("ignored"))
			require.NoError(t, err)
			require.Equal(t, term.Token(), again.Token())
			require.NoError(t, again.Resign())
		})
		require.Empty(t, requests)
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

// A07
func TestCampaignAndLeadWithTheLeadersContextReturnErrDeadlock(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		ctx := term.Context(t.Context())
		lead := func(ctx context.Context, e *zkrecipes.Election) error {
			return e.Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		}
		_, err := a.Campaign(ctx, nil)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = zkrecipes.NewElection(clientOf(a), w.Path).Campaign(ctx, nil)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		require.ErrorIs(t, lead(ctx, a), zkrecipes.ErrDeadlock)
		require.ErrorIs(t, lead(term.Reentrant(t.Context()), a), zkrecipes.ErrDeadlock)

		other, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, lead(other, b), context.DeadlineExceeded, "another session's candidate waits")
		require.NoError(t, term.Resign())
		require.EqualError(t, lead(t.Context(), a), "called")
	})
}

// A13
func TestCampaignsOnOneValueExcludeEachOther(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		e := w.Election(nil)
		leading := 0
		var calls []*harness.Call[struct{}]
		for range 20 {
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				term, err := e.Campaign(ctx, nil)
				if err != nil {
					return err
				}
				leading++ // the race detector looks, too
				time.Sleep(time.Millisecond)
				if leading--; leading != 0 {
					return errors.New("two leaders")
				}
				return term.Resign()
			}))
		}
		for _, call := range calls {
			_, err := call.Wait()
			require.NoError(t, err)
		}
		w.NoLeader()
	})
}

// A35
func TestProclaimPublishesAnotherValueOfTheSameTerm(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		began, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Leader{Value: []byte("a"), Token: term.Token(), Session: recipetest.SessionID(clientOf(a)), Since: began.Since}, began)
		require.WithinDuration(t, time.Now(), began.Since, time.Second)
		require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
		now, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Leader{Value: []byte("a2"), Token: term.Token(), Session: recipetest.SessionID(clientOf(a)), Since: began.Since}, now)
		require.NoError(t, term.Resign())
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), zkrecipes.ErrReleased)
	})
}

// A04: The path is known to the servers for as long as there are candidates.
func TestAnIdleElectionsPathIsReapedAndObserversGoOn(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		o := recipetest.Follow(t, b)
		time.Sleep(3 * time.Hour)
		require.NotContains(t, w.Srv.Children("/"), w.Path[1:], "reaped")
		term := recipetest.Campaigns(t, a, "a2")
		synctest.Wait()
		require.Equal(t, []string{"none", "a2"}, o.Texts())
		require.NoError(t, term.Resign())
	})
}

// B53
func TestAProclamationWhoseReplyIsLostIsMade(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				term := recipetest.Campaigns(t, a, "a")
				o := recipetest.Follow(t, b)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpProclaim, Times: 2})
				require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				w.LeaderIs("a2")
				time.Sleep(time.Minute)
				require.Equal(t, []string{"a", "a2"}, o.Texts())
				require.NoError(t, term.Resign())
			})
		})
	}
}

// B36: The servers refuse the resignation until the operator gives the permission back.
func TestAResignationThatIsRefusedIsTriedAgain(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		conn := w.Operator
		setACL := func(perms int32) {
			_, err := conn.SetACL(w.Path, zk.WorldACL(perms), -1)
			require.NoError(t, err)
		}
		setACL(zk.PermAll &^ zk.PermDelete)
		require.ErrorIs(t, term.Resign(), zk.ErrNoAuth)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrReleased)
		w.LeaderIs("a")
		next := recipetest.CampaignLater(t, b, "b")
		time.Sleep(time.Second)
		require.True(t, next.Waiting())
		setACL(zk.PermAll)
		second := next.Get()
		w.LeaderIs("b")
		require.NoError(t, second.Resign())
		w.NoLeader()
	})
}

// B36
func TestAnElectionThatIsRefusedReturnsNoAuth(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		_, err := w.Operator.SetACL(w.Path, zk.WorldACL(zk.PermRead|zk.PermWrite|zk.PermDelete), -1)
		require.NoError(t, err)
		_, err = a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "zkrecipes: campaign "+w.Path)
		err = b.Lead(t.Context(), nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		require.ErrorIs(t, err, zk.ErrNoAuth)
		w.NoLeader()
	})
}

// B61: Servers that check no ACLs, or know no digests.
func TestElectionsWorkWithoutDigestsAndACLs(t *testing.T) {
	for name, opt := range map[string]zktest.Option{"skipACL": zktest.SkipACL(), "no digest": zktest.WithoutDigest()} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				term := recipetest.Campaigns(t, a, "a")
				require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				w.LeaderIs("a2")
				next := recipetest.CampaignLater(t, b, "b")
				require.NoError(t, term.Resign())
				require.NoError(t, next.Get().Resign())
				w.NoLeader()
			}, opt)
		})
	}
}

// B26: Other libraries' places in the line, such as those of Curator's LeaderSelector.
func TestACandidateWaitsForOtherLibrariesPlaces(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		name := w.JoinByHand()
		next := recipetest.CampaignLater(t, a, "a")
		require.True(t, next.Waiting())
		_, err := a.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		require.NoError(t, w.Operator.Delete(name, -1))
		require.NoError(t, next.Get().Resign())
	})
}

// B101: A LeaderLatch decides by another rule who leads, so both would lead.
func TestElectionRefusesThePathOfALeaderLatch(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		latch := func() (path string) {
			path, err := w.Operator.Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-latch-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return path
		}
		_, err := w.Operator.Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		first := latch()
		_, err = a.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorContains(t, err, first[len(w.Path)+1:])
		require.ErrorIs(t, a.Lead(harness.Within(t, time.Minute), nil, func(context.Context, *zkrecipes.Term) error { return nil }), zkrecipes.ErrPathInUse)
		_, err = zkrecipes.NewMutex(clientOf(a), w.Path).TryLock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		synctest.Wait()
		require.Len(t, w.Srv.Children(w.Path), 1, "nothing is left")

		require.NoError(t, w.Operator.Delete(first, -1))
		term := recipetest.Campaigns(t, a, "a")
		latch() // which comes second
		_, err = b.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NoError(t, term.Resign())
	})
}

// B40
func TestAnRWLockOnAnElectionsPathIsAnError(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		l := recipetest.Held(t, zkrecipes.NewRWLock(clientOf(b), w.Path).RLock)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NoError(t, l.Release())
		term := recipetest.Campaigns(t, zkrecipes.NewElection(clientOf(a), "/next"), "a")
		_, err = zkrecipes.NewRWLock(clientOf(b), "/next").RLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NoError(t, term.Resign())
	})
}

// B39
func TestElectionsReportInvalidPathsWhenFirstUsed(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		f := func(context.Context, *zkrecipes.Term) error { return errors.New("called") }
		for _, path := range []string{"", "/", "relative", "/a/", "/a//b", "/a/./b", "/a\x00"} {
			e := zkrecipes.NewElection(clientOf(a), path)
			_, err := e.Campaign(t.Context(), nil)
			require.ErrorIs(t, err, zkrecipes.ErrInvalidPath)
			require.ErrorContains(t, err, "zkrecipes: campaign ")
			require.ErrorIs(t, e.Lead(t.Context(), nil, f), zkrecipes.ErrInvalidPath)
			_, err = e.Leader(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrInvalidPath)
			require.ErrorIs(t, recipetest.Follow(t, e).Ended(), zkrecipes.ErrInvalidPath)
		}
	})
}

// B40
func TestElectionsRefuseNils(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		f := func(context.Context, *zkrecipes.Term) error { return errors.New("called") }
		for name, test := range map[string]struct {
			e    *zkrecipes.Election
			ctx  context.Context
			f    func(context.Context, *zkrecipes.Term) error
			text string
		}{
			"nil election": {nil, t.Context(), f, "not made by its constructor"},
			"zero value":   {&zkrecipes.Election{}, t.Context(), f, "not made by its constructor"},
			"nil client":   {zkrecipes.NewElection(nil, "/a"), t.Context(), f, "nil client"},
			"nil context":  {a, nil, f, "nil context"},
			"nil function": {a, t.Context(), nil, "nil function"},
		} {
			require.ErrorContains(t, test.e.Lead(test.ctx, nil, test.f), test.text, name)
			if test.f == nil {
				continue
			}
			_, err := test.e.Campaign(test.ctx, nil)
			require.ErrorContains(t, err, test.text, name)
			_, err = test.e.Leader(test.ctx)
			require.ErrorContains(t, err, test.text, name)
			for _, err = range test.e.Observe(test.ctx) {
			}
			require.ErrorContains(t, err, test.text, name)
		}
		term := recipetest.Campaigns(t, a, "a")
		var none context.Context
		require.ErrorContains(t, term.Proclaim(none, nil), "nil context")
		require.NoError(t, term.Resign())
	})
}

// B52
func TestAValueAboveTheSizeLimitIsRefusedBeforeItIsSent(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.Empty(t, w.Requests(func() {
			_, err := a.Campaign(t.Context(), make([]byte, jute.MaxFrame))
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
			err = a.Lead(t.Context(), make([]byte, jute.MaxFrame), func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		}))
		largest := largestValue(a)
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
func largestValue(e *zkrecipes.Election) int {
	n := jute.MaxFrame
	for errors.Is(election.CheckValue(recipetest.LineOf(e), make([]byte, n)), zkconn.ErrTooLarge) {
		n--
	}
	return n
}
