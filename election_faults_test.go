package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Elections under faults.

func TestB01AnElectionWhoseReplyIsLostIsWonOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				o := follow(t, b)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opElect, Times: 2})
				term := campaigns(t, a, "a")
				w.leaderIs("a")
				seen, err := b.Leader(t.Context())
				require.NoError(t, err)
				require.Equal(t, term.Token(), seen.Token)
				require.Len(t, w.srv.Children(w.path), 2)
				time.Sleep(time.Minute)
				require.NoError(t, term.Err())
				synctest.Wait()
				require.Equal(t, "a", o.values()[len(o.values())-1])
				require.NoError(t, term.Resign())
				w.noLeader()
			})
		})
	}
}

func TestB07AResignationWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				term := campaigns(t, a, "a")
				next := campaignLater(t, b, "b")
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opResign})
				require.NoError(t, term.Resign())
				require.NoError(t, term.Resign(), "again")
				second := next.Get()
				time.Sleep(time.Minute)
				w.leaderIs("b")
				require.NoError(t, second.Err(), "the resignation that was sent again deleted nothing of the next leader's")
				require.Len(t, w.srv.Children(w.path), 2)
				require.NoError(t, second.Resign())
				w.noLeader()
			})
		})
	}
}

func TestB08AResignationWhileDisconnectedGoesOnInTheBackground(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		next := campaignLater(t, b, "b")
		w.away(clientOf(a.line.Client))
		began := time.Now()
		require.NoError(t, term.Resign())
		require.Zero(t, time.Since(began))
		w.leaderIs("a")
		w.back()
		second := next.Get()
		require.Less(t, time.Since(began), 10*time.Second)
		w.leaderIs("b")
		require.NoError(t, second.Resign())
		w.noLeader()
	})
}

// The servers refuse the resignation until the operator gives the permission back.
func TestB36AResignationThatIsRefusedIsTriedAgain(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		conn := w.operator
		setACL := func(perms int32) {
			_, err := conn.SetACL(w.path, zk.WorldACL(perms), -1)
			require.NoError(t, err)
		}
		setACL(zk.PermAll &^ zk.PermDelete)
		require.ErrorIs(t, term.Resign(), zk.ErrNoAuth)
		require.ErrorIs(t, term.Err(), ErrReleased)
		w.leaderIs("a")
		next := campaignLater(t, b, "b")
		time.Sleep(time.Second)
		require.True(t, next.Waiting())
		setACL(zk.PermAll)
		second := next.Get()
		w.leaderIs("b")
		require.NoError(t, second.Resign())
		w.noLeader()
	})
}

func TestB09ExpiryEndsTheTermAndItsZnodes(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		ctx := term.Context(t.Context())
		w.srv.Expire(sessionID(clientOf(a.line.Client)))
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		_, err := term.Commit(t.Context())
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), ErrLost)
		require.ErrorIs(t, term.Resign(), ErrLost)
		time.Sleep(time.Minute)
		w.noLeader()
	})
}

func TestB10ACandidateWhoseSessionExpiresWaitsOnInTheNext(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		next := campaignLater(t, b, "b")
		w.srv.Expire(sessionID(clientOf(b.line.Client)))
		time.Sleep(time.Second)
		require.True(t, next.Waiting())
		w.leaderIs("a")
		require.NoError(t, term.Resign())
		require.NoError(t, next.Get().Resign())
		w.noLeader()
	})
}

func TestB11ExpiryBetweenTheTurnAndTheElectionMakesTheCampaignGoOn(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"before the commit": {Do: zktest.Expire, Op: opElect},
		"with its reply":    {Do: zktest.Expire, After: true, Op: opElect},
	} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				first := campaigns(t, a, "a")
				next := campaignLater(t, b, "b")
				w.plan.Add(fault)
				before := sessionID(clientOf(b.line.Client))
				require.NoError(t, first.Resign())
				term := next.Get()
				require.NotEqual(t, before, sessionID(clientOf(b.line.Client)))
				w.leaderIs("b")
				require.Len(t, w.srv.Children(w.path), 2)
				time.Sleep(time.Minute)
				require.NoError(t, term.Err())
				require.NoError(t, term.Resign())
				w.noLeader()
			})
		})
	}
}

// A context that ends while the election is under way leaves nothing, and the next leads.
func TestB32ACampaignCanceledAtItsElectionLeavesNothing(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"request delayed":   {Do: zktest.Delay, For: 3 * time.Second, Op: opElect},
		"reply delayed":     {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: opElect},
		"request withheld":  {Do: zktest.Withhold, Op: opElect},
		"reply withheld":    {Do: zktest.Withhold, After: true, Op: opElect},
		"reply lost":        {Do: zktest.Drop, After: true, Op: opElect},
		"overloaded server": {Do: zktest.Answer, Code: -7, After: true, Op: opElect, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				w.plan.Add(fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				term, err := a.Campaign(ctx, []byte("a"))
				if err == nil {
					err = term.Resign()
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					err = nil
				}
				require.NoError(t, err)
				w.back()
				require.NoError(t, campaigns(t, b, "b").Resign())
				time.Sleep(time.Minute)
				w.noLeader()
			})
		})
	}
}

func TestB22ALeaderWhoseZnodeIsDeletedLosesItsTerm(t *testing.T) {
	for name, evict := range map[string]func(*electionWorld, *Term){
		"place":         func(w *electionWorld, term *Term) { w.evict(term.lease) },
		"leader":        func(w *electionWorld, _ *Term) { w.deleteLeader() },
		"leader remade": func(w *electionWorld, _ *Term) { w.remakeLeader() },
		"all":           func(w *electionWorld, term *Term) { w.deleteBoth(term) },
	} {
		for _, after := range []time.Duration{0, 5 * time.Second} {
			t.Run(name, func(t *testing.T) {
				inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
					term := campaigns(t, a, "a")
					next := campaignLater(t, b, "b")
					time.Sleep(after) // 5 s: both znodes are watched
					evict(w, term)
					time.Sleep(a.line.Client.Timeout / 10)
					synctest.Wait()
					require.ErrorIs(t, term.Err(), ErrLost)
					second := next.Get()
					require.Greater(t, second.Token(), term.Token())
					w.leaderIs("b")
					require.ErrorIs(t, term.Resign(), ErrLost)
					_, err := term.Commit(t.Context())
					require.ErrorIs(t, err, ErrLost)
					time.Sleep(time.Minute)
					w.leaderIs("b")
					require.NoError(t, second.Err())
					require.NoError(t, second.Resign())
					w.noLeader()
				})
			})
		}
	}
}

// The client may not know of the deletion yet: the servers check both znodes.
func TestB91NoTermCommitsOnceTheLeadersZnodeWasDeleted(t *testing.T) {
	for _, age := range []time.Duration{0, 10 * time.Millisecond, 900 * time.Millisecond, 5 * time.Second, time.Minute} {
		for name, commit := range map[string]func(context.Context, *Term) error{
			"commit": func(ctx context.Context, term *Term) error {
				_, err := term.Commit(ctx, OpCreate("/done", nil, 0, nil))
				return err
			},
			"check":    func(ctx context.Context, term *Term) error { _, err := term.Commit(ctx); return err },
			"proclaim": func(ctx context.Context, term *Term) error { return term.Proclaim(ctx, []byte("still a")) },
		} {
			t.Run(fmt.Sprintf("%s after %v", name, age), func(t *testing.T) {
				inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
					term := campaigns(t, a, "a")
					next := campaignLater(t, b, "b")
					time.Sleep(age)
					w.deleteLeader()
					require.ErrorIs(t, commit(t.Context(), term), ErrLost)
					require.ErrorIs(t, term.Err(), ErrLost)
					require.NotContains(t, w.srv.Children("/"), "done")
					second := next.Get()
					require.Greater(t, second.Token(), term.Token())
					_, err := second.Commit(t.Context())
					require.NoError(t, err)
					w.leaderIs("b")
					require.NoError(t, second.Resign())
					w.noLeader()
				})
			})
		}
	}
}

// The evicted leader's session lives on, and there is no other candidate to replace the
// znode.
func TestB22AnEvictedLeaderDeletesItsOtherZnode(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		o := follow(t, b)
		term := campaigns(t, a, "a")
		time.Sleep(5 * time.Second)
		w.evict(term.lease)
		w.noLeader()
		require.Equal(t, []string{"none", "a", "none"}, o.values())
	})
}

// It learns of the eviction when it resigns.
func TestB22AnEvictedLeaderThatResignsDeletesItsOtherZnode(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		w.evict(term.lease)
		w.leaderIs("a")
		require.ErrorIs(t, term.Resign(), ErrLost)
		synctest.Wait()
		w.noLeader()
		require.NoError(t, campaigns(t, b, "b").Resign())
	})
}

// The evicted leader cannot clean up: the next one replaces its znode.
func TestB22TheNextLeaderReplacesWhatAnEvictedOneLeft(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		o := follow(t, b)
		first := campaigns(t, a, "a")
		synctest.Wait()
		w.away(clientOf(a.line.Client))
		w.evict(first.lease)
		w.plan.Stop()
		w.plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1}) // a cannot come back
		requests := w.requests(func() {
			term := campaigns(t, b, "b")
			require.Greater(t, term.Token(), first.Token())
			w.leaderIs("b")
		})
		require.Equal(t, 1, requests[opElect])
		require.Equal(t, 1, requests[opSucceed])
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "b"}, o.values())
		w.back()
		time.Sleep(time.Minute)
		require.ErrorIs(t, first.Err(), ErrLost)
		w.leaderIs("b")
	})
}

func TestB22AnEvictedCandidateReturnsErrEvicted(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		next := campaignLater(t, b, "b")
		require.NoError(t, w.operator.Delete(w.path+"/"+w.line()[1].Name, -1))
		_, err := next.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		w.leaderIs("a")
		require.NoError(t, term.Resign())
	})
}

// The operator deletes the path and all below it.
func TestB23CandidatesOfAPathThatIsDeletedFailAndMayCampaignAgain(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		next := campaignLater(t, b, "b")
		time.Sleep(5 * time.Second)
		var all []any
		for _, name := range w.srv.Children(w.path) {
			all = append(all, &zk.DeleteRequest{Path: w.path + "/" + name, Version: -1})
		}
		_, err := w.operator.Multi(append(all, &zk.DeleteRequest{Path: w.path, Version: -1})...)
		require.NoError(t, err)
		_, err = next.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		synctest.Wait()
		require.ErrorIs(t, term.Err(), ErrLost)
		second := campaigns(t, b, "b")
		require.Greater(t, second.Token(), term.Token())
		require.NoError(t, second.Resign())
		w.noLeader()
	})
}

func TestA35ProclaimAfterTheLeadersZnodeWasDeletedSaysThatTheTermIsLost(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		w.deleteLeader()
		require.ErrorIs(t, term.Proclaim(t.Context(), []byte("a2")), ErrLost)
		require.ErrorIs(t, term.Err(), ErrLost)
		synctest.Wait()
		w.noLeader()
	})
}

func TestB53AProclamationWhoseReplyIsLostIsMade(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				term := campaigns(t, a, "a")
				o := follow(t, b)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opProclaim, Times: 2})
				require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				w.leaderIs("a2")
				time.Sleep(time.Minute)
				require.Equal(t, []string{"a", "a2"}, o.values())
				require.NoError(t, term.Resign())
			})
		})
	}
}

func TestB35CloseResignsAndEndsCampaignsAndObservers(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		waits := campaignLater(t, NewElection(clientOf(a.line.Client), w.path), "a too")
		o := follow(t, a)
		require.NoError(t, clientOf(a.line.Client).Close())
		_, err := waits.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, o.ended(), ErrClosed)
		require.ErrorIs(t, term.Err(), ErrClosed)
		require.ErrorIs(t, term.Resign(), ErrClosed)
		_, err = a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, ErrClosed)
		_, err = a.Leader(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		w.noLeader()
	})
}

// The leader's process stands still for longer than its session lives.
func TestB14ALeaderThatSleptDoesNotKnowButItsCommitsFail(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		next := campaignLater(t, b, "b")
		w.away(clientOf(a.line.Client))
		time.Sleep(time.Minute)
		require.ErrorIs(t, term.Err(), ErrLost)
		second := next.Get()
		w.back()
		_, err := term.Commit(t.Context(), OpCreate("/never", nil, 0, nil))
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, term.Proclaim(t.Context(), []byte("still me")), ErrLost)
		w.leaderIs("b")
		require.NoError(t, second.Resign())
	})
}

// Other libraries' places in the line, such as those of Curator's LeaderSelector.
func TestB26ACandidateWaitsForOtherLibrariesPlaces(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		conn := w.operator
		name, err := conn.Create(w.path+"/_c_"+curatorUUID(1)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		next := campaignLater(t, a, "a")
		require.True(t, next.Waiting())
		_, err = a.Leader(t.Context())
		require.ErrorIs(t, err, ErrNoLeader)
		require.NoError(t, conn.Delete(name, -1))
		require.NoError(t, next.Get().Resign())
	})
}

// The path is somebody's data, and somebody has children there.
func TestB48TheDataOfAnElectionsPathAreKept(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		conn := w.operator
		for _, path := range []string{w.path, w.path + "/theirs"} {
			_, err := conn.Create(path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		first := campaigns(t, a, "a")
		next := campaignLater(t, b, "b")
		require.NoError(t, first.Resign())
		require.NoError(t, next.Get().Resign())
		data, _, err := conn.Get(w.path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(data))
		require.Equal(t, []string{"theirs"}, w.srv.Children(w.path))
	})
}

func TestB48SomebodysOwnZnodeAtTheLeadersPathIsKept(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		w.createByHand(0)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, ErrPathInUse)
		require.ErrorContains(t, err, w.path+"/leader is not ephemeral")
		_, err = b.Leader(t.Context())
		require.ErrorIs(t, err, ErrNoLeader)
		synctest.Wait()
		require.Empty(t, w.line())
		w.leaderIs("by hand")
		w.deleteLeader()
		require.NoError(t, campaigns(t, a, "a").Resign())
	})
}

// What somebody else's session created there is replaced.
func TestB25AnEphemeralZnodeMadeByHandIsReplaced(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		w.createByHand(zk.FlagEphemeral)
		term := campaigns(t, a, "a")
		w.leaderIs("a")
		require.NoError(t, term.Resign())
		w.noLeader()
	})
}

// Servers on which the session has no identity of its own.
func TestB61ElectionsWorkWithoutDigestsAndACLs(t *testing.T) {
	for name, opt := range map[string]zktest.Option{"skipACL": zktest.SkipACL(), "no digest": zktest.WithoutDigest()} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
				term := campaigns(t, a, "a")
				require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				w.leaderIs("a2")
				next := campaignLater(t, b, "b")
				require.NoError(t, term.Resign())
				require.NoError(t, next.Get().Resign())
				w.noLeader()
			}, opt)
		})
	}
}

// The sequence numbers of the line are used up, and an evicted leader has left its znode.
func TestB87AnElectionBeginsItsNumbersAnew(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		first := campaigns(t, a, "a")
		w.away(clientOf(a.line.Client))
		w.evict(first.lease)
		w.plan.Stop()
		w.plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1})
		require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32-10))
		term := campaigns(t, b, "b")
		require.Zero(t, w.line()[0].Number)
		require.Greater(t, term.Token(), first.Token())
		w.leaderIs("b")
		require.NoError(t, term.Resign())
		w.noLeader()
	})
}

func TestB36AnElectionThatIsRefusedReturnsNoAuth(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		_, err := w.operator.SetACL(w.path, zk.WorldACL(zk.PermRead|zk.PermWrite|zk.PermDelete), -1)
		require.NoError(t, err)
		_, err = a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "zkrecipes: campaign "+w.path)
		err = b.Lead(t.Context(), nil, func(context.Context, *Term) error { return errors.New("called") })
		require.ErrorIs(t, err, zk.ErrNoAuth)
		w.noLeader()
	})
}

// Nobody but the leader may change its value.
func TestB47NobodyElseMayWriteTheLeadersZnode(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		_, err := w.operator.Set(w.path+election.LeaderName, []byte("me"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, term.Resign())
	})
}
