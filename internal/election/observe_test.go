package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/watch"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What observers of elections see.

func TestA35ObserveYieldsEachLeaderAndNone(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, w.Election(nil)) // the path does not exist yet
		first := recipetest.Campaigns(t, a, "a")
		synctest.Wait()
		require.NoError(t, first.Proclaim(t.Context(), []byte("a2")))
		synctest.Wait()
		require.NoError(t, first.Proclaim(t.Context(), []byte("a2")), "the same again")
		synctest.Wait()
		require.NoError(t, first.Resign())
		synctest.Wait()
		second := recipetest.Campaigns(t, b, "")
		synctest.Wait()
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client)))
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "a2", "none", "", "none"}, o.Values())
		require.Equal(t, first.Token(), o.Seen[1].Token)
		require.Equal(t, first.Token(), o.Seen[2].Token)
		require.Equal(t, second.Token(), o.Seen[4].Token)
		require.Equal(t, recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(a).Client)), o.Seen[1].Session)
		o.Stop()
		require.ErrorIs(t, o.Ended(), context.Canceled)
	})
}

func TestA35ObserveYieldsTheLatestToASlowObserver(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		var seen []string
		for l, err := range b.Observe(t.Context()) {
			require.NoError(t, err)
			seen = append(seen, string(l.Value))
			if len(seen) == 2 {
				break
			}
			for i := range 10 {
				term := recipetest.Campaigns(t, a, fmt.Sprint(i))
				if i < 9 {
					require.NoError(t, term.Resign())
				}
			}
			synctest.Wait()
		}
		require.Equal(t, []string{"", "9"}, seen)
	})
}

func TestA35ObserveEndsWhenTheCallerBreaks(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		n := 0
		for l, err := range a.Observe(t.Context()) {
			require.NoError(t, err)
			require.True(t, l.None())
			n++
			break
		}
		require.Equal(t, 1, n)
	})
}

func TestA35AValueDoesNotShareMemoryWithTheNext(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		value := []byte("a")
		next := recipetest.CampaignLater(t, b, "b") // b leads, and a waits
		done := make(chan *zkrecipes.Term)
		go func() {
			term, err := a.Campaign(t.Context(), value)
			require.NoError(t, err)
			done <- term
		}()
		synctest.Wait()
		value[0] = 'x'
		require.NoError(t, next.Get().Resign())
		term := <-done
		w.LeaderIs("a")
		for range 2 { // both share the watch
			for l, err := range b.Observe(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, "a", string(l.Value))
				l.Value[0] = 'x'
				break
			}
		}
		require.NoError(t, term.Resign())
	})
}

func TestB10ObserversGoOnInTheNextSession(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, b)
		first := recipetest.Campaigns(t, a, "a")
		synctest.Wait()
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client)))
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"none", "a"}, o.Values(), "nothing has changed")
		require.NoError(t, first.Resign())
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "none"}, o.Values())
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client)))
		term := recipetest.Campaigns(t, a, "a2") // while the observer has no session
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"none", "a", "none", "a2"}, o.Values())
		require.NoError(t, term.Resign())
	})
}

func TestB18ObserversSeeWhatHasChangedWhileTheyWereDisconnected(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		first := recipetest.Campaigns(t, a, "a")
		o := recipetest.Follow(t, b)
		w.Away(recipetest.ClientOf(recipetest.LineOf(b).Client))
		require.NoError(t, first.Resign())
		second := recipetest.Campaigns(t, a, "a2")
		w.Back()
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"a", "a2"}, o.Values())
		w.Away(recipetest.ClientOf(recipetest.LineOf(b).Client))
		require.NoError(t, second.Resign())
		time.Sleep(time.Minute) // the observer's session expires
		w.Back()
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"a", "a2", "none"}, o.Values())
	})
}

// The next session's server is a follower that lags.
func TestB03AnObserversNextServerLags(t *testing.T) {
	for name, resign := range map[string]bool{"still led": false, "resigned": true} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				c := w.Stranger(nil)
				first := recipetest.Campaigns(t, a, "a")
				require.NoError(t, first.Resign())
				second := recipetest.Campaigns(t, a, "a2")
				o := recipetest.Follow(t, zkrecipes.NewElection(c, w.Path))
				want := []string{"a2"}
				if resign {
					require.NoError(t, second.Resign())
					synctest.Wait()
					time.Sleep(10 * time.Second)
					want = []string{"a2", "none"}
				}
				require.Equal(t, want, o.Values())
				w.Srv.Expire(recipetest.SessionID(c))
				// The new session's replica is brought up to date, and then this happens.
				time.Sleep(1500 * time.Millisecond)
				time.Sleep(time.Minute)
				require.Equal(t, want, o.Values())
			}, recipetest.Behind(2, 20))
		})
	}
}

// Leader is asked of a server that lags.
func TestB03LeaderFollowsASync(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		lags := zkrecipes.NewElection(w.Stranger(nil), w.Path)
		_, err := lags.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		term := recipetest.Campaigns(t, a, "a")
		seen, err := lags.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, term.Token(), seen.Token)
		require.NoError(t, term.Resign())
		none, err := lags.Leader(t.Context())
		require.EqualError(t, err, "zkrecipes: look at "+w.Path+": nobody leads")
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		require.Equal(t, zkrecipes.Leader{}, none)
	}, recipetest.Behind(3, 20))
}

// An observer of a Client whose session has just begun: opening a session brings the
// replica up to date, and the leader changes after that.
func TestB03ObserveBeginsWithASync(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		lags := zkrecipes.NewElection(w.Stranger(nil), w.Path)
		first := recipetest.Campaigns(t, a, "a")
		o := recipetest.Follow(t, lags)
		require.Equal(t, []string{"a"}, o.Values())
		o.Stop()
		require.NoError(t, first.Resign())
		o = recipetest.Follow(t, lags)
		require.Equal(t, []string{"none"}, o.Values())
	}, recipetest.Behind(3, 20))
}

func TestA35SpuriousEventsYieldNothing(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, b)
		for range 3 {
			recipetest.Spurious(recipetest.ClientOf(recipetest.LineOf(b).Client), w.Path+election.LeaderName, jute.EventCreated)
			synctest.Wait()
		}
		term := recipetest.Campaigns(t, a, "a")
		synctest.Wait()
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
			recipetest.Spurious(recipetest.ClientOf(recipetest.LineOf(b).Client), w.Path+election.LeaderName, event)
			synctest.Wait()
		}
		require.Equal(t, []string{"none", "a"}, o.Values())
		require.NoError(t, term.Resign())
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "none"}, o.Values())
	})
}

func TestB36AnObserverThatMayNotReadGetsNoAuth(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, b *zkrecipes.Election) {
		conn := w.Operator
		require.NoError(t, conn.AddAuth("digest", []byte("owner:x")))
		_, err := conn.Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = conn.Create(w.Path+election.LeaderName, nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		o := recipetest.Follow(t, b)
		require.ErrorIs(t, o.Ended(), zk.ErrNoAuth)
		require.ErrorContains(t, o.Err, "zkrecipes: observe "+w.Path)
		require.Empty(t, o.Values())
		_, err = b.Leader(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

// The servers' state is older than what the observer has seen, and stays so, as after a
// backup was restored.
func TestB46ObserveFailsWhereTheServersTellOfEarlierLeadersOnly(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		opts, switchOver := w.Restored()
		for range 100 {
			require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		}
		term := recipetest.Campaigns(t, a, "a")
		o := recipetest.Follow(t, w.Election(opts))
		switchOver(w.Path, w.Path+election.LeaderName)
		require.ErrorIs(t, o.Ended(), watch.ErrWentBack)
		require.Equal(t, []string{"a"}, o.Values())
		require.ErrorIs(t, term.Resign(), zkrecipes.ErrLost)
	})
}

func TestA35AnObserverThatIsGoneLeavesNoWatchBeyondItsPath(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		for range 100 {
			for _, err := range b.Observe(t.Context()) {
				require.NoError(t, err)
				break
			}
		}
		require.LessOrEqual(t, recipetest.WatchesOf(recipetest.ClientOf(recipetest.LineOf(b).Client)), 2)
	})
}

// Bad input.

func TestB39ElectionsReportInvalidPathsWhenFirstUsed(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		f := func(context.Context, *zkrecipes.Term) error { return errors.New("called") }
		for _, path := range []string{"", "/", "relative", "/a/", "/a//b", "/a/./b", "/a\x00"} {
			e := zkrecipes.NewElection(recipetest.ClientOf(recipetest.LineOf(a).Client), path)
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

func TestB40ElectionsRefuseNils(t *testing.T) {
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

func TestB52AValueAboveTheSizeLimitIsRefusedBeforeItIsSent(t *testing.T) {
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

func TestB40AnRWLockOnAnElectionsPathIsAnError(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		l := recipetest.Held(t, zkrecipes.NewRWLock(recipetest.ClientOf(recipetest.LineOf(b).Client), w.Path).RLock)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NoError(t, l.Release())
		term := recipetest.Campaigns(t, zkrecipes.NewElection(recipetest.ClientOf(recipetest.LineOf(a).Client), "/next"), "a")
		_, err = zkrecipes.NewRWLock(recipetest.ClientOf(recipetest.LineOf(b).Client), "/next").RLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NoError(t, term.Resign())
	})
}

// Replies to the observer's requests are lost.
func TestB05ObserversSurviveLostReplies(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		for _, op := range []string{"sync", "getData", "exists"} {
			for _, after := range []bool{false, true} {
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: op, Times: 2})
			}
		}
		o := recipetest.Follow(t, b)
		time.Sleep(20 * time.Second)
		for i := range 3 {
			term := recipetest.Campaigns(t, a, fmt.Sprint(i))
			time.Sleep(5 * time.Second)
			require.NoError(t, term.Resign())
			time.Sleep(5 * time.Second)
		}
		all := o.Values()
		require.Equal(t, []string{"2", "none"}, all[len(all)-2:])
		require.Equal(t, "none", all[0])
	})
}
