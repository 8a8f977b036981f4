package zkrecipes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults of one server, and what servers do differently. Those of an ensemble
// are in lock_ensemble_test.go, those of the client's process in session_process_test.go.

// A waiter that has no server for a while keeps its place, is not granted
// before its turn, and is then.
func TestA02WaiterSurvivesAServerRestart(t *testing.T) {
	node := ownNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	for _, end := range []struct {
		how string
		f   func(context.Context) error
	}{{"killed", node.Kill}, {"stopped", node.Stop}} {
		t.Run(end.how, func(t *testing.T) {
			lines := pairs(t, within(t, 30*time.Second), servers, 0)
			require.NoError(t, end.f(t.Context()))
			require.NoError(t, node.Restart(t.Context()))
			for _, l := range lines {
				l.holding.nth(t, 2, "up")
				l.waiting.nth(t, 2, "up")
				require.NoError(t, l.holder.Err())
				_, err := l.holder.Commit(within(t, 10*time.Second))
				require.NoError(t, err, "the servers agree")
				require.Equal(t, l.before, places(t, servers, l.path), "the same places, in the same order")
				require.True(t, l.waiter.waiting())
				require.NoError(t, l.holder.Release())

				next := l.waiter.granted()
				require.Greater(t, next.Token(), l.holder.Token())
				require.Equal(t, l.before[1], l.waiting.nth(t, 1, "granted").Place)
				require.Len(t, l.waiting.of("queued"), 1, "it never left its place")
				require.NoError(t, next.Release())
			}
		})
	}
}

// The holder's lease ends before its session does, and the waiter is granted
// when the servers end the session.
func TestA03WaiterIsGrantedAfterTheHoldersSessionExpires(t *testing.T) {
	t.Parallel()
	ctx, path := within(t, 30*time.Second), newPath(t)
	p := newProxy(t, harness.shared[0])
	holder := lockOn(t, NewMutex(dialTo(t, []string{p.addr()}, &Options{SessionTimeout: 1500 * time.Millisecond}), path))
	work := holder.Context(ctx)
	c := dial(t, nil)
	waiter := lockLater(t, NewMutex(c, path))
	sleeps(t, c, 2)
	require.NoError(t, holder.Err())

	p.stall()
	next := waiter.granted()
	require.ErrorIs(t, holder.Err(), ErrLost, "by now it knows")
	require.ErrorIs(t, waitFor(t, work), ErrLost)
	require.Greater(t, next.Token(), holder.Token())

	p.resume()
	require.ErrorIs(t, holder.Release(), ErrLost)
	_, err := holder.Commit(ctx)
	require.ErrorIs(t, err, ErrLost)
	_, err = next.Commit(ctx)
	require.NoError(t, err, "what the old holder does touches nobody else's place")
	require.NoError(t, next.Release())
}

// The servers delete an idle line, and its parents where they are this
// library's too, but none that somebody stands in. The next Lock makes it anew.
func TestA04LineIsReapedWhenIdle(t *testing.T) {
	t.Parallel()
	// Both look at their containers twice a second.
	servers := []string{ownServer(t, zkserver.Config{}, zktest.ContainerCheckInterval(500*time.Millisecond))}
	ctx, path := within(t, 30*time.Second), newPath(t)
	c, conn := dialTo(t, servers, nil), rawTo(t, servers)
	gone := func(path string) {
		exists, _, event, err := conn.ExistsW(path)
		require.NoError(t, err)
		if !exists {
			return
		}
		select {
		case e := <-event:
			require.Equal(t, zk.EventNodeDeleted, e.Type)
		case <-ctx.Done():
			require.FailNow(t, "still there", path)
		}
	}
	held := lockOn(t, NewMutex(c, path+"/held"))
	idle := NewMutex(c, path+"/idle/line")
	for range 2 { // the second time as a line that this client has used before
		require.NoError(t, idle.Do(ctx, nothing))
		gone(path + "/idle/line")
		gone(path + "/idle")
	}
	_, err := held.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Release())
	gone(path)
}

// Places that other libraries make, and the rule by which each finds out, from
// the line's children, whom its own place has to wait for: "" for nobody.
var foreigners = []struct {
	library string
	prefix  string
	waits   func(own string, children []string) string
}{
	{"Curator", "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", curatorWaits},
	{"go-zookeeper", "_c_0123456789abcdeffedcba9876543210-lock-", goZookeeperWaits},
	{"kazoo", "fedcba98765432100123456789abcdef__lock__", kazooWaits("__lock__", "__lock__", "__rlock__", "lock-")},
	{"kazoo's reader", "0f1e2d3c4b5a69788796a5b4c3d2e1f0__rlock__", kazooWaits("__rlock__", "__lock__", "lock-")},
}

// Curator (StandardLockInternalsDriver) sorts all children by what stands after
// the last "lock-", as strings; one waits for the child before its own.
func curatorWaits(own string, children []string) string {
	number := func(name string) string { return name[strings.LastIndex(name, "lock-")+len("lock-"):] }
	sorted := slices.SortedFunc(slices.Values(children), func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	if i := slices.Index(sorted, own); i > 0 {
		return sorted[i-1]
	}
	return ""
}

// go-zookeeper's Lock waits for the highest of the lower numbers, and fails on
// a child in which it finds no number.
func goZookeeperWaits(own string, children []string) string {
	number := func(name string) int {
		parts := strings.Split(name, "lock-")
		if len(parts) == 1 {
			parts = strings.Split(name, "__")
		}
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			panic(err)
		}
		return n
	}
	best := ""
	for _, name := range children {
		if number(name) < number(own) && (best == "" || number(name) > number(best)) {
			best = name
		}
	}
	return best
}

// kazoo's locks count the children that end in one of the names that they
// exclude, or in one of extra_lock_patterns, and ten digits; one waits for the
// last of those whose digits are below its own, as strings.
func kazooWaits(name string, excluded ...string) func(string, []string) string {
	contender := regexp.MustCompile("(?:" + strings.Join(excluded, "|") + `)(-?\d{10})$`)
	return func(own string, children []string) string {
		after := own[strings.Index(own, name)+len(name):]
		best, digits := "", ""
		for _, child := range children {
			m := contender.FindStringSubmatch(child)
			if m != nil && m[1] < after && m[1] > digits {
				best, digits = child, m[1]
			}
		}
		return best
	}
}

// We wait behind each place of theirs, and by their own rules they wait behind
// each of ours.
func TestB26ForeignPlacesExcludeBothWays(t *testing.T) {
	t.Parallel()
	for _, f := range foreigners {
		t.Run(f.library, func(t *testing.T) {
			path, conn := newPath(t), raw(t)
			clients := []*Client{dial(t, nil), dial(t, nil)}
			require.NoError(t, NewMutex(clients[0], path).Do(t.Context(), nothing))
			join := func() string {
				name, err := conn.Create(path+"/"+f.prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				return name[len(path)+1:]
			}
			waits := func(own string) string { return f.waits(own, children(t, conn, path)) }

			// The line: theirs, ours, theirs, ours.
			first := join()
			ours := lockLater(t, NewMutex(clients[0], path))
			sleeps(t, clients[0], 2)
			second := join()
			last := lockLater(t, NewMutex(clients[1], path))
			sleeps(t, clients[1], 2)
			line := places(t, harness.shared, path)
			require.Len(t, line, 4)
			require.Empty(t, waits(first), "it holds")
			require.Equal(t, line[1], waits(second), "it waits behind ours")
			require.True(t, ours.waiting())
			require.True(t, last.waiting())

			require.NoError(t, conn.Delete(path+"/"+first, -1))
			l := ours.granted()
			require.Equal(t, line[1], waits(second), "it waits for ours to be released")
			require.True(t, last.waiting())
			require.NoError(t, l.Release())
			require.Empty(t, waits(second), "it holds now")
			require.True(t, last.waiting())

			require.NoError(t, conn.Delete(path+"/"+second, -1))
			require.NoError(t, last.granted().Release())
			require.Empty(t, children(t, conn, path))
		})
	}
}

// go-zookeeper's own Lock and ours, on one path, under contention.
func TestB26GoZookeepersLockAndOursExcludeEachOther(t *testing.T) {
	const each, rounds = 3, 20
	ctx, path := within(t, 30*time.Second), newPath(t)
	var inside atomic.Int32
	sum := 0
	critical := func() {
		if !inside.CompareAndSwap(0, 1) {
			t.Error("two are inside")
		}
		sum++
		inside.Store(0)
	}
	var wg sync.WaitGroup
	for range each {
		c, conn := dial(t, nil), raw(t)
		wg.Go(func() {
			for range rounds {
				err := NewMutex(c, path).Do(ctx, func(context.Context, *Lease) error { critical(); return nil })
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
				if err := lock.Lock(); err != nil {
					t.Error("go-zookeeper's lock:", err)
					return
				}
				critical()
				if err := lock.Unlock(); err != nil {
					t.Error("go-zookeeper's unlock:", err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2*each*rounds, sum)
	require.Empty(t, children(t, raw(t), path))
}

// A thousand wait, each in a session of its own. A release wakes one of them,
// the next in line, and no request is sent but the release itself.
func TestB30ThousandWaiters(t *testing.T) {
	const n = 1000
	ctx, path := within(t, 60*time.Second), newPath(t)
	sent := &requests{}
	var grants, queued atomic.Int32
	opts := &Options{Dialer: sent.dial, Trace: &Trace{
		Queued:  func(TraceEvent) { queued.Add(1) },
		Granted: func(TraceEvent) { grants.Add(1) },
	}}
	clients := make([]*Client, 1+n) // the first one is the holder's
	// Some at a time, or each waits for the others' long listings.
	each := func(f func(i int)) {
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8)
		for i := range clients {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }() // also where f fails the test
				f(i)
			})
		}
		wg.Wait()
	}
	granted := make(chan *Lease, 1+n)
	var waiters sync.WaitGroup
	each(func(i int) {
		c, err := Dial(ctx, harness.shared, opts)
		if err != nil {
			t.Error(err)
			return
		}
		clients[i] = c
	})
	defer waiters.Wait()
	defer each(func(i int) {
		if clients[i] != nil {
			clients[i].Close()
		}
	})
	require.False(t, t.Failed())
	current := lockOn(t, NewMutex(clients[0], path))
	sleeps(t, clients[0], 1)
	each(func(i int) {
		if i == 0 {
			return
		}
		waiters.Go(func() {
			l, err := NewMutex(clients[i], path).Lock(ctx)
			if err != nil {
				if !errors.Is(err, ErrClosed) { // the test has failed already
					t.Error(err)
				}
				return
			}
			granted <- l
		})
		sleeps(t, clients[i], 2)
	})
	require.EqualValues(t, n, queued.Load())
	line, err := NewMutex(clients[0], path).Contenders(ctx)
	require.NoError(t, err)
	require.Len(t, line, 1+n)

	sent.reset()
	for i := range n {
		require.NoError(t, current.Release())
		current = <-granted
		require.Equal(t, line[i+1].Token, current.Token(), "in the order of the line")
		require.Equal(t, map[string]int{opRelease: i + 1}, sent.count(), "releases and nothing else")
		require.Empty(t, granted, "one wake per release")
	}
	require.NoError(t, current.Release())
	require.Equal(t, map[string]int{opRelease: 1 + n}, sent.count())
	eventually(t, "grants told", func() bool { return grants.Load() == 1+n })
	require.EqualValues(t, n, queued.Load(), "nobody has stood in line twice")
}

// requests counts what clients send, by operation, as proxy does, for less: a
// thousand connections through a proxy are three thousand.
type requests struct {
	mu sync.Mutex
	by map[string]int
}

func (r *requests) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &counted{Conn: nc, r: r}, err
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by = map[string]int{}
}

// count leaves pings out.
func (r *requests) count() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	by := maps.Clone(r.by)
	delete(by, "ping")
	return by
}

type counted struct {
	net.Conn
	r         *requests
	connected bool // the handshake's request has no operation
}

func (c *counted) Write(b []byte) (int, error) {
	for in := bytes.NewReader(b); in.Len() > 0; {
		frame, err := jute.ReadFrame(in, len(b))
		if err != nil {
			return 0, fmt.Errorf("not a whole frame: %w", err)
		}
		if !c.connected {
			c.connected = true
			continue
		}
		_, op := requestOf(frame[4:])
		c.r.mu.Lock()
		if c.r.by != nil {
			c.r.by[op]++
		}
		c.r.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// A server without its data knows no session and refuses all that come back,
// since they have seen more than it has. Holders hear ErrLost, and clients go
// on in a new session.
func TestB46ServerLostItsData(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond
	node := ownNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	ctx := within(t, 30*time.Second)
	lines := pairs(t, ctx, servers, timeout)

	require.NoError(t, node.Wipe(t.Context()))
	wiped := time.Now()
	for _, l := range lines {
		require.ErrorIs(t, waitFor(t, l.work), ErrLost)
		require.ErrorIs(t, l.holder.Err(), ErrLost)
		_, err := l.holder.Commit(ctx)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, l.holder.Release(), ErrLost)
	}
	for _, l := range lines {
		next := l.waiter.granted()
		require.NotEqual(t, l.waiting.nth(t, 1, "up").Session, l.waiting.nth(t, 1, "granted").Session, "in a new session")
		other := later(t, l.theirs(l.client, l.path).Lock) // the client that held
		require.NoError(t, next.Release())
		again := other.granted()
		took := time.Since(wiped)
		t.Logf("%s: both clients were served %v after the server was back without its data, timeout %v", l.name, took, timeout)
		require.Less(t, took, 6*timeout, "twice the timeout, and some time to connect")
		require.NotEqual(t, l.holding.nth(t, 1, "up").Session, l.holding.nth(t, 2, "granted").Session, "in a new session")
		require.NoError(t, again.Release())
	}
}

// The servers are away for longer than the timeout, and know the sessions when
// they are back. The lease has ended for its holder by then, so its place is
// deleted as soon as that can be; the waiter's session and place live on.
func TestB56ServersAwayForLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	for _, tt := range []struct {
		name   string
		outage time.Duration // at least
	}{{"once", 0}, {"twice", 2*timeout + timeout/4}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := ownNode(t, zkserver.Config{})
			servers := []string{node.Addr()}
			ctx := within(t, 30*time.Second)
			lines := pairs(t, ctx, servers, timeout)

			require.NoError(t, node.Kill(t.Context()))
			over := time.After(tt.outage)
			for _, l := range lines {
				require.ErrorIs(t, waitFor(t, l.work), ErrLost, "which is after the timeout")
			}
			<-over
			for _, l := range lines {
				require.True(t, l.waiter.waiting())
			}
			require.NoError(t, node.Restart(t.Context()))

			for _, l := range lines {
				next := l.waiter.granted()
				for _, r := range []*trail{l.holding, l.waiting} {
					require.Equal(t, r.nth(t, 1, "up").Session, r.nth(t, 2, "up").Session, "the session is known still")
				}
				require.Equal(t, l.before[1], l.waiting.nth(t, 1, "granted").Place)
				require.Len(t, l.waiting.of("queued"), 1, "it never left its place")
				require.Equal(t, l.before[1:], places(t, servers, l.path), "the ended lease's place is gone")
				_, err := l.holder.Commit(ctx)
				require.ErrorIs(t, err, ErrLost)
				require.ErrorIs(t, l.holder.Release(), ErrLost)
				require.NoError(t, next.Release())
				require.NoError(t, l.theirs(l.client, l.path).Do(ctx, nothing), "no ghost of its own is in the way")
			}
		})
	}
}

// Where somebody else could send the signal of a hand-off, or nobody can send
// it, each waiter lists when its predecessor goes, and the lock works.
func TestB61NoSignalIsBelievedWhereItCouldBeForged(t *testing.T) {
	t.Parallel()
	super := []byte("super:secret")
	for _, tt := range []struct {
		name     string
		flag     string
		option   zktest.Option
		auth     []Auth
		forge    bool // somebody else can set data on a place
		unsigned bool // a holder that leaves says nothing
	}{
		{"skipACL", "-Dzookeeper.skipACL=yes", zktest.SkipACL(), nil, true, false},
		{"digest authentication off", "-Dzookeeper.DigestAuthenticationProvider.enabled=false", zktest.WithoutDigest(), nil, false, true},
		{"super user", "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + digestID(super), zktest.SuperDigest(digestID(super)), []Auth{{"digest", super}}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := ownServer(t, zkserver.Config{JVMFlags: []string{tt.flag}}, tt.option)
			for _, side := range sides {
				t.Run(side.name, func(t *testing.T) {
					ctx, path := within(t, 20*time.Second), newPath(t)
					p := newProxy(t, server)
					c := dialTo(t, []string{p.addr()}, &Options{Auth: tt.auth})
					holder := held(t, side.theirs(c, path).Lock)
					sleeps(t, c, 1)
					var waiters []*attempt
					for _, lock := range []func(*Client, string) locker{side.ours, side.theirs} {
						c := dialTo(t, []string{p.addr()}, &Options{Auth: tt.auth})
						waiters = append(waiters, later(t, lock(c, path).Lock))
						sleeps(t, c, 2)
					}

					conn := rawTo(t, []string{server})
					for _, a := range tt.auth {
						require.NoError(t, conn.AddAuth(a.Scheme, a.Data))
					}
					p.reset()
					_, err := conn.Set(holder.Check().Path, []byte("released"), -1)
					if !tt.forge {
						require.ErrorIs(t, err, zk.ErrNoAuth)
					} else {
						require.NoError(t, err)
						// The waiter lists and watches its predecessor again, and the holder
						// its own place.
						again := map[string]int{"getChildren2": 1, "getData": 2}
						eventually(t, "a listing", func() bool { return maps.Equal(again, p.count()) })
						require.True(t, waiters[0].waiting(), "forged")
					}
					_, err = holder.Commit(ctx)
					require.NoError(t, err)

					// A listing for each hand-off.
					current := holder
					for i, leave := range []string{side.freed, side.release} {
						if tt.unsigned {
							leave = opReadRelease
						}
						p.reset()
						require.NoError(t, current.Release())
						current = waiters[i].granted()
						require.Equal(t, map[string]int{leave: 1, "getChildren2": 1}, p.count())
					}
					require.NoError(t, current.Release())
				})
			}
		})
	}
}

// pair is a holder and, behind it, one that waits, in sessions of their own.
type pair struct {
	side             // of the waiter; the holder is a rival
	path             string
	holding, waiting *trail
	client           *Client // the holder's
	holder           *Lease
	work             context.Context // the holder's
	waiter           *attempt
	before           []string // the places
}

// pairs returns one for each side.
func pairs(t testing.TB, ctx context.Context, servers []string, timeout time.Duration) (ps []*pair) {
	t.Helper()
	for _, side := range sides {
		p := &pair{side: side, path: newPath(t), holding: newTrail(), waiting: newTrail()}
		p.client = dialTo(t, servers, &Options{SessionTimeout: timeout, Trace: p.holding.trace()})
		p.holder = held(t, side.theirs(p.client, p.path).Lock)
		p.work = p.holder.Context(ctx)
		c := dialTo(t, servers, &Options{SessionTimeout: timeout, Trace: p.waiting.trace()})
		p.waiter = later(t, side.ours(c, p.path).Lock)
		sleeps(t, c, 2)
		p.before = places(t, servers, p.path)
		require.Len(t, p.before, 2)
		ps = append(ps, p)
	}
	return ps
}

// trail keeps what a Client's Trace is told.
type trail struct {
	mu   sync.Mutex
	told map[string][]TraceEvent
}

func newTrail() *trail { return &trail{told: map[string][]TraceEvent{}} }

func (r *trail) trace() *Trace {
	note := func(what string) func(TraceEvent) {
		return func(e TraceEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told[what] = append(r.told[what], e)
		}
	}
	return &Trace{
		Queued: note("queued"), Granted: note("granted"), Released: note("released"), Lost: note("lost"),
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

func (r *trail) of(what string) []TraceEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told[what])
}

// nth waits until something has been told n times, and returns what then.
func (r *trail) nth(t testing.TB, n int, what string) TraceEvent {
	t.Helper()
	eventually(t, fmt.Sprintf("%s told %d times", what, n), func() bool { return len(r.of(what)) >= n })
	return r.of(what)[n-1]
}

// sleeps waits until the client has n watches, all of them answered: two for a
// waiter, one for who has held for long enough.
func sleeps(t testing.TB, c *Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d watches", n), func() bool {
		s, _ := c.session()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range s.watches {
			if w.confirmed == 0 {
				return false
			}
		}
		return len(s.watches) == n
	})
}

// places returns the names of the places in a line, in order.
func places(t testing.TB, servers []string, path string) (names []string) {
	t.Helper()
	conn := rawTo(t, servers)
	defer conn.Close() // go-zookeeper's can hang for a minute when its server dies
	_, err := conn.Sync(path)
	require.NoError(t, err)
	ms := members(children(t, conn, path), lockKinds)
	slices.SortFunc(ms, member.compare)
	for _, m := range ms {
		names = append(names, m.name)
	}
	return names
}

// waitFor returns why a context has ended, in bounded time.
func waitFor(t testing.TB, ctx context.Context) error {
	t.Helper()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the context does not end")
		return nil
	}
}
