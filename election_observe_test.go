package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/watch"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What observers of elections see.

func TestA35ObserveYieldsEachLeaderAndNone(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		o := follow(t, w.election(nil)) // the path does not exist yet
		first := campaigns(t, a, "a")
		synctest.Wait()
		require.NoError(t, first.Proclaim(t.Context(), []byte("a2")))
		synctest.Wait()
		require.NoError(t, first.Proclaim(t.Context(), []byte("a2")), "the same again")
		synctest.Wait()
		require.NoError(t, first.Resign())
		synctest.Wait()
		second := campaigns(t, b, "")
		synctest.Wait()
		w.srv.Expire(sessionID(&Client{b.line.Client}))
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "a2", "none", "", "none"}, o.values())
		require.Equal(t, first.Token(), o.seen[1].Token)
		require.Equal(t, first.Token(), o.seen[2].Token)
		require.Equal(t, second.Token(), o.seen[4].Token)
		require.Equal(t, sessionID(&Client{a.line.Client}), o.seen[1].Session)
		o.stop()
		require.ErrorIs(t, o.ended(), context.Canceled)
	})
}

func TestA35ObserveYieldsTheLatestToASlowObserver(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		var seen []string
		for l, err := range b.Observe(t.Context()) {
			require.NoError(t, err)
			seen = append(seen, string(l.Value))
			if len(seen) == 2 {
				break
			}
			for i := range 10 {
				term := campaigns(t, a, fmt.Sprint(i))
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
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
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
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		value := []byte("a")
		next := campaignLater(t, b, "b") // b leads, and a waits
		done := make(chan *Term)
		go func() {
			term, err := a.Campaign(t.Context(), value)
			require.NoError(t, err)
			done <- term
		}()
		synctest.Wait()
		value[0] = 'x'
		require.NoError(t, next.Get().Resign())
		term := <-done
		w.leaderIs("a")
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
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		o := follow(t, b)
		first := campaigns(t, a, "a")
		synctest.Wait()
		w.srv.Expire(sessionID(&Client{b.line.Client}))
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"none", "a"}, o.values(), "nothing has changed")
		require.NoError(t, first.Resign())
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "none"}, o.values())
		w.srv.Expire(sessionID(&Client{b.line.Client}))
		term := campaigns(t, a, "a2") // while the observer has no session
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"none", "a", "none", "a2"}, o.values())
		require.NoError(t, term.Resign())
	})
}

func TestB18ObserversSeeWhatHasChangedWhileTheyWereDisconnected(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		first := campaigns(t, a, "a")
		o := follow(t, b)
		w.away(&Client{b.line.Client})
		require.NoError(t, first.Resign())
		second := campaigns(t, a, "a2")
		w.back()
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"a", "a2"}, o.values())
		w.away(&Client{b.line.Client})
		require.NoError(t, second.Resign())
		time.Sleep(time.Minute) // the observer's session expires
		w.back()
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"a", "a2", "none"}, o.values())
	})
}

// The next session's server is a follower that lags.
func TestB03AnObserversNextServerLags(t *testing.T) {
	for name, resign := range map[string]bool{"still led": false, "resigned": true} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				c := w.stranger(nil)
				first := campaigns(t, a, "a")
				require.NoError(t, first.Resign())
				second := campaigns(t, a, "a2")
				o := follow(t, NewElection(c, w.path))
				want := []string{"a2"}
				if resign {
					require.NoError(t, second.Resign())
					synctest.Wait()
					time.Sleep(10 * time.Second)
					want = []string{"a2", "none"}
				}
				require.Equal(t, want, o.values())
				w.srv.Expire(sessionID(c))
				// The new session's replica is brought up to date, and then this happens.
				time.Sleep(1500 * time.Millisecond)
				time.Sleep(time.Minute)
				require.Equal(t, want, o.values())
			}, behind(2, 20))
		})
	}
}

// Leader is asked of a server that lags.
func TestB03LeaderFollowsASync(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		lags := NewElection(w.stranger(nil), w.path)
		_, err := lags.Leader(t.Context())
		require.ErrorIs(t, err, ErrNoLeader)
		term := campaigns(t, a, "a")
		seen, err := lags.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, term.Token(), seen.Token)
		require.NoError(t, term.Resign())
		none, err := lags.Leader(t.Context())
		require.EqualError(t, err, "zkrecipes: look at "+w.path+": nobody leads")
		require.ErrorIs(t, err, ErrNoLeader)
		require.Equal(t, Leader{}, none)
	}, behind(3, 20))
}

// An observer of a Client whose session has just begun: opening a session brings the
// replica up to date, and the leader changes after that.
func TestB03ObserveBeginsWithASync(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		lags := NewElection(w.stranger(nil), w.path)
		first := campaigns(t, a, "a")
		o := follow(t, lags)
		require.Equal(t, []string{"a"}, o.values())
		o.stop()
		require.NoError(t, first.Resign())
		o = follow(t, lags)
		require.Equal(t, []string{"none"}, o.values())
	}, behind(3, 20))
}

func TestA35SpuriousEventsYieldNothing(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		o := follow(t, b)
		for range 3 {
			spurious(&Client{b.line.Client}, w.path+election.LeaderName, jute.EventCreated)
			synctest.Wait()
		}
		term := campaigns(t, a, "a")
		synctest.Wait()
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
			spurious(&Client{b.line.Client}, w.path+election.LeaderName, event)
			synctest.Wait()
		}
		require.Equal(t, []string{"none", "a"}, o.values())
		require.NoError(t, term.Resign())
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "none"}, o.values())
	})
}

func TestB36AnObserverThatMayNotReadGetsNoAuth(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, _, b *Election) {
		conn := w.operator
		require.NoError(t, conn.AddAuth("digest", []byte("owner:x")))
		_, err := conn.Create(w.path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = conn.Create(w.path+election.LeaderName, nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		o := follow(t, b)
		require.ErrorIs(t, o.ended(), zk.ErrNoAuth)
		require.ErrorContains(t, o.err, "zkrecipes: observe "+w.path)
		require.Empty(t, o.values())
		_, err = b.Leader(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

// The servers' state is older than what the observer has seen, and stays so, as after a
// backup was restored.
func TestB46ObserveFailsWhereTheServersTellOfEarlierLeadersOnly(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		opts, switchOver := w.restored()
		for range 100 {
			require.NoError(t, campaigns(t, a, "a").Resign())
		}
		term := campaigns(t, a, "a")
		o := follow(t, w.election(opts))
		switchOver(w.path, w.path+election.LeaderName)
		require.ErrorIs(t, o.ended(), watch.ErrWentBack)
		require.Equal(t, []string{"a"}, o.values())
		require.ErrorIs(t, term.Resign(), ErrLost)
	})
}

func TestA35AnObserverThatIsGoneLeavesNoWatchBeyondItsPath(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		for range 100 {
			for _, err := range b.Observe(t.Context()) {
				require.NoError(t, err)
				break
			}
		}
		require.LessOrEqual(t, watchesOf(&Client{b.line.Client}), 2)
	})
}

// Bad input.

func TestB39ElectionsReportInvalidPathsWhenFirstUsed(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		f := func(context.Context, *Term) error { return errors.New("called") }
		for _, path := range []string{"", "/", "relative", "/a/", "/a//b", "/a/./b", "/a\x00"} {
			e := NewElection(&Client{a.line.Client}, path)
			_, err := e.Campaign(t.Context(), nil)
			require.ErrorIs(t, err, ErrInvalidPath)
			require.ErrorContains(t, err, "zkrecipes: campaign ")
			require.ErrorIs(t, e.Lead(t.Context(), nil, f), ErrInvalidPath)
			_, err = e.Leader(t.Context())
			require.ErrorIs(t, err, ErrInvalidPath)
			require.ErrorIs(t, follow(t, e).ended(), ErrInvalidPath)
		}
	})
}

func TestB40ElectionsRefuseNils(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		f := func(context.Context, *Term) error { return errors.New("called") }
		for name, test := range map[string]struct {
			e    *Election
			ctx  context.Context
			f    func(context.Context, *Term) error
			text string
		}{
			"nil election": {nil, t.Context(), f, "not made by its constructor"},
			"zero value":   {&Election{}, t.Context(), f, "not made by its constructor"},
			"nil client":   {NewElection(nil, "/a"), t.Context(), f, "nil client"},
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
		term := campaigns(t, a, "a")
		var none context.Context
		require.ErrorContains(t, term.Proclaim(none, nil), "nil context")
		require.NoError(t, term.Resign())
	})
}

func TestB52AValueAboveTheSizeLimitIsRefusedBeforeItIsSent(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		require.Empty(t, w.requests(func() {
			_, err := a.Campaign(t.Context(), make([]byte, jute.MaxFrame))
			require.ErrorIs(t, err, ErrTooLarge)
			err = a.Lead(t.Context(), make([]byte, jute.MaxFrame), func(context.Context, *Term) error { return errors.New("called") })
			require.ErrorIs(t, err, ErrTooLarge)
		}))
		largest := largestValue(a)
		term, err := a.Campaign(t.Context(), make([]byte, largest))
		require.NoError(t, err)
		seen, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Len(t, seen.Value, largest)
		require.ErrorIs(t, term.Proclaim(t.Context(), make([]byte, jute.MaxFrame)), ErrTooLarge)
		require.NoError(t, term.Err())
		require.NoError(t, term.Resign())
	})
}

// largestValue returns the size of the largest value.
func largestValue(e *Election) int {
	n := jute.MaxFrame
	for errors.Is(election.CheckValue(e.line, make([]byte, n)), zkconn.ErrTooLarge) {
		n--
	}
	return n
}

func TestB40AnRWLockOnAnElectionsPathIsAnError(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		l := held(t, NewRWLock(&Client{b.line.Client}, w.path).RLock)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, ErrPathInUse)
		require.NoError(t, l.Release())
		term := campaigns(t, NewElection(&Client{a.line.Client}, "/next"), "a")
		_, err = NewRWLock(&Client{b.line.Client}, "/next").RLock(t.Context())
		require.ErrorIs(t, err, ErrPathInUse)
		require.NoError(t, term.Resign())
	})
}

// Replies to the observer's requests are lost.
func TestB05ObserversSurviveLostReplies(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		for _, op := range []string{"sync", "getData", "exists"} {
			for _, after := range []bool{false, true} {
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: op, Times: 2})
			}
		}
		o := follow(t, b)
		time.Sleep(20 * time.Second)
		for i := range 3 {
			term := campaigns(t, a, fmt.Sprint(i))
			time.Sleep(5 * time.Second)
			require.NoError(t, term.Resign())
			time.Sleep(5 * time.Second)
		}
		all := o.values()
		require.Equal(t, []string{"2", "none"}, all[len(all)-2:])
		require.Equal(t, "none", all[0])
	})
}
