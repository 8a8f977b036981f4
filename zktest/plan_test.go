package zktest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// beforeAndAfter runs f for a fault before the request is applied, and after it.
func beforeAndAfter(t *testing.T, f func(t *testing.T, name string, after bool)) {
	t.Run("before", func(t *testing.T) { f(t, "before", false) })
	t.Run("after", func(t *testing.T) { f(t, "after", true) })
}

func TestDropBeforeLosesTheRequestAndDropAfterTheReply(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		srv := zktest.NewServer(t, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Drop, After: after, Op: "create", Path: "/a/*", Skip: 1})))
		c := open(t, srv)
		c.Ok(conformance.Plain("/a"), conformance.Plain("/a/1"))
		c.Send(conformance.Plain("/a/2"))
		c.Closed()
		require.Equal(t, after, exists(open(t, srv), "/a/2"))
		require.Len(t, srv.Sessions(), 2)
		require.Equal(t, map[string]int{"drop " + name: 1}, srv.Plan().Fired())
		require.Contains(t, srv.Plan().String(), "drop "+name+" create /a/* skip=1 times=1: matched 2, fired 1")
	})
}

func TestWithheldConnectionsStayOpen(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer(t, zktest.InMemory())
			c := open(t, srv)
			srv.Plan().Add(zktest.Fault{Do: zktest.Withhold, After: after, Op: "create"})
			c.Send(conformance.Plain("/a"))
			c.Send(conformance.Exists("/a", false))
			c.GetsNothingFor(5 * time.Second)
			require.Equal(t, after, exists(resume(t, srv, c, 0), "/a"))
		})
	})
}

func TestDelayHoldsUpLaterRequests(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer(t, zktest.InMemory())
			c, other := open(t, srv), open(t, srv)
			srv.Plan().Add(zktest.Fault{Do: zktest.Delay, After: after, Op: "create", For: 3 * time.Second})
			start := time.Now()
			c.SendTogether(conformance.Plain("/a"), conformance.Exists("/a", false))
			synctest.Wait()
			require.Equal(t, after, exists(other, "/a"))
			for _, xid := range []int32{1, 2} {
				require.Equal(t, xid, c.Receive().Xid)
				require.Equal(t, 3*time.Second, time.Since(start))
			}
		})
	})
}

func TestAnswerReplacesTheReply(t *testing.T) {
	srv := zktest.NewServer(t)
	c := open(t, srv)
	srv.Plan().Add(
		zktest.Fault{Do: zktest.Answer, Op: "create", Code: jute.ErrOperationTimeout},
		zktest.Fault{Do: zktest.Answer, Op: "multi", After: true, Code: jute.ErrConnectionLoss},
	)
	c.Fails(jute.ErrOperationTimeout, conformance.Plain("/a"))
	require.False(t, exists(c, "/a"))
	c.Fails(jute.ErrConnectionLoss, conformance.Multi(conformance.Plain("/b")))
	require.True(t, exists(c, "/b"))
}

func TestMiscountFindsAChildThatEndedWithItsSession(t *testing.T) {
	srv := zktest.NewServer(t)
	other, c := open(t, srv), open(t, srv)
	for _, path := range []string{"/a", "/b"} {
		c.Ok(conformance.Plain(path))
		other.Ok(conformance.Ephemeral(path + "/e"))
	}
	other.Ok(conformance.Delete("/b/e", -1), conformance.Close())
	srv.Plan().Add(zktest.Fault{Do: zktest.Miscount, Op: "delete", Times: 2})
	c.Ok(conformance.Delete("/b", -1))
	c.Fails(jute.ErrNotEmpty, conformance.Delete("/a", -1))
	c.Ok(conformance.Delete("/a", -1))
	require.Equal(t, map[string]int{"miscount before": 1}, srv.Plan().Fired())
}

func TestExpireEndsTheSession(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		srv := zktest.NewServer(t, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Expire, After: after, Op: "create"})))
		c := open(t, srv)
		c.Send(conformance.Plain("/a"))
		c.Closed()
		require.Empty(t, srv.Sessions())
		require.Equal(t, after, exists(open(t, srv), "/a"))
	})
}

func TestConnectionsAreRefusedOrNeverAnswered(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		for range 2 {
			_, err := srv.Dial("", "", time.Second)
			require.ErrorContains(t, err, "refused by the plan")
		}
		for range 2 {
			c := conformance.On(t, srv).Dial("c")
			c.Raw(conformance.ConnectRequest{Timeout: 10000}.Frame())
			c.GetsNothingFor(time.Second)
			require.Empty(t, srv.Sessions())
		}
		require.NotZero(t, open(t, srv).ID)
	}, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Refuse, Times: 2}, zktest.Fault{Do: zktest.Silence, Skip: 2}, zktest.Fault{Do: zktest.Withhold, Op: "connect"})))
}

func TestLaggingConnectionReadsOldStateUntilItSyncs(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		writer := open(t, srv)
		c := open(t, srv)
		c.Fails(jute.ErrNoNode, conformance.Exists("/0", true))
		for i := range 4 {
			writer.Ok(conformance.Plain(fmt.Sprintf("/%d", i)))
		}
		c.Gets("the fourth create pushes the first one through", conformance.Event{Type: jute.EventCreated, Path: "/0"})
		require.False(t, exists(c, "/1"))

		// A client that has seen the fourth create is refused.
		seen := writer.Ok(conformance.Exists("/", false)).Zxid
		require.Nil(t, resume(t, srv, c, seen).Password)
		c = resume(t, srv, c, seen-3)
		require.False(t, exists(c, "/3"))
		c.Ok(conformance.Sync("/"))
		require.True(t, exists(c, "/3"))

		// A write of its own brings it up to date too, and so does time.
		writer.Ok(conformance.Plain("/4"))
		require.False(t, exists(c, "/4"))
		c.Ok(conformance.Plain("/5"))
		require.True(t, exists(c, "/4"))
		c.Fails(jute.ErrNoNode, conformance.Exists("/6", true))
		writer.Ok(conformance.Plain("/6"))
		start := time.Now()
		for range 11 {
			time.Sleep(5 * time.Second)
			require.False(t, exists(c, "/6"))
		}
		require.Equal(t, []conformance.Event{{Type: jute.EventCreated, Path: "/6"}}, c.Receive().Events)
		require.Equal(t, time.Minute, time.Since(start))
	}, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Lag, Skip: 1, Times: -1, Behind: 3, For: time.Minute})))
}

func TestSameSeedGivesSamePlan(t *testing.T) {
	require.Equal(t, zktest.PlanFromSeed(7, 20, 100, time.Second).String(), zktest.PlanFromSeed(7, 20, 100, time.Second).String())
	require.NotEqual(t, zktest.PlanFromSeed(7, 20, 100, time.Second).String(), zktest.PlanFromSeed(8, 20, 100, time.Second).String())
}

// Whatever the plan does, go-zookeeper finishes its requests, and at rest the
// server keeps no session, no ephemeral and no watch.
func TestClientsSurviveRandomPlans(t *testing.T) {
	fired := map[string]int{}
	for seed := range uint64(30) {
		inMemory(t, func(t *testing.T, srv *zktest.Server) {
			runClients(t, srv)
			time.Sleep(time.Minute)
			require.Empty(t, srv.Sessions())
			require.Zero(t, srv.Leftovers())
			for kind, n := range srv.Plan().Fired() {
				fired[kind] += n
			}
		}, zktest.WithPlan(zktest.PlanFromSeed(seed, 12, 120, time.Second)))
	}
	t.Log(fired)
	for _, kind := range []string{
		"drop before", "drop after", "withhold before", "withhold after", "delay before", "delay after",
		"answer before", "answer after", "expire before", "expire after", "refuse", "silence", "lag",
	} {
		require.NotZero(t, fired[kind], kind)
	}
}

// runClients runs three clients that write, read and watch, and closes them.
func runClients(t *testing.T, srv *zktest.Server) {
	t.Helper()
	acl := zk.WorldACL(zk.PermAll)
	var clients []*zk.Conn
	for range 3 {
		c, _, err := zk.Connect([]string{srv.Addr()}, 5*time.Second,
			zk.WithDialer(srv.Dial), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
		require.NoError(t, err)
		clients = append(clients, c)
	}
	for i := range 30 {
		for _, c := range clients {
			c.Create(fmt.Sprintf("/n%d", i), nil, zk.FlagEphemeral, acl)
			if !recipetest.HasRaceDetector() { // go-zookeeper has a data race when it sets watches again
				c.ExistsW(fmt.Sprintf("/n%d", i+1))
			}
			c.Multi(&zk.CreateRequest{Path: "/m", Acl: acl}, &zk.DeleteRequest{Path: "/m", Version: -1})
			c.Children("/")
		}
	}
	for _, c := range clients {
		c.Close()
	}
}

// A fault that cannot do what it says makes a test that passes and shows nothing.
func TestPlanRefusesFaultsThatCannotDoWhatTheySay(t *testing.T) {
	for want, faults := range map[string][]zktest.Fault{
		`unknown action ""`:                            {{}},
		`unknown action "dropp"`:                       {{Do: "dropp"}},
		`For is of no use for the action "drop"`:       {{Do: zktest.Drop, For: 1}},
		`For is of no use for the action "withhold"`:   {{Do: zktest.Withhold, For: 1}},
		`For is of no use for the action "answer"`:     {{Do: zktest.Answer, For: 1}},
		`Code is of no use for the action "expire"`:    {{Do: zktest.Expire, Code: -4}},
		`Code is of no use for the action "delay"`:     {{Do: zktest.Delay, Code: -4}},
		`After is of no use for the action "miscount"`: {{Do: zktest.Miscount, After: true}},
		`Behind is of no use for the action "delay"`:   {{Do: zktest.Delay, Behind: 1}},
		`Behind is of no use for the action "silence"`: {{Do: zktest.Silence, Behind: 1}},
		`For is of no use for the action "silence"`:    {{Do: zktest.Silence, For: 1}},
		`After is of no use for the action "refuse"`:   {{Do: zktest.Refuse, After: true}},
		`Op is of no use for the action "lag"`:         {{Do: zktest.Lag, Op: "create", Behind: 1}},
		`Path is of no use for the action "refuse"`:    {{Do: zktest.Refuse, Path: "/x"}},
		`Code is of no use for the action "lag"`:       {{Do: zktest.Lag, Code: -4}},

		`the action "answer" needs Code`:                               {{Do: zktest.Answer, Op: "create"}},
		`the action "delay" needs For`:                                 {{Do: zktest.Delay, Op: "create"}, {Do: zktest.Delay, For: -1}},
		`the action "lag" needs For`:                                   {{Do: zktest.Lag, Behind: 1}},
		`the action "lag" needs Behind`:                                {{Do: zktest.Lag, For: 1}, {Do: zktest.Lag, For: 1, Behind: -1}},
		`the action "answer" does nothing to "connect"`:                {{Do: zktest.Answer, Op: "connect", Code: -4}, {Do: zktest.Answer, Op: "connect", Code: -4, After: true}},
		`the action "expire" does nothing after "closeSession"`:        {{Do: zktest.Expire, Op: "closeSession", After: true}},
		`the action "miscount" does nothing to "create"`:               {{Do: zktest.Miscount, Op: "create"}},
		`the action "miscount" does nothing to "deleteContainer"`:      {{Do: zktest.Miscount, Op: "deleteContainer"}},
		`the action "miscount" does nothing to "multi(check,setData)"`: {{Do: zktest.Miscount, Op: "multi(check,setData)"}},
		`no operation is named "multi(check,set)"`:                     {{Do: zktest.Drop, Op: "multi(check,set)"}},
		`no operation is named "multi(delete"`:                         {{Do: zktest.Drop, Op: "multi(delete"}},
		`no operation is named "set"`:                                  {{Do: zktest.Drop, Op: "set"}},
		`no "setWatches" matches a Path`:                               {{Do: zktest.Drop, Op: "setWatches", Path: "/x"}},
		`no "connect" matches a Path`:                                  {{Do: zktest.Drop, Op: "connect", Path: "/x"}},
		`no "closeSession" matches a Path`:                             {{Do: zktest.Drop, Op: "closeSession", Path: "/x*"}},
	} {
		for _, f := range faults {
			require.PanicsWithValue(t, "zktest: fault "+f.String()+": "+want, func() { zktest.NewPlan(f) })
			p := zktest.NewPlan()
			require.Panics(t, func() { p.Add(zktest.Fault{Do: zktest.Drop}, f) })
			require.Empty(t, p.Faults(), "none is added")
		}
	}
	all := []zktest.Fault{
		{Do: zktest.Drop, After: true, Op: "create", Path: "/x*", Skip: 1, Times: -1}, {Do: zktest.Withhold, Op: "multi"},
		{Do: zktest.Withhold, Op: "setWatches"}, {Do: zktest.Expire, Path: "/x"}, {Do: zktest.Expire, Op: "closeSession"},
		{Do: zktest.Delay, For: 1, After: true}, {Do: zktest.Delay, Op: "connect", For: 1}, {Do: zktest.Answer, Code: -4},
		{Do: zktest.Refuse, Skip: 1, Times: 2}, {Do: zktest.Silence}, {Do: zktest.Lag, Behind: 1, For: 1},
		{Do: zktest.Miscount, Op: "delete", Path: "/x"}, {Do: zktest.Miscount}, {Do: zktest.Miscount, Op: "multi"},
		{Do: zktest.Miscount, Op: "multi(check,delete)"},
	}
	require.Equal(t, all, zktest.NewPlan(all...).Faults())
}

func TestARunningServerTakesALagOnlyIfItsPlanHadOneAtTheStart(t *testing.T) {
	lag := zktest.Fault{Do: zktest.Lag, Behind: 1, For: 1}
	srv := zktest.NewServer(t, zktest.InMemory())
	require.PanicsWithValue(t, "zktest: fault "+lag.String()+": the plan had no such fault when the server started",
		func() { srv.Plan().Add(zktest.Fault{Do: zktest.Drop}, lag) })
	require.Empty(t, srv.Plan().Faults(), "none is added")
	srv.Close()
	srv.Plan().Add(lag) // for the next server
	zktest.NewServer(t, zktest.InMemory(), zktest.WithPlan(srv.Plan())).Plan().Add(lag)
	require.Len(t, srv.Plan().Faults(), 2)
}

// A handshake has no error code to replace.
func TestAnswerDoesNotFireOnAHandshake(t *testing.T) {
	srv := zktest.NewServer(t, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled}, zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled, After: true, Skip: 1})))
	c := open(t, srv)
	require.Equal(t, map[string]int{"answer before": 0, "answer after": 0}, srv.Plan().Fired())
	for range 2 {
		c.Fails(jute.ErrThrottled, conformance.Exists("/", true))
	}
	require.Equal(t, map[string]int{"answer before": 1, "answer after": 1}, srv.Plan().Fired())
}

func TestExpireFiresOnlyIfThereIsASession(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Expire, Op: "connect"})))
		c := open(t, srv)
		require.Equal(t, map[string]int{"expire before": 0}, srv.Plan().Fired(), "it is new")
		require.Zero(t, resume(t, srv, c, 0).ID)
		require.Equal(t, map[string]int{"expire before": 1}, srv.Plan().Fired())
	})
	t.Run("after", func(t *testing.T) {
		srv := zktest.NewServer(t)
		c := open(t, srv)
		srv.Plan().Add(zktest.Fault{Do: zktest.Expire, After: true})
		c.Ok(conformance.Close())
		require.Zero(t, resume(t, srv, c, 0).ID)
		require.Equal(t, map[string]int{"expire after": 0}, srv.Plan().Fired(), "it has ended")
		open(t, srv)
		require.Equal(t, map[string]int{"expire after": 1}, srv.Plan().Fired())
		require.Empty(t, srv.Sessions())
	})
}

// The client sends it again.
func TestAFaultDoesNotFireOnARequestThatTheConnectionEndsBefore(t *testing.T) {
	for _, do := range []zktest.Action{zktest.Drop, zktest.Withhold, zktest.Expire} {
		beforeAndAfter(t, func(t *testing.T, name string, after bool) {
			if do == zktest.Withhold && after {
				return // requests behind it are applied
			}
			inMemory(t, func(t *testing.T, srv *zktest.Server) {
				c := open(t, srv)
				c.Ok(conformance.Plain("/a"))
				srv.Plan().Add(
					zktest.Fault{Do: do, After: after, Op: "create", Skip: 1},
					zktest.Fault{Do: zktest.Answer, Op: "exists", Code: jute.ErrOperationTimeout},
				)
				c.SendTogether(conformance.Plain("/a/1"), conformance.Plain("/a/2"), conformance.Plain("/a/3"), conformance.Exists("/", true))
				synctest.Wait()
				require.Equal(t, map[string]int{string(do) + " " + name: 1, "answer before": 0}, srv.Plan().Fired())
				open(t, srv).Fails(jute.ErrOperationTimeout, conformance.Exists("/", true))
				require.Contains(t, srv.Plan().String(), "answer before exists code=-7 skip=0 times=1: matched 1, fired 1")
			})
		})
	}
}

func TestAMiscountThatFindsNoSuchZnodeIsNotCounted(t *testing.T) {
	srv := zktest.NewServer(t)
	c := open(t, srv)
	c.Ok(conformance.Plain("/a"))
	srv.Plan().Add(zktest.Fault{Do: zktest.Miscount, Path: "/a", Times: 2})
	require.True(t, exists(c, "/a"))
	c.Ok(conformance.Delete("/a", -1))
	require.Equal(t, map[string]int{"miscount before": 0}, srv.Plan().Fired())
	require.Contains(t, srv.Plan().String(), "matched 2, fired 0")
}

func TestRandomPlansAreValid(t *testing.T) {
	for seed := range uint64(100) {
		require.Len(t, zktest.PlanFromSeed(seed, 30, 100, time.Second).Faults(), 30)
	}
}
