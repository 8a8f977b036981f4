package zktest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// beforeAndAfter runs f for a fault before the request is applied, and after it.
func beforeAndAfter(t *testing.T, f func(t *testing.T, name string, after bool)) {
	t.Run("before", func(t *testing.T) { f(t, "before", false) })
	t.Run("after", func(t *testing.T) { f(t, "after", true) })
}

func TestDropBeforeLosesTheRequestAndDropAfterTheReply(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		srv := NewServer(t, WithPlan(NewPlan(Fault{Do: Drop, After: after, Op: "create", Path: "/a/*", Skip: 1})))
		c := dialSession(t, srv, 0, nil, 0)
		c.create("/a", 0)
		c.create("/a/1", 0)
		c.write(frame(1, jute.OpCreate, createRecord("/a/2", 0)))
		c.waitClosed()
		require.Equal(t, after, dialSession(t, srv, 0, nil, 0).exists("/a/2"))
		require.Len(t, srv.Sessions(), 2)
		require.Equal(t, map[string]int{"drop " + name: 1}, srv.Plan().Fired())
		require.Contains(t, srv.Plan().String(), "drop "+name+" create /a/* skip=1 times=1: matched 2, fired 1")
	})
}

func TestWithheldConnectionsStayOpen(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		synctest.Test(t, func(t *testing.T) {
			srv := NewServer(t, InMemory())
			c := dialSession(t, srv, 0, nil, 0)
			srv.Plan().Add(Fault{Do: Withhold, After: after, Op: "create"})
			c.write(frame(1, jute.OpCreate, createRecord("/a", 0)))
			c.write(frame(2, jute.OpExists, append(pathRecord("/a"), 0)))
			require.NoError(t, c.nc.SetReadDeadline(time.Now().Add(5*time.Second)))
			_, err := c.nc.Read(make([]byte, 1))
			require.ErrorContains(t, err, "timeout")
			again := dialSession(t, srv, c.id, c.pass, 0)
			require.Equal(t, after, again.exists("/a"))
		})
	})
}

func TestDelayHoldsUpLaterRequests(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		synctest.Test(t, func(t *testing.T) {
			srv := NewServer(t, InMemory())
			c, other := dialSession(t, srv, 0, nil, 0), dialSession(t, srv, 0, nil, 0)
			srv.Plan().Add(Fault{Do: Delay, After: after, Op: "create", For: 3 * time.Second})
			start := time.Now()
			c.write(append(frame(1, jute.OpCreate, createRecord("/a", 0)), frame(2, jute.OpPing, nil)...))
			synctest.Wait()
			require.Equal(t, after, other.exists("/a"))
			require.Equal(t, int32(1), c.read().xid)
			require.Equal(t, 3*time.Second, time.Since(start))
			require.Equal(t, jute.XidPing, c.read().xid)
			require.Equal(t, 3*time.Second, time.Since(start))
		})
	})
}

func TestAnswerReplacesTheReply(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	srv.Plan().Add(
		Fault{Do: Answer, Op: "create", Code: jute.ErrOperationTimeout},
		Fault{Do: Answer, Op: "multi", After: true, Code: jute.ErrConnectionLoss},
	)
	require.Equal(t, jute.ErrOperationTimeout, c.roundTrip(jute.OpCreate, createRecord("/a", 0)).err)
	require.False(t, c.exists("/a"))
	b := append(appendHeader(nil, jute.OpCreate, false, -1), createRecord("/b", 0)...)
	require.Equal(t, jute.ErrConnectionLoss, c.roundTrip(jute.OpMulti, appendHeader(b, -1, true, -1)).err)
	require.True(t, c.exists("/b"))
}

func TestMiscountFindsAChildThatEndedWithItsSession(t *testing.T) {
	srv := NewServer(t)
	other, c := dialSession(t, srv, 0, nil, 0), dialSession(t, srv, 0, nil, 0)
	for _, path := range []string{"/a", "/b"} {
		c.create(path, 0)
		other.create(path+"/e", 1)
	}
	require.Zero(t, other.roundTrip(jute.OpDelete, versionRecord("/b/e", -1)).err)
	require.Zero(t, other.roundTrip(jute.OpClose, nil).err)
	srv.Plan().Add(Fault{Do: Miscount, Op: "delete", Times: 2})
	require.Zero(t, c.roundTrip(jute.OpDelete, versionRecord("/b", -1)).err)
	require.Equal(t, jute.ErrNotEmpty, c.roundTrip(jute.OpDelete, versionRecord("/a", -1)).err)
	require.Zero(t, c.roundTrip(jute.OpDelete, versionRecord("/a", -1)).err)
	require.Equal(t, map[string]int{"miscount before": 1}, srv.Plan().Fired())
}

func TestExpireEndsTheSession(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, name string, after bool) {
		srv := NewServer(t, WithPlan(NewPlan(Fault{Do: Expire, After: after, Op: "create"})))
		c := dialSession(t, srv, 0, nil, 0)
		c.write(frame(1, jute.OpCreate, createRecord("/a", 0)))
		c.waitClosed()
		require.Empty(t, srv.Sessions())
		require.Equal(t, after, dialSession(t, srv, 0, nil, 0).exists("/a"))
	})
}

func TestConnectionsAreRefusedOrNeverAnswered(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		for range 2 {
			_, err := srv.Dial("", "", time.Second)
			require.ErrorContains(t, err, "refused by the plan")
		}
		for range 2 {
			c := dialRaw(t, srv)
			require.NoError(t, c.nc.SetDeadline(time.Now().Add(time.Second)))
			c.handshake(0, nil, 0)
			require.Nil(t, c.pass)
			require.Empty(t, srv.Sessions())
		}
		require.NotZero(t, dialSession(t, srv, 0, nil, 0).id)
	}, WithPlan(NewPlan(Fault{Do: Refuse, Times: 2}, Fault{Do: Silence, Skip: 2}, Fault{Do: Withhold, Op: "connect"})))
}

func TestLaggingConnectionReadsOldStateUntilItSyncs(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		writer := dialSession(t, srv, 0, nil, 0)
		c := dialSession(t, srv, 0, nil, 0)
		require.Equal(t, jute.ErrNoNode, c.roundTrip(jute.OpExists, watchRecord("/0")).err)
		for i := range 4 {
			writer.create(fmt.Sprintf("/%d", i), 0)
		}
		c.requireEvents(watchEvent{jute.EventCreated, "/0"}) // the fourth create pushes the first one through
		require.False(t, c.exists("/1"))

		// A client that has seen the fourth create is refused.
		seen := writer.roundTrip(jute.OpExists, append(pathRecord("/"), 0))
		require.Nil(t, dialSession(t, srv, c.id, c.pass, seen.zxid).pass)
		c = dialSession(t, srv, c.id, c.pass, seen.zxid-3)
		require.False(t, c.exists("/3"))
		require.Zero(t, c.roundTrip(jute.OpSync, pathRecord("/")).err)
		require.True(t, c.exists("/3"))

		// A write of its own brings it up to date too, and so does time.
		writer.create("/4", 0)
		require.False(t, c.exists("/4"))
		c.create("/5", 0)
		require.True(t, c.exists("/4"))
		require.Equal(t, jute.ErrNoNode, c.roundTrip(jute.OpExists, watchRecord("/6")).err)
		writer.create("/6", 0)
		start := time.Now()
		require.NoError(t, c.nc.SetDeadline(time.Time{}))
		for time.Since(start) < 59*time.Second {
			time.Sleep(5 * time.Second)
			if time.Since(start) < time.Minute {
				require.False(t, c.exists("/6"))
			}
		}
		c.requireEvents(watchEvent{jute.EventCreated, "/6"})
		require.Equal(t, time.Minute, time.Since(start))
	}, WithPlan(NewPlan(Fault{Do: Lag, Skip: 1, Times: -1, Behind: 3, For: time.Minute})))
}

func TestSameSeedGivesSamePlan(t *testing.T) {
	require.Equal(t, PlanFromSeed(7, 20, 100, time.Second).String(), PlanFromSeed(7, 20, 100, time.Second).String())
	require.NotEqual(t, PlanFromSeed(7, 20, 100, time.Second).String(), PlanFromSeed(8, 20, 100, time.Second).String())
}

// Whatever the plan does, go-zookeeper finishes its requests, and at rest the
// server keeps no session, no ephemeral and no watch.
func TestClientsSurviveRandomPlans(t *testing.T) {
	fired := map[string]int{}
	for seed := range uint64(30) {
		inMemory(t, func(t *testing.T, srv *Server) {
			runClients(t, srv)
			time.Sleep(time.Minute)
			require.Empty(t, srv.Sessions())
			srv.mu.Lock()
			require.Empty(t, srv.leader.tree.ephemerals)
			require.Empty(t, srv.leader.dataWatches.table)
			require.Empty(t, srv.lagging)
			require.Empty(t, srv.conns)
			srv.mu.Unlock()
			for kind, n := range srv.Plan().Fired() {
				fired[kind] += n
			}
		}, WithPlan(PlanFromSeed(seed, 12, 120, time.Second)))
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
func runClients(t *testing.T, srv *Server) {
	t.Helper()
	var clients []*zk.Conn
	for range 3 {
		c, _, err := zk.Connect([]string{srv.Addr()}, 5*time.Second,
			zk.WithDialer(srv.Dial), zk.WithLogger(discardLogger{}), zk.WithLogInfo(false))
		require.NoError(t, err)
		clients = append(clients, c)
	}
	for i := range 30 {
		for _, c := range clients {
			c.Create(fmt.Sprintf("/n%d", i), nil, zk.FlagEphemeral, worldACL)
			if !raceEnabled { // go-zookeeper has a data race when it sets watches again
				c.ExistsW(fmt.Sprintf("/n%d", i+1))
			}
			c.Multi(&zk.CreateRequest{Path: "/m", Acl: worldACL}, &zk.DeleteRequest{Path: "/m", Version: -1})
			c.Children("/")
		}
	}
	for _, c := range clients {
		c.Close()
	}
}

// A field that is ignored makes a test that passes and shows nothing.
func TestPlanRefusesFieldsThatTheActionIgnores(t *testing.T) {
	for want, f := range map[string]Fault{
		`unknown action ""`:                            {},
		`unknown action "dropp"`:                       {Do: "dropp"},
		`For is of no use for the action "drop"`:       {Do: Drop, For: 1},
		`For is of no use for the action "withhold"`:   {Do: Withhold, For: 1},
		`For is of no use for the action "answer"`:     {Do: Answer, For: 1},
		`Code is of no use for the action "expire"`:    {Do: Expire, Code: -4},
		`Code is of no use for the action "delay"`:     {Do: Delay, Code: -4},
		`After is of no use for the action "miscount"`: {Do: Miscount, After: true},
		`Behind is of no use for the action "delay"`:   {Do: Delay, Behind: 1},
		`Behind is of no use for the action "silence"`: {Do: Silence, Behind: 1},
		`For is of no use for the action "silence"`:    {Do: Silence, For: 1},
		`After is of no use for the action "refuse"`:   {Do: Refuse, After: true},
		`Op is of no use for the action "lag"`:         {Do: Lag, Op: "create", Behind: 1},
		`Path is of no use for the action "refuse"`:    {Do: Refuse, Path: "/x"},
		`Code is of no use for the action "lag"`:       {Do: Lag, Code: -4},
	} {
		require.PanicsWithValue(t, "zktest: fault "+f.String()+": "+want, func() { NewPlan(f) })
		p := NewPlan()
		require.Panics(t, func() { p.Add(Fault{Do: Drop}, f) })
		require.Empty(t, p.Faults(), "none is added")
	}
	all := []Fault{
		{Do: Drop, After: true, Op: "create", Path: "/x*", Skip: 1, Times: -1}, {Do: Withhold, Op: "multi"}, {Do: Expire, Path: "/x"},
		{Do: Delay, For: 1, After: true}, {Do: Answer, Code: -4}, {Do: Refuse, Skip: 1, Times: 2}, {Do: Silence}, {Do: Lag, Behind: 1, For: 1},
		{Do: Miscount, Op: "delete", Path: "/x"},
	}
	require.Equal(t, all, NewPlan(all...).Faults())
}

// So does a field that is missing.
func TestPlanRefusesFaultsThatCanDoNothing(t *testing.T) {
	for want, faults := range map[string][]Fault{
		`the action "answer" needs Code`:                               {{Do: Answer, Op: "create"}},
		`the action "delay" needs For`:                                 {{Do: Delay, Op: "create"}, {Do: Delay, For: -1}},
		`the action "lag" needs For`:                                   {{Do: Lag, Behind: 1}},
		`the action "lag" needs Behind`:                                {{Do: Lag, For: 1}, {Do: Lag, For: 1, Behind: -1}},
		`the action "answer" does nothing to "connect"`:                {{Do: Answer, Op: "connect", Code: -4}, {Do: Answer, Op: "connect", Code: -4, After: true}},
		`the action "expire" does nothing after "closeSession"`:        {{Do: Expire, Op: "closeSession", After: true}},
		`the action "miscount" does nothing to "create"`:               {{Do: Miscount, Op: "create"}},
		`the action "miscount" does nothing to "deleteContainer"`:      {{Do: Miscount, Op: "deleteContainer"}},
		`the action "miscount" does nothing to "multi(check,setData)"`: {{Do: Miscount, Op: "multi(check,setData)"}},
		`no operation is named "multi(check,set)"`:                     {{Do: Drop, Op: "multi(check,set)"}},
		`no operation is named "multi(delete"`:                         {{Do: Drop, Op: "multi(delete"}},
		`no operation is named "set"`:                                  {{Do: Drop, Op: "set"}},
		`no "setWatches" matches a Path`:                               {{Do: Drop, Op: "setWatches", Path: "/x"}},
		`no "connect" matches a Path`:                                  {{Do: Drop, Op: "connect", Path: "/x"}},
		`no "closeSession" matches a Path`:                             {{Do: Drop, Op: "closeSession", Path: "/x*"}},
	} {
		for _, f := range faults {
			require.PanicsWithValue(t, "zktest: fault "+f.String()+": "+want, func() { NewPlan(f) })
		}
	}
	all := []Fault{
		{Do: Expire, Op: "closeSession"}, {Do: Delay, Op: "connect", For: 1}, {Do: Withhold, Op: "setWatches"},
		{Do: Miscount}, {Do: Miscount, Op: "multi"}, {Do: Miscount, Op: "multi(check,delete)"},
	}
	require.Equal(t, all, NewPlan(all...).Faults())
}

func TestARunningServerTakesALagOnlyIfItsPlanHadOneAtTheStart(t *testing.T) {
	lag := Fault{Do: Lag, Behind: 1, For: 1}
	srv := NewServer(t, InMemory())
	require.PanicsWithValue(t, "zktest: fault "+lag.String()+": the plan had no such fault when the server started",
		func() { srv.Plan().Add(Fault{Do: Drop}, lag) })
	require.Empty(t, srv.Plan().Faults(), "none is added")
	srv.Close()
	srv.Plan().Add(lag) // for the next server
	NewServer(t, InMemory(), WithPlan(srv.Plan())).Plan().Add(lag)
	require.Len(t, srv.Plan().Faults(), 2)
}

// A handshake has no error code to replace.
func TestAnswerDoesNotFireOnAHandshake(t *testing.T) {
	srv := NewServer(t, WithPlan(NewPlan(Fault{Do: Answer, Code: jute.ErrThrottled}, Fault{Do: Answer, Code: jute.ErrThrottled, After: true, Skip: 1})))
	c := dialSession(t, srv, 0, nil, 0)
	require.Equal(t, map[string]int{"answer before": 0, "answer after": 0}, srv.Plan().Fired())
	for range 2 {
		require.Equal(t, jute.ErrThrottled, c.roundTrip(jute.OpExists, watchRecord("/")).err)
	}
	require.Equal(t, map[string]int{"answer before": 1, "answer after": 1}, srv.Plan().Fired())
}

func TestExpireFiresOnlyIfThereIsASession(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		srv := NewServer(t, WithPlan(NewPlan(Fault{Do: Expire, Op: "connect"})))
		c := dialSession(t, srv, 0, nil, 0)
		require.Equal(t, map[string]int{"expire before": 0}, srv.Plan().Fired(), "it is new")
		require.Zero(t, dialSession(t, srv, c.id, c.pass, 0).id)
		require.Equal(t, map[string]int{"expire before": 1}, srv.Plan().Fired())
	})
	t.Run("after", func(t *testing.T) {
		srv := NewServer(t)
		c := dialSession(t, srv, 0, nil, 0)
		srv.Plan().Add(Fault{Do: Expire, After: true})
		require.Zero(t, c.roundTrip(jute.OpClose, nil).err)
		require.Zero(t, dialSession(t, srv, c.id, c.pass, 0).id)
		require.Equal(t, map[string]int{"expire after": 0}, srv.Plan().Fired(), "it has ended")
		dialSession(t, srv, 0, nil, 0)
		require.Equal(t, map[string]int{"expire after": 1}, srv.Plan().Fired())
		require.Empty(t, srv.Sessions())
	})
}

// The client sends it again.
func TestAFaultDoesNotFireOnARequestThatTheConnectionEndsBefore(t *testing.T) {
	for _, do := range []Action{Drop, Withhold, Expire} {
		beforeAndAfter(t, func(t *testing.T, name string, after bool) {
			if do == Withhold && after {
				return // requests behind it are applied
			}
			inMemory(t, func(t *testing.T, srv *Server) {
				c := dialSession(t, srv, 0, nil, 0)
				c.create("/a", 0)
				srv.Plan().Add(
					Fault{Do: do, After: after, Op: "create", Skip: 1},
					Fault{Do: Answer, Op: "exists", Code: jute.ErrOperationTimeout},
				)
				var sent []byte
				for i, record := range [][]byte{createRecord("/a/1", 0), createRecord("/a/2", 0), createRecord("/a/3", 0)} {
					sent = append(sent, frame(int32(i), jute.OpCreate, record)...)
				}
				c.write(append(sent, frame(3, jute.OpExists, watchRecord("/"))...))
				synctest.Wait()
				require.Equal(t, map[string]int{string(do) + " " + name: 1, "answer before": 0}, srv.Plan().Fired())
				require.Equal(t, jute.ErrOperationTimeout, dialSession(t, srv, 0, nil, 0).roundTrip(jute.OpExists, watchRecord("/")).err)
				require.Contains(t, srv.Plan().String(), "answer before exists code=-7 skip=0 times=1: matched 1, fired 1")
			})
		})
	}
}

func TestAMiscountThatFindsNoSuchZnodeIsNotCounted(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	c.create("/a", 0)
	srv.Plan().Add(Fault{Do: Miscount, Path: "/a", Times: 2})
	require.True(t, c.exists("/a"))
	require.Zero(t, c.roundTrip(jute.OpDelete, versionRecord("/a", -1)).err)
	require.Equal(t, map[string]int{"miscount before": 0}, srv.Plan().Fired())
	require.Contains(t, srv.Plan().String(), "matched 2, fired 0")
}

func TestRandomPlansAreValid(t *testing.T) {
	for seed := range uint64(100) {
		require.Len(t, PlanFromSeed(seed, 30, 100, time.Second).Faults(), 30)
	}
}
