package queue_test

import (
	"crypto/rand"
	"math"
	"net"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Invalid input, sizes, permissions, and servers that refuse requests.

func TestQueueErrorsNameTheInvalidOption(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx, conn := w.Stranger(nil), t.Context(), w.Bare()
		put := func(path string, opts *zkrecipes.QueueOptions) error {
			_, err := zkrecipes.NewQueue(c, path, opts).Put(ctx, nil)
			return err
		}
		require.Empty(t, w.Requests(func() {
			for want, opts := range map[string]*zkrecipes.QueueOptions{
				`QueueOptions.MaxLen must not be negative: -1`:                           {MaxLen: -1},
				`QueueOptions.MaxItemBytes must not be negative: -1`:                     {MaxItemBytes: -1},
				`QueueOptions.Workers must not be negative: -1`:                          {Workers: -1},
				`QueueOptions.Workers is 9223372036854775807, and may be 100000 at most`: {Workers: math.MaxInt},
				`QueueOptions.DrainTimeout must not be negative: -1s`:                    {DrainTimeout: -time.Second},
				`QueueOptions.HandlerTimeout must not be negative: -1s`:                  {HandlerTimeout: -time.Second},
				`QueueOptions.DeadLetter is the queue itself`:                            {DeadLetter: w.Path},
				`QueueOptions.DeadLetter "dead": path does not begin with "/"`:           {DeadLetter: "dead"},
				`QueueOptions.DeadLetter "/dead/": path ends with "/"`:                   {DeadLetter: "/dead/"},
			} {
				require.EqualError(t, put(w.Path, opts), "zkrecipes: put into "+w.Path+": "+want)
			}
			small := zkrecipes.NewQueue(c, w.Path, &zkrecipes.QueueOptions{MaxItemBytes: 10})
			_, err := small.PutAll(ctx, make([]byte, 10), make([]byte, 11))
			require.EqualError(t, err, "zkrecipes: put into "+w.Path+": item of 11 bytes: QueueOptions.MaxItemBytes is 10")
		}))
		harness.MakeParents(t, conn, w.Path+"/s")
		_, err := conn.Set(w.Path+"/s", []byte("zkrecipes/9 queue"), -1)
		require.NoError(t, err)
		require.EqualError(t, put(w.Path, nil), "zkrecipes: put into "+w.Path+`: path is used by a version with another layout: "zkrecipes/9 queue"`)
		_, err = w.Queue(c).Take(ctx)
		require.ErrorContains(t, err, "layout")
	})
}

// The largest item that fits, and one byte more. The limit is that of the largest
// transaction that the item needs: the put, the put with a bound, or the move to the
// dead letters. An ack has a limit, too.
func TestRealItemsAndAcksOverTheSizeLimitAreRefused(t *testing.T) {
	ctx, path, taps := harness.Within(t, 2*time.Minute), harness.NewPath(t), harness.NewTaps(harness.Server())
	c := recipetest.Dial(t, &zkrecipes.Options{Dialer: taps.Dial})
	plain := zkrecipes.NewQueue(c, path, nil)
	recipetest.Warm(t, plain)
	core := recipetest.NewCore(t, harness.Servers(), new(net.Dialer).DialContext)
	for name, opts := range map[string]*zkrecipes.QueueOptions{
		"no dead letters":  {MaxAttempts: -1},
		"bounded":          {MaxAttempts: -1, MaxLen: 5},
		"dead letters":     {MaxAttempts: 1},
		"far dead letters": {MaxAttempts: 1, DeadLetter: "/" + strings.Repeat("d", 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			q, like := zkrecipes.NewQueue(c, path, opts), engine(core, path, queue.Options(*opts))
			tooLarge := sort.Search(jute.MaxFrame, func(n int) bool {
				return like.CheckFits(core.S, []queuelog.Item{{ID: queuelog.NewID(), Data: make([]byte, n)}}) != nil
			})
			require.Greater(t, tooLarge, jute.MaxFrame-100_000)
			_, err := q.Put(ctx, make([]byte, tooLarge))
			require.ErrorContains(t, err, "request of 1048576 bytes: servers accept 1048575 (jute.maxbuffer)")
			data := make([]byte, tooLarge-1)
			rand.Read(data)
			_, err = q.Put(ctx, data)
			require.NoError(t, err)
			it := recipetest.TakeOn(t, q)
			require.Equal(t, data, it.Data)
			if opts.MaxAttempts > 0 {
				recipetest.NackOn(t, it)
				a := recipetest.TakeLater(t, q)
				it = recipetest.TakeOn(t, q.DeadLetters())
				require.Equal(t, data, it.Data)
				recipetest.Cancels(t, a)
			}
			recipetest.AckOn(t, it)
		})
	}

	recipetest.PutOn(t, plain, "x")
	it, session := recipetest.TakeOn(t, plain), recipetest.SessionID(c)
	sent := func() []string {
		return slices.DeleteFunc(taps.Newest().Sent(), func(op string) bool { return op == "ping" })
	}
	before := sent()
	err := it.Ack(ctx, zkrecipes.OpCreate(path+"-big", make([]byte, jute.MaxFrame), 0, nil))
	require.ErrorContains(t, err, "servers accept 1048575")
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
	require.Equal(t, before, sent())
	require.NoError(t, it.Err(), "still claimed")
	require.NoError(t, it.Ack(ctx, zkrecipes.OpCreate(path+"-big", make([]byte, jute.MaxFrame-2000), 0, nil)))
	require.NoError(t, harness.Raw(t).Delete(path+"-big", -1))
	require.Equal(t, session, recipetest.SessionID(c))

	for _, n := range []int{1_048_000, 2_000_000} {
		long := zkrecipes.NewQueue(c, "/"+strings.Repeat("a", n), nil)
		_, err = long.Put(ctx, nil)
		require.ErrorContains(t, err, "servers accept 1048575")
		_, err = long.Take(ctx)
		require.ErrorContains(t, err, "servers accept 1048575")
	}
}

// The queue's path and the paths that it uses below exist and hold data.
func TestAQueueKeepsTheDataOfExistingZnodes(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other, conn := w.Small(3, &zkrecipes.QueueOptions{MaxLen: 100}), w.Small(3, nil), w.Bare()
		mine := map[string]int64{}
		for _, name := range []string{"", "/s", "/puts"} {
			harness.MakeParents(t, conn, w.Path+name)
			stat, err := conn.Set(w.Path+name, []byte("mine"), -1)
			require.NoError(t, err)
			mine[name] = stat.Mzxid
		}
		recipetest.PutOn(t, q, recipetest.Names(10)...)
		require.Equal(t, recipetest.Names(10), recipetest.Drain(t, other))
		a, b := w.TakeLater(q), w.TakeLater(other)
		recipetest.PutOn(t, q, "x", "y")
		recipetest.AckOn(t, a.Get())
		recipetest.AckOn(t, b.Get())
		for name, mzxid := range mine {
			data, stat, err := conn.Get(w.Path + name)
			require.NoError(t, err)
			require.Equal(t, "mine", string(data), name)
			if name != "/s" { // creating the first segment rewrites the same data
				require.Equal(t, mzxid, stat.Mzxid, name)
			}
		}
	})
}

// Items, claims and receipts have the client's ACL.
func TestRealQueueSetsACLsOnItsZnodes(t *testing.T) {
	path, raw := harness.NewPath(t), harness.Raw(t)
	auth := []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:secret")}}
	c := recipetest.Dial(t, &zkrecipes.Options{Auth: auth})
	q := zkrecipes.NewQueue(c, path, &zkrecipes.QueueOptions{MaxLen: 10})
	require.NoError(t, raw.AddAuth("digest", []byte("user:secret")))
	recipetest.PutOn(t, q, "x")
	it := recipetest.TakeOn(t, q)
	claims := 0
	for _, name := range append(recipetest.Tree(t, raw, path), "") {
		acl, _, err := raw.GetACL(path + name)
		require.NoError(t, err)
		require.Equal(t, zk.DigestACL(zk.PermAll, "user", "secret"), acl, name)
		if strings.Contains(name, ".") || strings.HasSuffix(name, queuelog.ClaimName) {
			claims++
		}
	}
	require.Equal(t, 2, claims)
	recipetest.AckOn(t, it)
	recipetest.PutOn(t, q, "next session")
	require.Equal(t, []string{"next session"}, recipetest.Drain(t, zkrecipes.NewQueue(recipetest.Dial(t, &zkrecipes.Options{Auth: auth}), path, nil)))
	stranger := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
	_, err := stranger.Take(harness.Within(t, 2*time.Minute))
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = stranger.Put(t.Context(), nil)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = stranger.Len(t.Context())
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// If an ACL refuses a request, the call returns an error at once and leaves no znodes.
func TestQueueReturnsNoAuthAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn, ctx := w.Queue(w.Stranger(nil)), w.Bare(), t.Context()
		refuse := func(name string, perms int32) func() {
			acl, stat, err := conn.GetACL(w.Path + name)
			require.NoError(t, err)
			_, err = conn.SetACL(w.Path+name, zk.WorldACL(zk.PermAll&^perms), stat.Aversion)
			require.NoError(t, err)
			return func() {
				_, err := conn.SetACL(w.Path+name, acl, -1)
				require.NoError(t, err)
			}
		}
		recipetest.PutOn(t, q, "x")
		item, seg := w.Items()[0][len(w.Path):], "/s/0000000000"
		for _, c := range []struct {
			name  string
			perms int32
			call  string
		}{
			{seg, zk.PermCreate, "put into"}, {"/puts", zk.PermCreate, "put into"}, {"/s", zk.PermRead, "put into"},
			{seg, zk.PermRead, "take from"}, {"/s", zk.PermRead, "take from"}, {"/line", zk.PermCreate, "take from"},
			{"/line", zk.PermRead, "take from"}, {seg, zk.PermCreate, "take from"}, {item, zk.PermCreate, "take from"},
		} {
			other := w.Queue(w.Stranger(nil)) // a client that knows nothing of the queue yet
			end := func() {}
			if c.name == "/line" { // another consumer waits ahead
				taken := recipetest.TakeOn(t, q)
				ahead := w.TakeLater(w.Queue(w.Stranger(nil)))
				end = func() { recipetest.Cancels(t, ahead); recipetest.NackOn(t, taken) }
			}
			restore := refuse(c.name, c.perms)
			var err error
			if c.call == "put into" {
				_, err = other.Put(ctx, []byte("y"))
			} else {
				_, err = other.Take(ctx)
			}
			require.ErrorIs(t, err, zk.ErrNoAuth, "%s %d", c.name, c.perms)
			require.ErrorContains(t, err, c.call)
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			restore()
			end()
		}
		it := recipetest.TakeOn(t, q)
		restore := refuse(seg, zk.PermDelete)
		require.ErrorIs(t, it.Ack(ctx), zk.ErrNoAuth)
		require.NoError(t, it.Err(), "still claimed")
		restore()
		require.ErrorIs(t, it.Ack(ctx, zkrecipes.OpSet("/zookeeper/config", nil, math.MaxInt32)), zk.ErrNoAuth)
		recipetest.AckOn(t, it)
	})
}
