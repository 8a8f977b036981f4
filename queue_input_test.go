package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Invalid input, sizes, permissions, and servers that refuse requests.

func TestB39QueueErrorsNameTheInvalidPathOrOption(t *testing.T) {
	r := newQueueRig(t, nil)
	for path, want := range map[string]string{
		"":       `"": path is empty`,
		"queues": `queues: path does not begin with "/"`,
		"/":      `/: path is the root`,
		"/a/":    `/a/: path ends with "/"`,
		"/a//b":  `/a//b: path contains "//"`,
		"/a/..":  `/a/..: path contains the relative element ".."`,
	} {
		q := NewQueue(r.c, path, nil)
		_, err := q.Put(r.ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+want)
		_, err = q.PutAll(r.ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+want)
		_, err = q.Take(r.ctx)
		require.EqualError(t, err, "zkrecipes: take from "+want)
		require.EqualError(t, q.Serve(r.ctx, func(context.Context, *Item) error { return nil }), "zkrecipes: serve "+want)
		_, err = q.Len(r.ctx)
		require.EqualError(t, err, "zkrecipes: count "+want)
		_, err = q.Peek(r.ctx)
		require.EqualError(t, err, "zkrecipes: peek into "+want)
		for _, err := range q.Items(r.ctx) {
			require.EqualError(t, err, "zkrecipes: list "+want)
		}
	}
	for want, opts := range map[string]*QueueOptions{
		`QueueOptions.MaxLen is -1`:                                    {MaxLen: -1},
		`QueueOptions.MaxItemBytes is -1`:                              {MaxItemBytes: -1},
		`QueueOptions.Workers is -1`:                                   {Workers: -1},
		`QueueOptions.DrainTimeout is -1s`:                             {DrainTimeout: -time.Second},
		`QueueOptions.DeadLetter is the queue itself`:                  {DeadLetter: r.path},
		`QueueOptions.DeadLetter "dead": path does not begin with "/"`: {DeadLetter: "dead"},
		`QueueOptions.DeadLetter "/dead/": path ends with "/"`:         {DeadLetter: "/dead/"},
	} {
		_, err := NewQueue(r.c, r.path, opts).Put(r.ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+r.path+": "+want)
	}
	require.Empty(t, r.p.Count())

	ephemeral := "/ephemeral" + queuelog.NewID()
	_, err := r.raw.Create(ephemeral, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, path := range []string{ephemeral, ephemeral + "/x"} {
		_, err := NewQueue(r.c, path, nil).Put(r.ctx, nil)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
		_, err = NewQueue(r.c, path, nil).Take(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	}
	harness.MakeParents(t, r.raw, r.path+"/s")
	_, err = insider(t, r.raw).Set(r.path+"/s", []byte("zkrecipes/9 queue"), -1)
	require.NoError(t, err)
	_, err = r.q.Put(r.ctx, nil)
	require.EqualError(t, err, "zkrecipes: put into "+r.path+`: path is used by a version with another layout: "zkrecipes/9 queue"`)
	_, err = r.q.Take(r.ctx)
	require.ErrorContains(t, err, "layout")
}

func TestB40QueueRejectsNilArguments(t *testing.T) {
	r := newQueueRig(t, nil)
	var none context.Context
	var nilQueue *Queue
	for q, want := range map[*Queue]string{
		nilQueue: `"": not made by NewQueue`, {}: `"": not made by NewQueue`, NewQueue(nil, "/x", nil): "/x: nil client",
	} {
		_, err := q.Put(r.ctx, nil)
		require.EqualError(t, err, "zkrecipes: put into "+want)
		_, err = q.Take(r.ctx)
		require.EqualError(t, err, "zkrecipes: take from "+want)
		_, err = q.Len(r.ctx)
		require.Error(t, err)
		_, err = q.Peek(r.ctx)
		require.Error(t, err)
		require.Error(t, q.Serve(r.ctx, nil))
	}
	_, err := r.q.Put(none, nil)
	require.EqualError(t, err, "zkrecipes: put into "+r.path+": nil context")
	_, err = r.q.Take(none)
	require.EqualError(t, err, "zkrecipes: take from "+r.path+": nil context")
	_, err = r.q.Len(none)
	require.EqualError(t, err, "zkrecipes: count "+r.path+": nil context")
	putOn(t, r.q, "x")
	it := takeOn(t, r.q)
	require.EqualError(t, it.Ack(none), "zkrecipes: ack an item of "+r.path+": nil context")
	require.EqualError(t, it.Nack(none), "zkrecipes: nack an item of "+r.path+": nil context")
	require.Panics(t, func() { it.Context(none) })
	require.NoError(t, it.Err())
	ackOn(t, it)
	putOn(t, r.q, "")
	it = takeOn(t, r.q)
	require.Empty(t, it.Data)
	ackOn(t, it)
}

// The largest item that fits, and one byte more. The limit is that of the largest
// transaction that the item needs: the put, the put with a bound, or the move to the
// dead letters. An ack has a limit, too.
func TestRealB52ItemsAndAcksOverTheSizeLimitAreRefused(t *testing.T) {
	r := newQueueRig(t, nil)
	r.warm()
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
	s, _ := r.c.client.Session()
	for name, opts := range map[string]*QueueOptions{
		"no dead letters":  {MaxAttempts: -1},
		"bounded":          {MaxAttempts: -1, MaxLen: 5},
		"dead letters":     {MaxAttempts: 1},
		"far dead letters": {MaxAttempts: 1, DeadLetter: "/" + strings.Repeat("d", 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue(r.c, r.path, opts)
			n := largest(func(n int) error {
				return q.itemQueue.CheckFits(s, []queuelog.Item{{ID: queuelog.NewID(), Data: make([]byte, n)}})
			})
			require.Greater(t, n, jute.MaxFrame-100_000)
			r.p.Reset()
			_, err := q.Put(r.ctx, make([]byte, n+1))
			require.ErrorContains(t, err, "request of 1048576 bytes: servers accept 1048575 (jute.maxbuffer)")
			sent := r.p.Count()
			delete(sent, "multi(delete)") // the place in line that an earlier case leaves
			require.Empty(t, sent)
			data := make([]byte, n)
			rand.Read(data)
			_, err = q.Put(r.ctx, data)
			require.NoError(t, err)
			it := takeOn(t, q)
			require.Equal(t, data, it.Data)
			if opts.MaxAttempts < 0 {
				ackOn(t, it)
				return
			}
			nackOn(t, it)
			a := takeLater(t, q)
			dead := NewQueue(r.c, q.itemQueue.Opts.DeadLetter, &QueueOptions{MaxAttempts: -1})
			it = takeOn(t, dead)
			require.Equal(t, data, it.Data)
			ackOn(t, it)
			a.Cancel(nil)
			_, err = a.Wait()
			require.ErrorIs(t, err, context.Canceled)
		})
	}

	putOn(t, r.q, "x")
	it := takeOn(t, r.q)
	session := sessionID(r.c)
	r.p.Reset()
	err := it.Ack(r.ctx, OpCreate(r.path+"-big", make([]byte, jute.MaxFrame), 0, nil))
	require.ErrorContains(t, err, "servers accept 1048575")
	require.NotErrorIs(t, err, ErrUncertain)
	require.Empty(t, r.p.Count())
	require.NoError(t, it.Err(), "still claimed")
	require.NoError(t, it.Ack(r.ctx, OpCreate(r.path+"-big", make([]byte, jute.MaxFrame-2000), 0, nil)))
	require.NoError(t, r.raw.Delete(r.path+"-big", -1))
	require.Equal(t, session, sessionID(r.c))

	for _, n := range []int{1_048_000, 2_000_000} {
		long := NewQueue(r.c, "/"+strings.Repeat("a", n), nil)
		_, err = long.Put(r.ctx, nil)
		require.ErrorContains(t, err, "servers accept 1048575")
		_, err = long.Take(r.ctx)
		require.ErrorContains(t, err, "servers accept 1048575")
	}
}

// The queue's path and the paths that it uses below exist and hold data.
func TestB48AQueueKeepsTheDataOfExistingZnodes(t *testing.T) {
	r := newQueueRig(t, &QueueOptions{MaxLen: 100})
	r.q.itemQueue.SegmentSize = 3
	mine := map[string]int64{}
	for _, name := range []string{"", "/s", "/puts", "/line", "/room"} {
		harness.MakeParents(t, r.raw, r.path+name)
		stat, err := insider(t, r.raw).Set(r.path+name, []byte("mine"), -1)
		require.NoError(t, err)
		mine[name] = stat.Mzxid
	}
	other := r.other()
	other.itemQueue.SegmentSize = 3
	putOn(t, r.q, names(10)...)
	a := takeLater(t, other)
	ackOn(t, a.Get())
	require.Equal(t, names(10)[1:], drain(t, other))
	b := takeLater(t, r.q)
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	c := takeLater(t, other)
	lineUp(t, r.raw, r.path+"/line", 2, clientOf(other.itemQueue.Client))
	putOn(t, r.q, "x", "y")
	ackOn(t, b.Get())
	ackOn(t, c.Get())
	for name, mzxid := range mine {
		data, stat, err := r.raw.Get(r.path + name)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data), name)
		if name != "/s" { // creating the first segment rewrites the same data
			require.Equal(t, mzxid, stat.Mzxid, name)
		}
	}
}

func TestRealA05QueueAndAckWorkUnderAPrefix(t *testing.T) {
	r := newQueueRig(t, nil)
	c := dial(t, &Options{Prefix: r.path + "/prefix"})
	q := NewQueue(c, "/q", &QueueOptions{MaxAttempts: 1, MaxLen: 10})
	putOn(t, q, "x", "y")
	it := takeOn(t, q)
	require.NoError(t, it.Ack(r.ctx, OpCreate("/effect", nil, 0, nil)))
	require.Subset(t, harness.Children(t, r.raw, r.path+"/prefix"), []string{"effect", "q"})
	nackOn(t, takeOn(t, q))
	ctx, cancel := context.WithTimeout(r.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := q.Take(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []string{"y"}, drain(t, NewQueue(c, "/q-dead", nil)))
	require.Contains(t, harness.Children(t, r.raw, r.path+"/prefix"), "q-dead")
}

// Items have the client's ACL. Only its session may write a claim or a receipt.
func TestRealA18QueueSetsACLsOnItsZnodes(t *testing.T) {
	r := newQueueRig(t, nil)
	auth := []Auth{{Scheme: "digest", Data: []byte("user:secret")}}
	c := dial(t, &Options{Auth: auth})
	q := NewQueue(c, r.path, &QueueOptions{MaxLen: 10})
	require.NoError(t, r.raw.AddAuth("digest", []byte("user:secret")))
	putOn(t, q, "x")
	it := takeOn(t, q)
	claims := 0
	for _, name := range append(tree(t, r.raw, r.path), "") {
		acl, _, err := r.raw.GetACL(r.path + name)
		require.NoError(t, err)
		require.Equal(t, c.client.Created, acl, name)
		if strings.Contains(name, ".") || strings.HasSuffix(name, queuelog.ClaimName) {
			claims++
		}
	}
	require.Equal(t, 2, claims)
	ackOn(t, it)
	putOn(t, q, "next session")
	require.Equal(t, []string{"next session"}, drain(t, NewQueue(dial(t, &Options{Auth: auth}), r.path, nil)))
	_, err := NewQueue(r.c, r.path, nil).Take(r.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = NewQueue(r.c, r.path, nil).Put(r.ctx, nil)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = NewQueue(r.c, r.path, nil).Len(r.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// If an ACL refuses a request, the call returns an error at once and leaves no znodes.
func TestB36QueueReturnsNoAuthAtOnce(t *testing.T) {
	r := newQueueRig(t, nil)
	refuse := func(name string, perms int32) func() {
		acl, stat, err := r.raw.GetACL(r.path + name)
		require.NoError(t, err)
		_, err = r.raw.SetACL(r.path+name, zk.WorldACL(zk.PermAll&^perms), stat.Aversion)
		require.NoError(t, err)
		return func() {
			_, err := r.raw.SetACL(r.path+name, acl, -1)
			require.NoError(t, err)
		}
	}
	putOn(t, r.q, "x")
	seg := "/s/0000000000"
	for _, c := range []struct {
		name  string
		perms int32
		put   bool // a put fails, else a take
	}{
		{seg, zk.PermCreate, true}, {"/puts", zk.PermCreate, true}, {"/s", zk.PermRead, true},
		{seg, zk.PermRead, false}, {"/s", zk.PermRead, false}, {"/line", zk.PermCreate, false}, {"/line", zk.PermRead, false},
		{seg, zk.PermCreate, false}, {seg + "/" + harness.Children(t, r.raw, r.path+seg)[0], zk.PermCreate, false},
	} {
		t.Run(fmt.Sprintf("%s %d", c.name, c.perms), func(t *testing.T) {
			q := r.other() // a client that knows nothing of the queue yet
			if c.name == "/line" {
				taken := takeOn(t, r.q) // so that another consumer waits ahead
				defer nackOn(t, taken)
				ahead := r.other()
				first := takeLater(t, ahead)
				lineUp(t, r.raw, r.path+"/line", 1, clientOf(ahead.itemQueue.Client))
				defer func() { first.Cancel(nil); first.Wait() }()
			}
			restore := refuse(c.name, c.perms)
			defer restore()
			var err error
			if c.put {
				_, err = q.Put(r.ctx, []byte("y"))
			} else {
				_, err = q.Take(r.ctx)
			}
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.NotErrorIs(t, err, ErrUncertain)
		})
	}
	it := takeOn(t, r.q)
	restore := refuse(seg, zk.PermDelete)
	err := it.Ack(r.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NoError(t, it.Err(), "still claimed")
	restore()
	require.ErrorIs(t, it.Ack(r.ctx, OpSet("/zookeeper/config", nil, math.MaxInt32)), zk.ErrNoAuth)
	ackOn(t, it)
	require.Empty(t, drain(t, r.q))
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
			q := NewQueue(dialTo(t, servers, nil), path, &QueueOptions{MaxLen: 10, MaxAttempts: 1})
			other := NewQueue(dialTo(t, servers, nil), path, nil)
			a := takeLater(t, q)
			lineUp(t, conn, path+"/line", 1, clientOf(q.itemQueue.Client))
			b := takeLater(t, other)
			lineUp(t, conn, path+"/line", 2, clientOf(other.itemQueue.Client))
			putOn(t, q, "0", "1")
			putOn(t, q, "2")
			require.Positive(t, a.Get().Token())
			ackOn(t, a.Get())
			require.NoError(t, b.Get().Ack(harness.Within(t, 10*time.Second), OpCreate(path+"-effect", nil, 0, nil)))
			nackOn(t, takeOn(t, q))
			require.Equal(t, []string{"2"}, drain(t, other))

			putOn(t, q, "3")
			it := takeOn(t, other)
			require.NoError(t, conn.Delete(it.lease.handle.Grant.Place().Path, -1))
			require.ErrorIs(t, it.Nack(harness.Within(t, 10*time.Second)), ErrLost)
			require.Equal(t, []string{"3"}, drain(t, other), "the rest of the claim is deleted")
			atRest(t, conn, path)
		})
	}
}

// Requests that a busy server rejects are retried.
func TestB37QueueRetriesOnABusyServer(t *testing.T) {
	for _, op := range []string{"multi", "getChildren2", "getData", "createContainer", "sync"} {
		t.Run(op, func(t *testing.T) {
			eachBusy(t, func(t *testing.T, answer zktest.Fault) {
				inBubble(t, func(t *testing.T, w *world) {
					q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 10})
					answer.Op, answer.Times = op, -1
					if answer.After {
						answer.Times = 3
					}
					w.plan.Add(answer)
					put := putLater(t, q, "x")
					a := takeLater(t, w.queue(clientOf(q.itemQueue.Client)))
					time.Sleep(busyFor)
					w.plan.Stop()
					put.Get()
					it := a.Get()
					require.Equal(t, "x", string(it.Data))
					require.Equal(t, 1, it.Attempt)
					ackOn(t, it)
					require.Empty(t, w.items())
					require.Empty(t, w.srv.Children(w.path+"/room"))
				})
			})
		})
	}
}

func TestB37QueueReturnsQuotaErrorsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		warm(t, q)
		putOn(t, q, "x")
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: opPut})
		_, err := q.Put(t.Context(), []byte("y"))
		require.ErrorContains(t, err, "quota exceeded")
		require.NotErrorIs(t, err, ErrUncertain)
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded, Op: opClaimAlone})
		_, err = q.Take(t.Context())
		require.ErrorContains(t, err, "quota exceeded")
		synctest.Wait()
		require.Empty(t, w.srv.Children(w.path+"/line"))
		require.Equal(t, []string{"x"}, drain(t, q))
	})
}

// Each take and each ack in Serve uses up a number of the consumers' line, and each put
// with a bound one of the producers'. Beyond the limit the lines begin anew.
func TestB28TakesAndPutsGoOnBeyondTheLimitOfTheirLines(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 10})
		putOn(t, q, names(9)...)
		ackOn(t, takeOn(t, q))
		for _, sub := range []string{"/line", "/room"} {
			require.NoError(t, w.srv.SetCounter(w.path+sub, line.MaxNumber))
		}
		putOn(t, q, "9")
		putOn(t, q, "10")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		err := q.Serve(ctx, func(_ context.Context, it *Item) error {
			if got = append(got, string(it.Data)); len(got) == 5 {
				cancel()
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, got)
		require.Equal(t, []string{"6", "7", "8", "9", "10"}, drain(t, q))
		require.Empty(t, w.srv.Children(w.path+"/line"))
		require.Empty(t, w.srv.Children(w.path+"/room"))
	})
}

// A segment needs few numbers, so its counter is not checked against the limit.
func TestB28ItemsStayInOrderNearTheEndOfASegmentsCounter(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		putOn(t, q, "0")
		require.NoError(t, w.srv.SetCounter(w.path+"/s/0000000000", math.MaxInt32-5))
		putOn(t, q, "1")
		putOn(t, other, "2")
		putOn(t, q, "3")
		require.Equal(t, []string{"0", "1", "2", "3"}, drain(t, q))
	})
}

// The servers are unreachable for longer than the session timeout, and still know the
// session afterwards.
func TestB56ClaimIsLostInAnOutageThatTheSessionSurvives(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	r.c = dialTo(t, []string{r.p.Addr()}, &Options{SessionTimeout: 1500 * time.Millisecond})
	r.q = NewQueue(r.c, r.path, nil)
	putOn(t, r.other(), "x")
	it := takeOn(t, r.q)
	work := it.Context(r.ctx)
	r.p.Stall()
	require.ErrorIs(t, harness.Cause(t, work), ErrLost)
	require.ErrorIs(t, it.Ack(r.ctx), ErrLost)
	r.p.Resume()
	again := takeOn(t, r.other())
	require.Equal(t, 2, again.Attempt, "the first claim was given back, or deleted with its session")
	ackOn(t, again)
	putOn(t, r.q, "y")
	require.Equal(t, []string{"y"}, drain(t, r.q))
}

// The server has lost its data. A Take that waits continues in the next session, on a
// queue that is created again.
func TestB46TakeContinuesOnAServerThatLostItsData(t *testing.T) {
	t.Parallel()
	ctx := harness.Within(t, 60*time.Second)
	path := harness.NewPath(t)
	p := harness.NewProxy(t, harness.Server())
	c := dialTo(t, []string{p.Addr()}, &Options{SessionTimeout: 1500 * time.Millisecond})
	q := NewQueue(c, path, nil)
	putOn(t, q, "lost with the server")
	it := takeOn(t, q)
	a := takeLater(t, q)
	lineUp(t, harness.Raw(t), path+"/line", 1, c)
	empty := zktest.NewServer(t, zktest.TickTime(100*time.Millisecond))
	p.Lead(empty.Addr())
	p.Drop()
	_ = harness.Cause(t, it.Context(ctx))
	require.ErrorIs(t, it.Err(), ErrLost)
	other := NewQueue(dialTo(t, []string{empty.Addr()}, nil), path, nil)
	putOn(t, other, "new")
	got := a.Get()
	require.Equal(t, "new", string(got.Data))
	ackOn(t, got)
}
