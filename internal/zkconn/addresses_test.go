package zkconn_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Without Options.Dialer, each address of each name is a server.

// network is what a Client without Options.Dialer sees of the network: name servers, and
// what becomes of connections to each address.
type network struct {
	w *recipetest.World

	mu      sync.Mutex
	names   map[string][]string // none: there is no such host
	lookups map[string]int
	takes   time.Duration // a lookup
	hosts   map[string]dialFunc
	dialed  map[string]int
	open    []net.Conn
}

func newNetwork(w *recipetest.World, names map[string][]string) *network {
	return &network{w: w, names: names, lookups: map[string]int{}, hosts: map[string]dialFunc{}, dialed: map[string]int{}}
}

func (n *network) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	takes := n.takes
	n.lookups[host]++
	n.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var addrs []netip.Addr
	for _, addr := range n.names[host] {
		addrs = append(addrs, netip.MustParseAddr(addr))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// dial connects to the world's server, unless become has said something else of the address.
func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed[addr]++
	dial := n.hosts[addr]
	n.mu.Unlock()
	if dial == nil {
		dial = n.w.Srv.DialContext
	}
	nc, err := dial(ctx, network, addr)
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.open = append(n.open, nc)
	}
	return nc, err
}

// become says what becomes of connections to these addresses. Those that are open are lost.
func (n *network) become(dial dialFunc, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, addr := range addrs {
		n.hosts[addr] = dial
	}
	for _, nc := range n.open {
		nc.Close()
	}
	n.open = nil
}

// set changes the addresses of a name.
func (n *network) set(name string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = addrs
}

func (n *network) slow(takes time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takes = takes
}

func (n *network) dials() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.dialed)
}

func (n *network) lookedUp(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookups[name]
}

// tryDial connects within a minute, or not.
func (n *network) tryDial(opts *zkrecipes.Options, servers ...string) (*zkrecipes.Client, error) {
	ctx := tuning.With(harness.Within(n.w.T, time.Minute), func(c *tuning.Constants) { c.Lookup, c.Dial = n.lookup, n.dial })
	c, err := zkrecipes.Dial(ctx, servers, opts)
	n.w.T.Cleanup(func() { c.Close() })
	return c, err
}

func (n *network) client(servers ...string) *zkrecipes.Client {
	n.w.T.Helper()
	c, err := n.tryDial(nil, servers...)
	require.NoError(n.w.T, err)
	return c
}

func refuses(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// drops is an address from which nothing comes back, not even to a SYN.
func drops(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// silent accepts connections and sends nothing.
func silent(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go io.Copy(io.Discard, server)
	return client, nil
}

// closes accepts connections and closes them.
func closes(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	server.Close()
	return client, nil
}

// dead are the ways in which an address does not serve.
var dead = map[string]dialFunc{"refuses": refuses, "drops SYNs": drops, "silent": silent, "closes": closes}

// attempt is the budget of one attempt at a session timeout of 10 s.
const attempt = 10 * time.Second / 6

func TestDialFindsTheAddressOfANameThatServes(t *testing.T) {
	recipetest.EachInBubble(t, dead, func(t *testing.T, w *recipetest.World, dial dialFunc) {
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1", "10.0.0.2"}})
		n.become(dial, "10.0.0.1:2181")
		var slowest time.Duration
		for range 20 { // the order is random
			began := time.Now()
			c := n.client("zk.example")
			slowest = max(slowest, time.Since(began))
			require.Equal(t, "zk.example (10.0.0.2:2181)", c.Status().Server)
			require.NoError(t, c.Close())
		}
		require.NotZero(t, n.dials()["10.0.0.1:2181"])
		require.LessOrEqual(t, slowest, attempt+20*time.Millisecond)
		t.Log("Dial took at most", slowest)
	})
}

func TestLeaseOutlivesTheAddressOfItsConnection(t *testing.T) {
	recipetest.EachInBubble(t, dead, func(t *testing.T, w *recipetest.World, dial dialFunc) {
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}})
		c := n.client("zk.example")
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		for _, lost := range []string{"10.0.0.1:2181", "10.0.0.2:2181"} {
			n.become(dial, lost)
			time.Sleep(2 * recipetest.DefaultSessionTimeout)
			require.NoError(t, l.Err())
		}
		require.Equal(t, "zk.example (10.0.0.3:2181)", c.Status().Server)
		require.NoError(t, l.Release())
	})
}

func TestLeaseOutlivesAllAddressesOfItsName(t *testing.T) {
	move := func(n *network) {
		n.set("zk.example", "10.0.0.3", "10.0.0.4")
		n.become(drops, "10.0.0.1:2181", "10.0.0.2:2181")
	}
	recipetest.EachInBubble(t, map[string]func(n *network){
		"they change while it is connected": move,
		"they change once it is not": func(n *network) {
			n.become(drops, "10.0.0.1:2181", "10.0.0.2:2181")
			time.Sleep(3 * time.Second)
			move(n)
		},
		"the lookup takes 5 s": func(n *network) {
			n.slow(5 * time.Second)
			move(n)
		},
	}, func(t *testing.T, w *recipetest.World, change func(n *network)) {
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1", "10.0.0.2"}})
		c := n.client("zk.example")
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		change(n)
		time.Sleep(recipetest.DefaultSessionTimeout)
		require.NoError(t, l.Err())
		require.Contains(t, []string{"zk.example (10.0.0.3:2181)", "zk.example (10.0.0.4:2181)"}, c.Status().Server)
		before := n.dials()
		n.become(nil) // the next attempts are at the new addresses alone
		time.Sleep(time.Second)
		require.True(t, c.Status().Connected)
		require.Equal(t, before["10.0.0.1:2181"], n.dials()["10.0.0.1:2181"])
		require.Equal(t, before["10.0.0.2:2181"], n.dials()["10.0.0.2:2181"])
		require.NoError(t, l.Release())
	})
}

// The first of two name servers is dead, for example.
func TestASlowLookupOnlyDelaysTheFirstConnection(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1", "10.0.0.2"}})
		n.slow(5 * time.Second)
		began := time.Now()
		c := n.client("zk.example")
		require.WithinDuration(t, began.Add(5*time.Second), time.Now(), 100*time.Millisecond)

		began = time.Now()
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		n.become(nil)
		time.Sleep(time.Second)
		require.NoError(t, l.Release(), "connected again")
		w.Srv.Expire(recipetest.SessionID(c))
		recipetest.RequireUsable(t, c)
		require.Less(t, time.Since(began), 3*time.Second, "in a new session")
	})
}

func TestAddressesStayWhileTheNameCannotBeLookedUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1"}})
		c, err := n.tryDial(&zkrecipes.Options{Logger: log.Logger()}, "zk.example")
		require.NoError(t, err)
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		n.set("zk.example")
		n.become(nil)
		time.Sleep(time.Second)
		require.True(t, c.Status().Connected)
		require.NoError(t, l.Release())
		require.Len(t, log.With(`msg="cannot look up a server" server=zk.example:2181 kept=1 err="lookup zk.example: no such host"`), 1)
		w.Srv.Expire(recipetest.SessionID(c))
		recipetest.RequireUsable(t, c)
	})
}

func TestNamesThatAreNotLookedUpHoldUpNoOther(t *testing.T) {
	recipetest.EachInBubble(t, map[string]time.Duration{"there is no such host": 0, "no name server answers": time.Hour}, func(t *testing.T, w *recipetest.World, takes time.Duration) {
		n := newNetwork(w, map[string][]string{})
		n.slow(takes)
		began := time.Now()
		c := n.client("zk1.example", "10.0.0.9:2182", "zk2.example")
		require.LessOrEqual(t, time.Since(began), 50*time.Millisecond)
		require.Equal(t, "10.0.0.9:2182", c.Status().Server)

		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		n.slow(0)
		n.set("zk1.example", "10.0.0.1")
		n.become(drops, "10.0.0.9:2182")
		if takes == 0 {
			time.Sleep(5 * time.Second)
			require.NoError(t, l.Err())
		} else {
			time.Sleep(2 * time.Minute) // the lookups under way are given up
		}
		require.Equal(t, "zk1.example (10.0.0.1:2181)", c.Status().Server)
	})
}

func TestDialSaysWhichNameItCannotLookUp(t *testing.T) {
	for how, test := range map[string]struct {
		takes time.Duration
		says  string
	}{
		"there is no such host":  {0, "(zk.example:2181: lookup zk.example: no such host)"},
		"no name server answers": {time.Hour, "(zk.example:2181: the lookup has not ended "},
	} {
		t.Run(how, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var log recipetest.Warnings
				n := newNetwork(w, map[string][]string{})
				n.slow(test.takes)
				began := time.Now()
				_, err := n.tryDial(&zkrecipes.Options{Logger: log.Logger()}, "zk.example")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, test.says)
				require.WithinDuration(t, began.Add(time.Minute), time.Now(), time.Second, "the lookup ends with Dial")
				warnings := log.With("cannot look up a server")
				require.GreaterOrEqual(t, len(warnings), 4)
				require.LessOrEqual(t, len(warnings), 8)
				require.Contains(t, warnings[0], "kept=0")
				require.LessOrEqual(t, n.lookedUp("zk.example"), 100)
			})
		})
	}
}

func TestCloseEndsALookup(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		n := newNetwork(w, map[string][]string{})
		n.slow(time.Hour)
		c := n.client("zk.example", "10.0.0.1")
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), time.Second)
	})
}

// Clients spread over all addresses of all names, even if one name is looked up faster.
func TestFirstConnectionsSpreadOverAllAddresses(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		n := newNetwork(w, map[string][]string{"zk1.example": {"10.0.0.1", "10.0.0.2"}, "zk2.example": {"10.0.0.3"}})
		n.slow(10 * time.Millisecond)
		seen := map[string]int{}
		for range 100 {
			c := n.client("zk1.example", "zk2.example", "10.0.0.4")
			seen[c.Status().Server]++
			require.NoError(t, c.Close())
		}
		require.Len(t, seen, 4)
		for server, times := range seen {
			require.Greater(t, times, 5, server)
		}
	})
}

// All addresses are tried in turn, and a name with many of them does not get many
// more attempts.
func TestAttemptsAtManyAddressesAreBounded(t *testing.T) {
	for _, addresses := range []int{1, 2, 20} {
		t.Run(fmt.Sprint(addresses), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var addrs []string
				for i := range addresses {
					addrs = append(addrs, fmt.Sprintf("10.0.0.%d", i+1))
				}
				n := newNetwork(w, map[string][]string{"zk.example": addrs})
				for _, addr := range addrs {
					n.become(refuses, addr+":2181")
				}
				_, err := n.tryDial(nil, "zk.example")
				require.ErrorContains(t, err, "connection refused")
				dials := n.dials()
				require.Len(t, dials, addresses)
				sum, least, most := 0, 1000, 0
				for _, times := range dials {
					sum, least, most = sum+times, min(least, times), max(most, times)
				}
				require.LessOrEqual(t, most-least, 1)
				require.GreaterOrEqual(t, least, 10)
				require.LessOrEqual(t, sum, 100*min(addresses, 5))
				require.LessOrEqual(t, n.lookedUp("zk.example"), 100)
				t.Log(sum, "attempts a minute,", n.lookedUp("zk.example"), "lookups")
			})
		})
	}
}

// Servers that answer handshakes and serve nothing are told apart by their address.
func TestSessionIsGivenUpAtTheAddressesOfAName(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1", "10.0.0.2"}})
		var log recipetest.Warnings
		c, err := n.tryDial(&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}, Logger: log.Logger()}, "zk.example")
		require.NoError(t, err)
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		n.mu.Lock()
		n.hosts["10.0.0.1:2181"] = drops
		n.mu.Unlock()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "auth", Code: -115, Times: -1})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		w.RequireGivenUp(l, &log)
	})
}

func TestAddressesAreDialedAsTheyAreGiven(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1":            "10.0.0.1:2181",
		"::1":                 "[::1]:2181",
		"[2001:db8::1]:2182":  "[2001:db8::1]:2182",
		"[fe80::1%eth0]:2182": "[fe80::1%eth0]:2182",
		"fe80::1%eth0":        "[fe80::1%eth0]:2181",
	} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			n := newNetwork(w, nil)
			c := n.client(given)
			require.Equal(t, want, c.Status().Server)
			require.Equal(t, map[string]int{want: 1}, n.dials())
			require.Empty(t, n.lookups)
		})
	}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		n := newNetwork(w, map[string][]string{"zk.example": {"::ffff:10.0.0.1"}, "zk6.example": {"fe80::1%eth0"}})
		require.Equal(t, "zk.example (10.0.0.1:2181)", n.client("zk.example").Status().Server)
		require.Equal(t, "zk6.example ([fe80::1%eth0]:2182)", n.client("zk6.example:2182").Status().Server)
	})
}

// Records and Trace name the address.
func TestRecordsNameTheAddressOfAServer(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		sessions := make(chan zkrecipes.TraceSession, 10)
		n := newNetwork(w, map[string][]string{"zk.example": {"10.0.0.1", "10.0.0.2"}})
		n.become(refuses, "10.0.0.1:2181", "10.0.0.2:2181")
		time.AfterFunc(time.Second, func() { n.become(nil, "10.0.0.2:2181") })
		_, err := n.tryDial(&zkrecipes.Options{Logger: log.Logger(), Trace: &zkrecipes.Trace{
			Session: func(e zkrecipes.TraceSession) { sessions <- e },
		}}, "zk.example")
		require.NoError(t, err)
		for _, server := range []string{"zk.example (10.0.0.1:2181)", "zk.example (10.0.0.2:2181)"} {
			require.Len(t, log.With(fmt.Sprintf("msg=\"cannot connect\" server=%q err=%q", server, server+": connection refused")), 1)
		}
		require.Equal(t, "zk.example (10.0.0.2:2181)", (<-sessions).Server)
	})
}

func TestTLSVerifiesTheNameThatWasGiven(t *testing.T) {
	ca := harness.NewCA(t)
	secure := netip.MustParseAddrPort(ca.Terminator(t, "zk.test", harness.Server(), nil))
	lookup := func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{secure.Addr()}, nil }
	opts := &zkrecipes.Options{TLS: &tls.Config{RootCAs: ca.Pool()}}

	ctx := tuning.With(harness.Within(t, 2*time.Minute), func(c *tuning.Constants) { c.Lookup = lookup })
	c, err := zkrecipes.Dial(ctx, []string{fmt.Sprint("zk.test:", secure.Port())}, opts)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("zk.test (%v)", secure), c.Status().Server)
	require.NoError(t, c.Close())

	once, dial := recipetest.OneAttempt(harness.Within(t, 2*time.Minute), new(net.Dialer).DialContext)
	once = tuning.With(once, func(c *tuning.Constants) { c.Lookup, c.Dial = lookup, dial })
	_, err = zkrecipes.Dial(once, []string{fmt.Sprint("other.test:", secure.Port())}, opts)
	require.ErrorContains(t, err, "not other.test")
}
