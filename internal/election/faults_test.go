package election_test

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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The table of faults (recipetest.Faults) for Campaign.
func TestElectionUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.ElectionDriver())
}

// Elections under faults.

func TestB01AnElectionWhoseReplyIsLostIsWonOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				o := recipetest.Follow(t, b)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpElect, Times: 2})
				term := recipetest.Campaigns(t, a, "a")
				w.LeaderIs("a")
				seen, err := b.Leader(t.Context())
				require.NoError(t, err)
				require.Equal(t, term.Token(), seen.Token)
				require.Len(t, w.Srv.Children(w.Path), 2)
				time.Sleep(time.Minute)
				require.NoError(t, term.Err())
				synctest.Wait()
				require.Equal(t, "a", o.Values()[len(o.Values())-1])
				require.NoError(t, term.Resign())
				w.NoLeader()
			})
		})
	}
}

func TestB07AResignationWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				term := recipetest.Campaigns(t, a, "a")
				next := recipetest.CampaignLater(t, b, "b")
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpResign})
				require.NoError(t, term.Resign())
				require.NoError(t, term.Resign(), "again")
				second := next.Get()
				time.Sleep(time.Minute)
				w.LeaderIs("b")
				require.NoError(t, second.Err(), "the resignation that was sent again deleted nothing of the next leader's")
				require.Len(t, w.Srv.Children(w.Path), 2)
				require.NoError(t, second.Resign())
				w.NoLeader()
			})
		})
	}
}

func TestB08AResignationWhileDisconnectedGoesOnInTheBackground(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		w.Away(recipetest.ClientOf(recipetest.LineOf(a).Client))
		began := time.Now()
		require.NoError(t, term.Resign())
		require.Zero(t, time.Since(began))
		w.LeaderIs("a")
		w.Back()
		second := next.Get()
		require.Less(t, time.Since(began), 10*time.Second)
		w.LeaderIs("b")
		require.NoError(t, second.Resign())
		w.NoLeader()
	})
}

// The servers refuse the resignation until the operator gives the permission back.
func TestB36AResignationThatIsRefusedIsTriedAgain(t *testing.T) {
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

func TestB09ExpiryEndsTheTermAndItsZnodes(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		ctx := term.Context(t.Context())
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(a).Client)))
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrLost)
		_, err := term.Commit(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), zkrecipes.ErrLost)
		require.ErrorIs(t, term.Resign(), zkrecipes.ErrLost)
		time.Sleep(time.Minute)
		w.NoLeader()
	})
}

func TestB10ACandidateWhoseSessionExpiresWaitsOnInTheNext(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client)))
		time.Sleep(time.Second)
		require.True(t, next.Waiting())
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
		require.NoError(t, next.Get().Resign())
		w.NoLeader()
	})
}

func TestB11ExpiryBetweenTheTurnAndTheElectionMakesTheCampaignGoOn(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"before the commit": {Do: zktest.Expire, Op: recipetest.OpElect},
		"with its reply":    {Do: zktest.Expire, After: true, Op: recipetest.OpElect},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				first := recipetest.Campaigns(t, a, "a")
				next := recipetest.CampaignLater(t, b, "b")
				w.Plan.Add(fault)
				before := recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client))
				require.NoError(t, first.Resign())
				term := next.Get()
				require.NotEqual(t, before, recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client)))
				w.LeaderIs("b")
				require.Len(t, w.Srv.Children(w.Path), 2)
				time.Sleep(time.Minute)
				require.NoError(t, term.Err())
				require.NoError(t, term.Resign())
				w.NoLeader()
			})
		})
	}
}

// A context that ends while the election is under way leaves nothing, and the next leads.
func TestB32ACampaignCanceledAtItsElectionLeavesNothing(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"request delayed":   {Do: zktest.Delay, For: 3 * time.Second, Op: recipetest.OpElect},
		"reply delayed":     {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: recipetest.OpElect},
		"request withheld":  {Do: zktest.Withhold, Op: recipetest.OpElect},
		"reply withheld":    {Do: zktest.Withhold, After: true, Op: recipetest.OpElect},
		"reply lost":        {Do: zktest.Drop, After: true, Op: recipetest.OpElect},
		"overloaded server": {Do: zktest.Answer, Code: -7, After: true, Op: recipetest.OpElect, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				w.Plan.Add(fault)
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
				w.Back()
				require.NoError(t, recipetest.Campaigns(t, b, "b").Resign())
				time.Sleep(time.Minute)
				w.NoLeader()
			})
		})
	}
}

func TestB22ALeaderWhoseZnodeIsDeletedLosesItsTerm(t *testing.T) {
	for name, evict := range map[string]func(*recipetest.ElectionWorld, *zkrecipes.Term){
		"place":         func(w *recipetest.ElectionWorld, term *zkrecipes.Term) { w.Evict(recipetest.LeaseOf(term)) },
		"leader":        func(w *recipetest.ElectionWorld, _ *zkrecipes.Term) { w.DeleteLeader() },
		"leader remade": func(w *recipetest.ElectionWorld, _ *zkrecipes.Term) { w.RemakeLeader() },
		"all":           func(w *recipetest.ElectionWorld, term *zkrecipes.Term) { w.DeleteBoth(term) },
	} {
		for _, after := range []time.Duration{0, 5 * time.Second} {
			t.Run(name, func(t *testing.T) {
				recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
					term := recipetest.Campaigns(t, a, "a")
					next := recipetest.CampaignLater(t, b, "b")
					time.Sleep(after) // 5 s: both znodes are watched
					evict(w, term)
					time.Sleep(recipetest.LineOf(a).Client.Timeout / 10)
					synctest.Wait()
					require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
					second := next.Get()
					require.Greater(t, second.Token(), term.Token())
					w.LeaderIs("b")
					require.ErrorIs(t, term.Resign(), zkrecipes.ErrLost)
					_, err := term.Commit(t.Context())
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					time.Sleep(time.Minute)
					w.LeaderIs("b")
					require.NoError(t, second.Err())
					require.NoError(t, second.Resign())
					w.NoLeader()
				})
			})
		}
	}
}

// The client may not know of the deletion yet: the servers check both znodes.
func TestB91NoTermCommitsOnceTheLeadersZnodeWasDeleted(t *testing.T) {
	for _, age := range []time.Duration{0, 10 * time.Millisecond, 900 * time.Millisecond, 5 * time.Second, time.Minute} {
		for name, commit := range map[string]func(context.Context, *zkrecipes.Term) error{
			"commit": func(ctx context.Context, term *zkrecipes.Term) error {
				_, err := term.Commit(ctx, zkrecipes.OpCreate("/done", nil, 0, nil))
				return err
			},
			"check":    func(ctx context.Context, term *zkrecipes.Term) error { _, err := term.Commit(ctx); return err },
			"proclaim": func(ctx context.Context, term *zkrecipes.Term) error { return term.Proclaim(ctx, []byte("still a")) },
		} {
			t.Run(fmt.Sprintf("%s after %v", name, age), func(t *testing.T) {
				recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
					term := recipetest.Campaigns(t, a, "a")
					next := recipetest.CampaignLater(t, b, "b")
					time.Sleep(age)
					w.DeleteLeader()
					require.ErrorIs(t, commit(t.Context(), term), zkrecipes.ErrLost)
					require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
					require.NotContains(t, w.Srv.Children("/"), "done")
					second := next.Get()
					require.Greater(t, second.Token(), term.Token())
					_, err := second.Commit(t.Context())
					require.NoError(t, err)
					w.LeaderIs("b")
					require.NoError(t, second.Resign())
					w.NoLeader()
				})
			})
		}
	}
}

// The evicted leader's session lives on, and there is no other candidate to replace the
// znode.
func TestB22AnEvictedLeaderDeletesItsOtherZnode(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, b)
		term := recipetest.Campaigns(t, a, "a")
		time.Sleep(5 * time.Second)
		w.Evict(recipetest.LeaseOf(term))
		w.NoLeader()
		require.Equal(t, []string{"none", "a", "none"}, o.Values())
	})
}

// It learns of the eviction when it resigns.
func TestB22AnEvictedLeaderThatResignsDeletesItsOtherZnode(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		w.Evict(recipetest.LeaseOf(term))
		w.LeaderIs("a")
		require.ErrorIs(t, term.Resign(), zkrecipes.ErrLost)
		synctest.Wait()
		w.NoLeader()
		require.NoError(t, recipetest.Campaigns(t, b, "b").Resign())
	})
}

// The evicted leader cannot clean up: the next one replaces its znode.
func TestB22TheNextLeaderReplacesWhatAnEvictedOneLeft(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, b)
		first := recipetest.Campaigns(t, a, "a")
		synctest.Wait()
		w.Away(recipetest.ClientOf(recipetest.LineOf(a).Client))
		w.Evict(recipetest.LeaseOf(first))
		w.Plan.Stop()
		w.Plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1}) // a cannot come back
		requests := w.Requests(func() {
			term := recipetest.Campaigns(t, b, "b")
			require.Greater(t, term.Token(), first.Token())
			w.LeaderIs("b")
		})
		require.Equal(t, 1, requests[recipetest.OpElect])
		require.Equal(t, 1, requests[recipetest.OpSucceed])
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "b"}, o.Values())
		w.Back()
		time.Sleep(time.Minute)
		require.ErrorIs(t, first.Err(), zkrecipes.ErrLost)
		w.LeaderIs("b")
	})
}

func TestB22AnEvictedCandidateReturnsErrEvicted(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		require.NoError(t, w.Operator.Delete(w.Path+"/"+w.Line()[1].Name, -1))
		_, err := next.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
	})
}

// The operator deletes the path and all below it.
func TestB23CandidatesOfAPathThatIsDeletedFailAndMayCampaignAgain(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		time.Sleep(5 * time.Second)
		var all []any
		for _, name := range w.Srv.Children(w.Path) {
			all = append(all, &zk.DeleteRequest{Path: w.Path + "/" + name, Version: -1})
		}
		_, err := w.Operator.Multi(append(all, &zk.DeleteRequest{Path: w.Path, Version: -1})...)
		require.NoError(t, err)
		_, err = next.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		synctest.Wait()
		require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
		second := recipetest.Campaigns(t, b, "b")
		require.Greater(t, second.Token(), term.Token())
		require.NoError(t, second.Resign())
		w.NoLeader()
	})
}

func TestA35ProclaimAfterTheLeadersZnodeWasDeletedSaysThatTheTermIsLost(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		w.DeleteLeader()
		require.ErrorIs(t, term.Proclaim(t.Context(), []byte("a2")), zkrecipes.ErrLost)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
		synctest.Wait()
		w.NoLeader()
	})
}

func TestB53AProclamationWhoseReplyIsLostIsMade(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				term := recipetest.Campaigns(t, a, "a")
				o := recipetest.Follow(t, b)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpProclaim, Times: 2})
				require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				w.LeaderIs("a2")
				time.Sleep(time.Minute)
				require.Equal(t, []string{"a", "a2"}, o.Values())
				require.NoError(t, term.Resign())
			})
		})
	}
}

func TestB35CloseResignsAndEndsCampaignsAndObservers(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		waits := recipetest.CampaignLater(t, zkrecipes.NewElection(recipetest.ClientOf(recipetest.LineOf(a).Client), w.Path), "a too")
		o := recipetest.Follow(t, a)
		require.NoError(t, recipetest.ClientOf(recipetest.LineOf(a).Client).Close())
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, o.Ended(), zkrecipes.ErrClosed)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrClosed)
		require.ErrorIs(t, term.Resign(), zkrecipes.ErrClosed)
		_, err = a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = a.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		w.NoLeader()
	})
}

// The leader's process stands still for longer than its session lives.
func TestB14ALeaderThatSleptDoesNotKnowButItsCommitsFail(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		w.Away(recipetest.ClientOf(recipetest.LineOf(a).Client))
		time.Sleep(time.Minute)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
		second := next.Get()
		w.Back()
		_, err := term.Commit(t.Context(), zkrecipes.OpCreate("/never", nil, 0, nil))
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorIs(t, term.Proclaim(t.Context(), []byte("still me")), zkrecipes.ErrLost)
		w.LeaderIs("b")
		require.NoError(t, second.Resign())
	})
}

// Other libraries' places in the line, such as those of Curator's LeaderSelector.
func TestB26ACandidateWaitsForOtherLibrariesPlaces(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		conn := w.Operator
		name, err := conn.Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		next := recipetest.CampaignLater(t, a, "a")
		require.True(t, next.Waiting())
		_, err = a.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		require.NoError(t, conn.Delete(name, -1))
		require.NoError(t, next.Get().Resign())
	})
}

// The path is somebody's data, and somebody has children there.
func TestB48TheDataOfAnElectionsPathAreKept(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		conn := w.Operator
		for _, path := range []string{w.Path, w.Path + "/theirs"} {
			_, err := conn.Create(path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		first := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		require.NoError(t, first.Resign())
		require.NoError(t, next.Get().Resign())
		data, _, err := conn.Get(w.Path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(data))
		require.Equal(t, []string{"theirs"}, w.Srv.Children(w.Path))
	})
}

func TestB48SomebodysOwnZnodeAtTheLeadersPathIsKept(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		w.CreateByHand(0)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorContains(t, err, w.Path+"/leader is not ephemeral")
		_, err = b.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		synctest.Wait()
		require.Empty(t, w.Line())
		w.LeaderIs("by hand")
		w.DeleteLeader()
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
	})
}

// What somebody else's session created there is replaced.
func TestB25AnEphemeralZnodeMadeByHandIsReplaced(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		w.CreateByHand(zk.FlagEphemeral)
		term := recipetest.Campaigns(t, a, "a")
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

// Servers on which the session has no identity of its own.
func TestB61ElectionsWorkWithoutDigestsAndACLs(t *testing.T) {
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

// The sequence numbers of the line are used up, and an evicted leader has left its znode.
func TestB87AnElectionBeginsItsNumbersAnew(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		first := recipetest.Campaigns(t, a, "a")
		w.Away(recipetest.ClientOf(recipetest.LineOf(a).Client))
		w.Evict(recipetest.LeaseOf(first))
		w.Plan.Stop()
		w.Plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1})
		require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32-10))
		term := recipetest.Campaigns(t, b, "b")
		require.Zero(t, w.Line()[0].Number)
		require.Greater(t, term.Token(), first.Token())
		w.LeaderIs("b")
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

func TestB36AnElectionThatIsRefusedReturnsNoAuth(t *testing.T) {
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

// Nobody but the leader may change its value.
func TestB47NobodyElseMayWriteTheLeadersZnode(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		_, err := w.Operator.Set(w.Path+election.LeaderName, []byte("me"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, term.Resign())
	})
}
