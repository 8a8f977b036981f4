package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that have lost transactions, and resume the sessions. recipetest.Rollbacks does so with
// each recipe.

// report has what a Client has said of a rollback.
type report struct {
	log    recipetest.Records
	mu     sync.Mutex
	traced int
	ended  error // of the session that has expired
}

func (r *report) options() *zkrecipes.Options {
	return &zkrecipes.Options{
		Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelError})),
		Trace: &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if e.RolledBack && e.State == zkrecipes.SessionConnected {
				r.traced++
			}
			if e.State == zkrecipes.SessionExpired {
				r.ended = e.Err
			}
		}},
	}
}

// said returns the error records, and how many events of the trace there were.
func (r *report) said() (log string, traced int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String(), r.traced
}

// lockedBy requires that a client gets the lock within a second.
func lockedBy(w *recipetest.World, c *zkrecipes.Client) *zkrecipes.Lease {
	w.T.Helper()
	l, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(w.T, time.Second))
	require.NoError(w.T, err, w.Srv.Tree())
	return l
}

// Servers whose zxids are lower than what a session has seen do not answer its handshakes, as
// when a standalone server was restored from a backup.
func TestServersThatAreBehindASessionAreReportedAndTheSessionEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		restarts bool
		latency  time.Duration // an attempt may take 1.67 s
	}{
		"it has expired there": {}, "it lives on, since they restart": {restarts: true}, "it lives on, far away": {true, 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var said report
				var ahead atomic.Bool
				ahead.Store(true)
				opts := said.options()
				link, before := harness.NewLink(w.Srv), w.Ahead(&ahead)
				link.SetLatency(tt.latency)
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if ahead.Load() {
						return before(ctx, network, addr)
					}
					return link.Dial(ctx, network, addr)
				}
				c := w.Client(opts)
				l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
				place, id := l.Check().Path, recipetest.SessionID(c)
				ahead.Store(false)
				w.Srv.Disconnect(id)
				for n := 0; n < 10 && recipetest.SessionID(c) == id; n++ { // half a session timeout each
					if synctest.Wait(); tt.restarts {
						w.Srv.Restore(w.Srv.Snapshot()) // its sessions live for their timeouts from now on
					}
					time.Sleep(recipetest.DefaultSessionTimeout / 2)
				}
				require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
				require.False(t, w.Has(place), "the client has closed the session, unless it had expired")
				link.SetLatency(0)
				require.NoError(t, lockedBy(w, c).Release(), "in a new session, which has seen nothing")
				log, _ := said.said()
				require.ErrorIs(t, said.ended, zk.ErrSessionExpired)
				require.Equal(t, tt.restarts, strings.Contains(said.ended.Error(), "given up"), said.ended)
				require.Equal(t, 1, strings.Count(log, "\n"), log)
				require.Contains(t, log, "servers are behind what this session has seen; they have lost data")
				require.Contains(t, log, fmt.Sprintf("session=%s server=%s", wire.SessionName(id), w.Srv.Addr()))
			})
		})
	}
}

func TestAPlaceThatIsBackAfterItsReleaseIsDeletedAndReported(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var said report
		a, b := w.Client(said.options()), w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
		held := w.Srv.Snapshot()
		require.NoError(t, l.Release())
		w.Srv.Restore(held)
		require.NoError(t, lockedBy(w, b).Release())
		require.Empty(t, w.Line())
		log, traced := said.said()
		require.Contains(t, log, "servers have lost transactions")
		require.Equal(t, 1, traced)
	})
}

func TestALeaseWhosePlaceTheServersHaveLostEnds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		free := w.Srv.Snapshot()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)) // too young to be watched
		w.Srv.Restore(free)
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		again := lockedBy(w, c)
		require.Greater(t, again.Token(), l.Token())
	})
}

func TestAWaiterWhosePlaceTheServersHaveLostJoinsAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := w.Client(nil), w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
		time.Sleep(3 * time.Second)
		alone := w.Srv.Snapshot()
		waits := w.LockLater(b)
		w.Srv.Restore(alone)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, w.Line(), 2, "it waits behind the holder")
		w.Stands(l)
		require.NoError(t, l.Release())
		waits.Get()
	})
}

// The session resumes, and the connection is lost again before what is back is deleted: the next
// one shows it once more. What was missing the first time is still lost, and not evicted.
func TestAWaiterWhosePlaceTheServersHaveLostJoinsAgainThoughTheConnectionIsLostToo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := w.Client(nil), w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
		back := recipetest.LockOn(t, zkrecipes.NewMutex(b, w.Path+"-2"))
		time.Sleep(3 * time.Second)
		early := w.Srv.Snapshot()
		require.NoError(t, back.Release())
		waits := w.LockLater(b)
		w.Plan.Add(zktest.Fault{Op: "delete", Path: back.Check().Path, Do: zktest.Drop, Times: 4})
		w.Srv.Restore(early)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.True(t, waits.Waiting())
		require.Len(t, w.Line(), 2, "it waits behind the holder")
		require.NoError(t, l.Release())
		waits.Get()
	})
}

// The first connection tells only by its watches that the place is gone, before it is lost itself.
func TestAWaiterWhosePlaceTheServersHaveLostJoinsAgainThoughTheComparisonIsLost(t *testing.T) {
	recipetest.EachInBubble(t, map[string]zktest.Fault{
		"once":             {Op: "getEphemerals", Do: zktest.Drop, Times: 2}, // of both clients
		"more than once":   {Op: "getEphemerals", Do: zktest.Drop, Times: 6},
		"before any reply": {Op: "setWatches", Do: zktest.Drop, After: true, Times: 2},
	}, func(t *testing.T, w *recipetest.World, fault zktest.Fault) {
		a, b := w.Client(nil), w.Client(nil)
		free := w.Srv.Snapshot()
		recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
		waits := w.LockLater(b) // it watches its own place, and one that will be lost too
		time.Sleep(3 * time.Second)
		w.Plan.Add(fault)
		w.Srv.Restore(free)
		require.NoError(t, waits.Get().Release())
	})
}

func TestAResumedSessionCostsOneRequest(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var said report
		c := w.Client(said.options())
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		time.Sleep(3 * time.Second)
		requests := w.Requests(func() {
			w.Srv.Restore(w.Srv.Snapshot()) // nothing is lost, in a new epoch
			time.Sleep(time.Second)
			w.Srv.Disconnect(recipetest.SessionID(c)) // the same epoch
			time.Sleep(time.Second)
		})
		require.Equal(t, 2, requests["getEphemerals"], "%v", requests)
		w.Stands(l)
		log, traced := said.said()
		require.Empty(t, log)
		require.Zero(t, traced)
	})
}

func TestTheComparisonIsRepeatedWhenItsReplyIsLost(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after: ", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a, b := w.Client(nil), w.Client(nil)
				l := recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
				held := w.Srv.Snapshot()
				require.NoError(t, l.Release())
				w.Plan.Add(zktest.Fault{Op: "getEphemerals", Do: zktest.Drop, After: after, Times: 3})
				w.Srv.Restore(held)
				lockedBy(w, b)
				require.Len(t, w.Line(), 1)
			})
		})
	}
}

func TestServersMayLoseTransactionsAgainDuringTheComparison(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := w.Client(nil), w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
		held := w.Srv.Snapshot()
		require.NoError(t, l.Release())
		w.Plan.Add(zktest.Fault{Op: "getEphemerals", Do: zktest.Delay, For: 200 * time.Millisecond, Times: -1})
		for range 3 {
			w.Srv.Restore(held)
			time.Sleep(300 * time.Millisecond)
		}
		w.Plan.Stop()
		lockedBy(w, b)
		require.Len(t, w.Line(), 1)
	})
}

func TestCloseEndsTheComparison(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(a, w.Path))
		held := w.Srv.Snapshot()
		require.NoError(t, l.Release())
		w.Plan.Add(zktest.Fault{Op: "getEphemerals", Do: zktest.Withhold, Times: -1})
		w.Srv.Restore(held)
		time.Sleep(100 * time.Millisecond)
		a.Close()
		w.Plan.Stop()
		time.Sleep(15 * time.Second) // its session was left to expire
		lockedBy(w, w.Stranger(nil))
	})
}

func TestWatchYieldsTheEarlierStateThatTheServersHaveGoneBackTo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, raw := w.Client(nil), w.Bare()
		_, err := raw.Create("/config", []byte("one"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		one := w.Srv.Snapshot()
		_, err = raw.Set("/config", []byte("two"), -1)
		require.NoError(t, err)
		var seen []string
		go func() {
			for node, err := range c.Watch(t.Context(), "/config") {
				if err != nil {
					return
				}
				seen = append(seen, string(node.Data))
			}
		}()
		synctest.Wait()
		w.Srv.Restore(one)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"two", "one"}, seen)
	})
}

func TestItemsOfSegmentsThatAreBackAreDelivered(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		const n = 250 // three segments
		for i := range n {
			recipetest.PutOn(t, q, fmt.Sprint(i))
		}
		all := w.Srv.Snapshot()
		for range n {
			it, err := q.Take(harness.Within(t, time.Minute))
			require.NoError(t, err)
			require.NoError(t, it.Ack(t.Context()))
		}
		sleeping := harness.Go(t, q.Take)
		time.Sleep(3 * time.Second)
		w.Srv.Restore(all)
		it := sleeping.Get()
		require.NoError(t, it.Ack(t.Context()))
		require.Len(t, recipetest.Drain(t, q), n-1)
	})
}

func TestAPutThatReturnsNilWasNotLostBefore(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after: ", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Client(nil), "/jobs", nil)
				recipetest.PutOn(t, q, "0")
				early := w.Srv.Snapshot()
				recipetest.PutOn(t, q, "1", "2")
				w.Plan.Add(zktest.Fault{Op: "multi", Do: zktest.Drop, After: after}, zktest.Fault{Do: zktest.Refuse, Times: 1000})
				put := harness.GoErr(t, func(ctx context.Context) error { _, err := q.Put(ctx, []byte("3")); return err })
				time.Sleep(100 * time.Millisecond)
				w.Srv.Restore(early)
				w.Plan.Stop()
				put.Get()
				require.Contains(t, recipetest.Drain(t, q), "3")
			})
		})
	}
}

func TestAMemberHasTheDataOfItsLastUpdateAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g := zkrecipes.NewGroup(w.Client(nil), "/group")
		m, err := g.Join(t.Context(), []byte("one"), zkrecipes.MemberID("1"))
		require.NoError(t, err)
		one := w.Srv.Snapshot()
		require.NoError(t, m.Update(t.Context(), []byte("two")))
		w.Srv.Restore(one)
		time.Sleep(time.Second)
		members, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, "two", string(members[0].Data))
	})
}

func TestATermThatIsBackLeavesNoLeader(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		e := zkrecipes.NewElection(w.Client(nil), "/election")
		first, err := e.Campaign(t.Context(), []byte("one"))
		require.NoError(t, err)
		led := w.Srv.Snapshot()
		require.NoError(t, first.Resign())
		second, err := e.Campaign(t.Context(), []byte("two"))
		require.NoError(t, err)
		w.Srv.Restore(led)
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, second.Err(), zkrecipes.ErrLost)
		require.Empty(t, w.Srv.Children("/election"))
		third, err := e.Campaign(harness.Within(t, time.Second), []byte("three"))
		require.NoError(t, err)
		require.Greater(t, third.Token(), second.Token())
	})
}

func TestAnItemThatWasTakenTwiceIsFreeAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Client(nil), "/jobs", nil)
		recipetest.PutOn(t, q, "job")
		it, err := q.Take(t.Context())
		require.NoError(t, err)
		taken := w.Srv.Snapshot()
		require.NoError(t, it.Nack(t.Context()))
		again, err := q.Take(t.Context())
		require.NoError(t, err)
		w.Srv.Restore(taken)
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, again.Err(), zkrecipes.ErrLost)
		third, err := zkrecipes.NewQueue(w.Stranger(nil), "/jobs", nil).Take(harness.Within(t, time.Second))
		require.NoError(t, err, w.Srv.Tree())
		require.Equal(t, "job", string(third.Data))
	})
}

// The reply to an Ack that deletes a znode and creates it again is lost. That the znode is there
// must not look as if the servers had lost its deletion.
func TestAZnodeThatAnAckHasReplacedStaysAfterTheNextReconnect(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var said report
		c := w.Stranger(said.options())
		q := zkrecipes.NewQueue(c, w.Path, nil)
		_, err := w.Bare().Create("/p", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", After: true})
		require.NoError(t, it.Ack(t.Context(), zkrecipes.OpDelete("/p", -1), zkrecipes.OpCreate("/p", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))))
		time.Sleep(time.Second)
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(time.Minute)
		require.True(t, w.Has("/p"))
		log, traced := said.said()
		require.Empty(t, log)
		require.Zero(t, traced)
	})
}

// While the session did not know yet that its Ack had deleted the znode, it created it again.
func TestAZnodeThatWasCreatedAgainAfterAnAckStaysAfterTheNextReconnect(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var said report
		c := w.Stranger(said.options())
		create := func() error {
			_, err := c.Commit(t.Context(), zkrecipes.OpCreate("/busy", nil, zk.FlagEphemeral, nil))
			return err
		}
		require.NoError(t, create())
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", After: true},
			zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled, Op: "multi", Skip: 1, Times: 5})
		acks := harness.GoErr(t, func(ctx context.Context) error { return it.Ack(ctx, zkrecipes.OpDelete("/busy", -1)) })
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		acks.Cancel(context.Canceled)
		_, err := acks.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.False(t, w.Has("/busy"))
		require.NoError(t, create())
		require.NoError(t, it.Err(), "the Ack is still under way")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(time.Minute)
		require.True(t, w.Has("/busy"))
		log, traced := said.said()
		require.Empty(t, log)
		require.Zero(t, traced)
	})
}

// The reply to the Commit is lost, and the next server is behind, so it does not show what the Commit has
// created. Nor does it show when another numbered znode is deleted.
func TestANumberedZnodeOfACommitWhoseReplyWasLostStays(t *testing.T) {
	lag := zktest.Fault{Do: zktest.Lag, Skip: 2, Times: 1, Behind: 1, For: 3 * time.Second}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var said report
		c := w.Stranger(said.options())
		raw := w.Bare()
		for _, path := range []string{"/app", "/app/n-0000000000"} {
			_, err := raw.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "create2", After: true})
		_, err := c.Commit(t.Context(), zkrecipes.OpCreate("/app/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		synctest.Wait()
		_, err = c.Commit(t.Context(), zkrecipes.OpDelete("/app/n-0000000000", -1))
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(time.Minute)
		require.True(t, w.Has("/app/n-0000000001"), w.Srv.Tree())
		w.Accounted(c)
		log, traced := said.said()
		require.Empty(t, log)
		require.Zero(t, traced)
	}, zktest.WithPlan(zktest.NewPlan(lag)))
}

// A term is back, and its place is deleted before its client can delete both. The next leader has
// replaced the leader's znode by then.
func TestATermThatIsBackTakesNothingFromTheNextLeader(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := zkrecipes.NewElection(w.Stranger(nil), "/election"), zkrecipes.NewElection(w.Stranger(nil), "/election")
		first, err := a.Campaign(t.Context(), []byte("one"))
		require.NoError(t, err)
		led := w.Srv.Snapshot()
		require.NoError(t, first.Resign())
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(delete,delete)", For: time.Second})
		w.Srv.Restore(led)
		next := harness.Go(t, func(ctx context.Context) (*zkrecipes.Term, error) { return b.Campaign(ctx, []byte("two")) })
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		raw := w.Bare()
		places := layout.ParsePlaces(w.Srv.Children("/election"), []layout.Kind{layout.KindLock})
		require.Len(t, places, 2, "%s", w.Srv.Tree())
		require.NoError(t, raw.Delete("/election/"+slices.MinFunc(places, layout.PlaceName.Compare).Name, -1))
		term := next.Get()
		time.Sleep(time.Minute)
		require.True(t, w.Met())
		require.NoError(t, term.Err())
		require.True(t, w.Has("/election/leader"))
		require.NoError(t, term.Resign())
	})
}

// The reply to what ends a grant is lost, and the next server is behind: it shows once more what was
// deleted. From then on only the transaction that is sent again tells that it is gone. When the
// servers lose the deletion, it is there again, and must not stay.
func TestWhatIsBackDoesNotStayThoughTheReplyToItsDeletionWasLost(t *testing.T) {
	lag := zktest.Fault{Do: zktest.Lag, Skip: 1, Times: 1, Behind: 1, For: 3 * time.Second}
	take := func(t *testing.T, c *zkrecipes.Client) *zkrecipes.Item {
		q := zkrecipes.NewQueue(c, "/jobs", nil)
		recipetest.PutOn(t, q, "job")
		return recipetest.TakeOn(t, q)
	}
	for name, begin := range map[string]func(*testing.T, *zkrecipes.Client) (end func(context.Context) error){
		"ack with an operation": func(t *testing.T, c *zkrecipes.Client) func(context.Context) error {
			it := take(t, c)
			return func(ctx context.Context) error { return it.Ack(ctx, zkrecipes.OpCreate("/done", nil, 0, nil)) }
		},
		"term": func(t *testing.T, c *zkrecipes.Client) func(context.Context) error {
			term, err := zkrecipes.NewElection(c, "/election").Campaign(t.Context(), nil)
			require.NoError(t, err)
			return func(context.Context) error { return term.Resign() }
		},
		"downgrade": func(t *testing.T, c *zkrecipes.Client) func(context.Context) error {
			l, err := zkrecipes.NewRWLock(c, "/rw").Lock(t.Context())
			require.NoError(t, err)
			return func(ctx context.Context) error { return errors.Join(l.Downgrade(ctx), l.Release()) }
		},
		"slots": func(t *testing.T, c *zkrecipes.Client) func(context.Context) error {
			l, err := zkrecipes.NewSemaphore(c, "/slots", 3).AcquireN(t.Context(), 2)
			require.NoError(t, err)
			return func(context.Context) error { return l.Release() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				end := begin(t, w.Client(nil)) // too young to be watched
				held := w.Srv.Snapshot()
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", After: true})
				require.NoError(t, end(t.Context()))
				time.Sleep(3 * time.Second)
				w.Srv.Restore(held)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				for _, s := range w.Srv.Sessions() {
					s.Ephemerals = slices.DeleteFunc(s.Ephemerals, func(path string) bool { return strings.HasPrefix(path, "/jobs/puts/") })
					require.Empty(t, s.Ephemerals)
				}
			}, zktest.WithPlan(zktest.NewPlan(lag)))
		})
	}
}

// A call that does not wait joins again, too: the servers lose its place before it holds.
func TestATryWhosePlaceTheServersHaveLostTriesAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := zkrecipes.NewMutex(w.Client(nil), w.Path, zkrecipes.LockDelay(time.Minute))
		free := w.Srv.Snapshot()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(check,create)", For: time.Second})
		try := harness.Go(t, m.TryLock)
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 1, w.Plan.Fired()["delay before"])
		w.Srv.Restore(free)
		require.NoError(t, try.Get().Release())
	})
}
