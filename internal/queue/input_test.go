package queue_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Invalid input, sizes, permissions, and servers that refuse requests.

func TestB39QueueErrorsNameTheInvalidPathOrOption(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	for path, want := range map[string]string{
		"":       `"": path is empty`,
		"queues": `queues: path does not begin with "/"`,
		"/":      `/: path is the root`,
		"/a/":    `/a/: path ends with "/"`,
		"/a//b":  `/a//b: path contains "//"`,
		"/a/..":  `/a/..: path contains the relative element ".."`,
	} {
		q := zkrecipes.NewQueue(r.C, path, nil)
		_, err := q.Put(r.Ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+want)
		_, err = q.PutAll(r.Ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+want)
		_, err = q.Take(r.Ctx)
		require.EqualError(t, err, "zkrecipes: take from "+want)
		require.EqualError(t, q.Serve(r.Ctx, func(context.Context, *zkrecipes.Item) error { return nil }), "zkrecipes: serve "+want)
		_, err = q.Len(r.Ctx)
		require.EqualError(t, err, "zkrecipes: count "+want)
		_, err = q.Peek(r.Ctx)
		require.EqualError(t, err, "zkrecipes: peek into "+want)
		for _, err := range q.Items(r.Ctx) {
			require.EqualError(t, err, "zkrecipes: list "+want)
		}
	}
	for want, opts := range map[string]*zkrecipes.QueueOptions{
		`QueueOptions.MaxLen is -1`:                                    {MaxLen: -1},
		`QueueOptions.MaxItemBytes is -1`:                              {MaxItemBytes: -1},
		`QueueOptions.Workers is -1`:                                   {Workers: -1},
		`QueueOptions.DrainTimeout is -1s`:                             {DrainTimeout: -time.Second},
		`QueueOptions.DeadLetter is the queue itself`:                  {DeadLetter: r.Path},
		`QueueOptions.DeadLetter "dead": path does not begin with "/"`: {DeadLetter: "dead"},
		`QueueOptions.DeadLetter "/dead/": path ends with "/"`:         {DeadLetter: "/dead/"},
	} {
		_, err := zkrecipes.NewQueue(r.C, r.Path, opts).Put(r.Ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+r.Path+": "+want)
	}
	require.Empty(t, r.P.Count())

	ephemeral := "/ephemeral" + queuelog.NewID()
	_, err := r.Raw.Create(ephemeral, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, path := range []string{ephemeral, ephemeral + "/x"} {
		_, err := zkrecipes.NewQueue(r.C, path, nil).Put(r.Ctx, nil)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
		_, err = zkrecipes.NewQueue(r.C, path, nil).Take(r.Ctx)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	}
	harness.MakeParents(t, r.Raw, r.Path+"/s")
	_, err = recipetest.Insider(t, r.Raw).Set(r.Path+"/s", []byte("zkrecipes/9 queue"), -1)
	require.NoError(t, err)
	_, err = r.Q.Put(r.Ctx, nil)
	require.EqualError(t, err, "zkrecipes: put into "+r.Path+`: path is used by a version with another layout: "zkrecipes/9 queue"`)
	_, err = r.Q.Take(r.Ctx)
	require.ErrorContains(t, err, "layout")
}

func TestB40QueueRejectsNilArguments(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	var none context.Context
	var nilQueue *zkrecipes.Queue
	for q, want := range map[*zkrecipes.Queue]string{
		nilQueue: `"": not made by NewQueue`, {}: `"": not made by NewQueue`, zkrecipes.NewQueue(nil, "/x", nil): "/x: nil client",
	} {
		_, err := q.Put(r.Ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+want)
		_, err = q.Take(r.Ctx)
		require.EqualError(t, err, "zkrecipes: take from "+want)
		_, err = q.Len(r.Ctx)
		require.Error(t, err)
		_, err = q.Peek(r.Ctx)
		require.Error(t, err)
		require.Error(t, q.Serve(r.Ctx, nil))
	}
	_, err := r.Q.Put(none, nil)
	require.EqualError(t, err, "zkrecipes: put into "+r.Path+": nil context")
	_, err = r.Q.Take(none)
	require.EqualError(t, err, "zkrecipes: take from "+r.Path+": nil context")
	_, err = r.Q.Len(none)
	require.EqualError(t, err, "zkrecipes: count "+r.Path+": nil context")
	recipetest.PutOn(t, r.Q, "x")
	it := recipetest.TakeOn(t, r.Q)
	require.EqualError(t, it.Ack(none), "zkrecipes: ack an item of "+r.Path+": nil context")
	require.EqualError(t, it.Nack(none), "zkrecipes: nack an item of "+r.Path+": nil context")
	require.Panics(t, func() { it.Context(none) })
	require.NoError(t, it.Err())
	recipetest.AckOn(t, it)
	recipetest.PutOn(t, r.Q, "")
	it = recipetest.TakeOn(t, r.Q)
	require.Empty(t, it.Data)
	recipetest.AckOn(t, it)
}

// The largest item that fits, and one byte more. The limit is that of the largest
// transaction that the item needs: the put, the put with a bound, or the move to the
// dead letters. An ack has a limit, too.
func TestRealB52ItemsAndAcksOverTheSizeLimitAreRefused(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	r.Warm()
	largest := func(fits func(n int) error) int {
		low, high := 0, jute.MaxFrame
		for low+1 < high {
			if n := (low + high) / 2; fits(n) == nil {
				low = n
			} else {
				high = n
			}
		}
		return low
	}
	s, _ := recipetest.Core(r.C).Session()
	for name, opts := range map[string]*zkrecipes.QueueOptions{
		"no dead letters":  {MaxAttempts: -1},
		"bounded":          {MaxAttempts: -1, MaxLen: 5},
		"dead letters":     {MaxAttempts: 1},
		"far dead letters": {MaxAttempts: 1, DeadLetter: "/" + strings.Repeat("d", 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			q := zkrecipes.NewQueue(r.C, r.Path, opts)
			n := largest(func(n int) error {
				return recipetest.QueueOf(q).CheckFits(s, []queuelog.Item{{ID: queuelog.NewID(), Data: make([]byte, n)}})
			})
			require.Greater(t, n, jute.MaxFrame-100_000)
			r.P.Reset()
			_, err := q.Put(r.Ctx, make([]byte, n+1))
			require.ErrorContains(t, err, "request of 1048576 bytes: servers accept 1048575 (jute.maxbuffer)")
			sent := r.P.Count()
			delete(sent, "multi(delete)") // the place in line that an earlier case leaves
			require.Empty(t, sent)
			data := make([]byte, n)
			rand.Read(data)
			_, err = q.Put(r.Ctx, data)
			require.NoError(t, err)
			it := recipetest.TakeOn(t, q)
			require.Equal(t, data, it.Data)
			if opts.MaxAttempts < 0 {
				recipetest.AckOn(t, it)
				return
			}
			recipetest.NackOn(t, it)
			a := recipetest.TakeLater(t, q)
			dead := zkrecipes.NewQueue(r.C, recipetest.QueueOf(q).Opts.DeadLetter, &zkrecipes.QueueOptions{MaxAttempts: -1})
			it = recipetest.TakeOn(t, dead)
			require.Equal(t, data, it.Data)
			recipetest.AckOn(t, it)
			a.Cancel(nil)
			_, err = a.Wait()
			require.ErrorIs(t, err, context.Canceled)
		})
	}

	recipetest.PutOn(t, r.Q, "x")
	it := recipetest.TakeOn(t, r.Q)
	session := recipetest.SessionID(r.C)
	r.P.Reset()
	err := it.Ack(r.Ctx, zkrecipes.OpCreate(r.Path+"-big", make([]byte, jute.MaxFrame), 0, nil))
	require.ErrorContains(t, err, "servers accept 1048575")
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
	require.Empty(t, r.P.Count())
	require.NoError(t, it.Err(), "still claimed")
	require.NoError(t, it.Ack(r.Ctx, zkrecipes.OpCreate(r.Path+"-big", make([]byte, jute.MaxFrame-2000), 0, nil)))
	require.NoError(t, r.Raw.Delete(r.Path+"-big", -1))
	require.Equal(t, session, recipetest.SessionID(r.C))

	for _, n := range []int{1_048_000, 2_000_000} {
		long := zkrecipes.NewQueue(r.C, "/"+strings.Repeat("a", n), nil)
		_, err = long.Put(r.Ctx, nil)
		require.ErrorContains(t, err, "servers accept 1048575")
		_, err = long.Take(r.Ctx)
		require.ErrorContains(t, err, "servers accept 1048575")
	}
}

// The queue's path and the paths that it uses below exist and hold data.
func TestB48AQueueKeepsTheDataOfExistingZnodes(t *testing.T) {
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxLen: 100})
	recipetest.QueueOf(r.Q).SegmentSize = 3
	mine := map[string]int64{}
	for _, name := range []string{"", "/s", "/puts", "/line", "/room"} {
		harness.MakeParents(t, r.Raw, r.Path+name)
		stat, err := recipetest.Insider(t, r.Raw).Set(r.Path+name, []byte("mine"), -1)
		require.NoError(t, err)
		mine[name] = stat.Mzxid
	}
	other := r.Other()
	recipetest.QueueOf(other).SegmentSize = 3
	recipetest.PutOn(t, r.Q, recipetest.Names(10)...)
	a := recipetest.TakeLater(t, other)
	recipetest.AckOn(t, a.Get())
	require.Equal(t, recipetest.Names(10)[1:], recipetest.Drain(t, other))
	b := recipetest.TakeLater(t, r.Q)
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	c := recipetest.TakeLater(t, other)
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 2, recipetest.ClientOf(recipetest.QueueOf(other).Client))
	recipetest.PutOn(t, r.Q, "x", "y")
	recipetest.AckOn(t, b.Get())
	recipetest.AckOn(t, c.Get())
	for name, mzxid := range mine {
		data, stat, err := r.Raw.Get(r.Path + name)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data), name)
		if name != "/s" { // creating the first segment rewrites the same data
			require.Equal(t, mzxid, stat.Mzxid, name)
		}
	}
}

func TestRealA05QueueAndAckWorkUnderAPrefix(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	c := recipetest.Dial(t, &zkrecipes.Options{Prefix: r.Path + "/prefix"})
	q := zkrecipes.NewQueue(c, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1, MaxLen: 10})
	recipetest.PutOn(t, q, "x", "y")
	it := recipetest.TakeOn(t, q)
	require.NoError(t, it.Ack(r.Ctx, zkrecipes.OpCreate("/effect", nil, 0, nil)))
	require.Subset(t, harness.Children(t, r.Raw, r.Path+"/prefix"), []string{"effect", "q"})
	recipetest.NackOn(t, recipetest.TakeOn(t, q))
	ctx, cancel := context.WithTimeout(r.Ctx, 200*time.Millisecond)
	defer cancel()
	_, err := q.Take(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []string{"y"}, recipetest.Drain(t, zkrecipes.NewQueue(c, "/q-dead", nil)))
	require.Contains(t, harness.Children(t, r.Raw, r.Path+"/prefix"), "q-dead")
}

// Items have the client's ACL. Only its session may write a claim or a receipt.
func TestRealA18QueueSetsACLsOnItsZnodes(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	auth := []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:secret")}}
	c := recipetest.Dial(t, &zkrecipes.Options{Auth: auth})
	q := zkrecipes.NewQueue(c, r.Path, &zkrecipes.QueueOptions{MaxLen: 10})
	require.NoError(t, r.Raw.AddAuth("digest", []byte("user:secret")))
	recipetest.PutOn(t, q, "x")
	it := recipetest.TakeOn(t, q)
	claims := 0
	for _, name := range append(recipetest.Tree(t, r.Raw, r.Path), "") {
		acl, _, err := r.Raw.GetACL(r.Path + name)
		require.NoError(t, err)
		require.Equal(t, recipetest.Core(c).Created, acl, name)
		if strings.Contains(name, ".") || strings.HasSuffix(name, queuelog.ClaimName) {
			claims++
		}
	}
	require.Equal(t, 2, claims)
	recipetest.AckOn(t, it)
	recipetest.PutOn(t, q, "next session")
	require.Equal(t, []string{"next session"}, recipetest.Drain(t, zkrecipes.NewQueue(recipetest.Dial(t, &zkrecipes.Options{Auth: auth}), r.Path, nil)))
	_, err := zkrecipes.NewQueue(r.C, r.Path, nil).Take(r.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = zkrecipes.NewQueue(r.C, r.Path, nil).Put(r.Ctx, nil)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = zkrecipes.NewQueue(r.C, r.Path, nil).Len(r.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// If an ACL refuses a request, the call returns an error at once and leaves no znodes.
func TestB36QueueReturnsNoAuthAtOnce(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	refuse := func(name string, perms int32) func() {
		acl, stat, err := r.Raw.GetACL(r.Path + name)
		require.NoError(t, err)
		_, err = r.Raw.SetACL(r.Path+name, zk.WorldACL(zk.PermAll&^perms), stat.Aversion)
		require.NoError(t, err)
		return func() {
			_, err := r.Raw.SetACL(r.Path+name, acl, -1)
			require.NoError(t, err)
		}
	}
	recipetest.PutOn(t, r.Q, "x")
	seg := "/s/0000000000"
	for _, c := range []struct {
		name  string
		perms int32
		put   bool // a put fails, else a take
	}{
		{seg, zk.PermCreate, true}, {"/puts", zk.PermCreate, true}, {"/s", zk.PermRead, true},
		{seg, zk.PermRead, false}, {"/s", zk.PermRead, false}, {"/line", zk.PermCreate, false}, {"/line", zk.PermRead, false},
		{seg, zk.PermCreate, false}, {seg + "/" + harness.Children(t, r.Raw, r.Path+seg)[0], zk.PermCreate, false},
	} {
		t.Run(fmt.Sprintf("%s %d", c.name, c.perms), func(t *testing.T) {
			q := r.Other() // a client that knows nothing of the queue yet
			if c.name == "/line" {
				taken := recipetest.TakeOn(t, r.Q) // so that another consumer waits ahead
				defer recipetest.NackOn(t, taken)
				ahead := r.Other()
				first := recipetest.TakeLater(t, ahead)
				recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, recipetest.ClientOf(recipetest.QueueOf(ahead).Client))
				defer func() { first.Cancel(nil); first.Wait() }()
			}
			restore := refuse(c.name, c.perms)
			defer restore()
			var err error
			if c.put {
				_, err = q.Put(r.Ctx, []byte("y"))
			} else {
				_, err = q.Take(r.Ctx)
			}
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		})
	}
	it := recipetest.TakeOn(t, r.Q)
	restore := refuse(seg, zk.PermDelete)
	err := it.Ack(r.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NoError(t, it.Err(), "still claimed")
	restore()
	require.ErrorIs(t, it.Ack(r.Ctx, zkrecipes.OpSet("/zookeeper/config", nil, math.MaxInt32)), zk.ErrNoAuth)
	recipetest.AckOn(t, it)
	require.Empty(t, recipetest.Drain(t, r.Q))
}

// Receipts and claims work on servers that refuse digests or do not enforce ACLs.
func TestRealB61QueueWorksOnServersWithoutDigestsOrACLs(t *testing.T) {
	for name, server := range map[string]struct {
		cfg  zkserver.Config
		opts []zktest.Option
	}{
		"skipACL":   {zkserver.Config{JVMFlags: []string{"-Dzookeeper.skipACL=yes"}}, []zktest.Option{zktest.SkipACL()}},
		"no digest": {zkserver.Config{JVMFlags: []string{"-Dzookeeper.DigestAuthenticationProvider.enabled=false"}}, []zktest.Option{zktest.WithoutDigest()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := []string{harness.OwnServer(t, server.cfg, server.opts...)}
			conn, path := harness.RawTo(t, servers), harness.NewPath(t)
			q := zkrecipes.NewQueue(recipetest.DialTo(t, servers, nil), path, &zkrecipes.QueueOptions{MaxLen: 10, MaxAttempts: 1})
			other := zkrecipes.NewQueue(recipetest.DialTo(t, servers, nil), path, nil)
			a := recipetest.TakeLater(t, q)
			recipetest.LineUp(t, conn, path+"/line", 1, recipetest.ClientOf(recipetest.QueueOf(q).Client))
			b := recipetest.TakeLater(t, other)
			recipetest.LineUp(t, conn, path+"/line", 2, recipetest.ClientOf(recipetest.QueueOf(other).Client))
			recipetest.PutOn(t, q, "0", "1")
			recipetest.PutOn(t, q, "2")
			require.Positive(t, a.Get().Token())
			recipetest.AckOn(t, a.Get())
			require.NoError(t, b.Get().Ack(harness.Within(t, 10*time.Second), zkrecipes.OpCreate(path+"-effect", nil, 0, nil)))
			recipetest.NackOn(t, recipetest.TakeOn(t, q))
			require.Equal(t, []string{"2"}, recipetest.Drain(t, other))

			recipetest.PutOn(t, q, "3")
			it := recipetest.TakeOn(t, other)
			require.NoError(t, conn.Delete(recipetest.HandleOf(recipetest.LeaseOf(it)).Grant.Place().Path, -1))
			require.ErrorIs(t, it.Nack(harness.Within(t, 10*time.Second)), zkrecipes.ErrLost)
			require.Equal(t, []string{"3"}, recipetest.Drain(t, other), "the rest of the claim is deleted")
			recipetest.AtRest(t, conn, path)
		})
	}
}

// Requests that a busy server rejects are retried.
func TestB37QueueRetriesOnABusyServer(t *testing.T) {
	for _, op := range []string{"multi", "getChildren2", "getData", "createContainer", "sync"} {
		t.Run(op, func(t *testing.T) {
			recipetest.EachBusy(t, func(t *testing.T, answer zktest.Fault) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 10})
					answer.Op, answer.Times = op, -1
					if answer.After {
						answer.Times = 3
					}
					w.Plan.Add(answer)
					put := recipetest.PutLater(t, q, "x")
					a := recipetest.TakeLater(t, w.Queue(recipetest.ClientOf(recipetest.QueueOf(q).Client)))
					time.Sleep(recipetest.BusyFor)
					w.Plan.Stop()
					put.Get()
					it := a.Get()
					require.Equal(t, "x", string(it.Data))
					require.Equal(t, 1, it.Attempt)
					recipetest.AckOn(t, it)
					require.Empty(t, w.Items())
					require.Empty(t, w.Srv.Children(w.Path+"/room"))
				})
			})
		})
	}
}

func TestB37QueueReturnsQuotaErrorsAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, q)
		recipetest.PutOn(t, q, "x")
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: recipetest.OpPut})
		_, err := q.Put(t.Context(), []byte("y"))
		require.ErrorContains(t, err, "quota exceeded")
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: recipetest.OpClaimAlone})
		_, err = q.Take(t.Context())
		require.ErrorContains(t, err, "quota exceeded")
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
		require.Equal(t, []string{"x"}, recipetest.Drain(t, q))
	})
}

// Each take and each ack in Serve uses up a number of the consumers' line, and each put
// with a bound one of the producers'. Beyond the limit the lines begin anew.
func TestB28TakesAndPutsGoOnBeyondTheLimitOfTheirLines(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 10})
		recipetest.PutOn(t, q, recipetest.Names(9)...)
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		for _, sub := range []string{"/line", "/room"} {
			require.NoError(t, w.Srv.SetCounter(w.Path+sub, line.MaxNumber))
		}
		recipetest.PutOn(t, q, "9")
		recipetest.PutOn(t, q, "10")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		err := q.Serve(ctx, func(_ context.Context, it *zkrecipes.Item) error {
			if got = append(got, string(it.Data)); len(got) == 5 {
				cancel()
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, got)
		require.Equal(t, []string{"6", "7", "8", "9", "10"}, recipetest.Drain(t, q))
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
	})
}

// A segment needs few numbers, so its counter is not checked against the limit.
func TestB28ItemsStayInOrderNearTheEndOfASegmentsCounter(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "0")
		require.NoError(t, w.Srv.SetCounter(w.Path+"/s/0000000000", math.MaxInt32-5))
		recipetest.PutOn(t, q, "1")
		recipetest.PutOn(t, other, "2")
		recipetest.PutOn(t, q, "3")
		require.Equal(t, []string{"0", "1", "2", "3"}, recipetest.Drain(t, q))
	})
}

// The servers are unreachable for longer than the session timeout, and still know the
// session afterwards.
func TestB56ClaimIsLostInAnOutageThatTheSessionSurvives(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	r.C = recipetest.DialTo(t, []string{r.P.Addr()}, &zkrecipes.Options{SessionTimeout: 1500 * time.Millisecond})
	r.Q = zkrecipes.NewQueue(r.C, r.Path, nil)
	recipetest.PutOn(t, r.Other(), "x")
	it := recipetest.TakeOn(t, r.Q)
	work := it.Context(r.Ctx)
	r.P.Stall()
	require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
	require.ErrorIs(t, it.Ack(r.Ctx), zkrecipes.ErrLost)
	r.P.Resume()
	again := recipetest.TakeOn(t, r.Other())
	require.Equal(t, 2, again.Attempt, "the first claim was given back, or deleted with its session")
	recipetest.AckOn(t, again)
	recipetest.PutOn(t, r.Q, "y")
	require.Equal(t, []string{"y"}, recipetest.Drain(t, r.Q))
}

// The server has lost its data. A Take that waits continues in the next session, on a
// queue that is created again.
func TestB46TakeContinuesOnAServerThatLostItsData(t *testing.T) {
	t.Parallel()
	ctx := harness.Within(t, 60*time.Second)
	path := harness.NewPath(t)
	p := harness.NewProxy(t, harness.Server())
	c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{SessionTimeout: 1500 * time.Millisecond})
	q := zkrecipes.NewQueue(c, path, nil)
	recipetest.PutOn(t, q, "lost with the server")
	it := recipetest.TakeOn(t, q)
	a := recipetest.TakeLater(t, q)
	recipetest.LineUp(t, harness.Raw(t), path+"/line", 1, c)
	empty := zktest.NewServer(t, zktest.TickTime(100*time.Millisecond))
	p.Lead(empty.Addr())
	p.Drop()
	_ = harness.Cause(t, it.Context(ctx))
	require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
	other := zkrecipes.NewQueue(recipetest.DialTo(t, []string{empty.Addr()}, nil), path, nil)
	recipetest.PutOn(t, other, "new")
	got := a.Get()
	require.Equal(t, "new", string(got.Data))
	recipetest.AckOn(t, got)
}
