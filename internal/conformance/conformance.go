// Package conformance sends the same requests to two servers and compares the
// replies: a real ZooKeeper, which is the reference, and zktest, which must behave
// in the same way.
//
// A Case drives raw connections (client.go) against one server and leaves a
// transcript of everything that the server sent, in order (script.go). Each case
// asserts what this library or its tests rely on. Comparing the whole transcripts
// also finds differences that no case asserts.
//
// Comments at the cases describe surprising behaviour of the real server, and
// name its classes. The cases run against ZooKeeper 3.9 and 3.8, and zktest
// emulates the version that it is compared with.
package conformance

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// A Server is a server under test. No other client uses it.
type Server struct {
	// Dial opens a connection on which nothing has been sent yet.
	Dial func(ctx context.Context) (net.Conn, error)

	// TickTime determines the bounds of session timeouts: 2 and 20 ticks.
	TickTime time.Duration

	// Version is the version of ZooKeeper.
	Version zktest.Version

	// Restart ends the server and starts it again, with its data.
	Restart func() error

	// CounterNearEnd sets the number of the next sequential child of a znode. It
	// may end all connections and sessions. It is nil if the server cannot do
	// it.
	CounterNearEnd func(path string, next int32) error
}

// A Case is a script of requests that test one behaviour.
type Case struct {
	Name string
	Run  func(s *Script)

	// CounterNearEnd means that the case needs Server.CounterNearEnd.
	CounterNearEnd bool
}

// one returns the script of a case with a client a that has a session, and two and three those
// of cases with further clients.
func one(run func(s *Script, a *Client)) func(*Script) {
	return func(s *Script) { run(s, s.Connect("a")) }
}

func two(run func(s *Script, a, b *Client)) func(*Script) {
	return func(s *Script) { run(s, s.Connect("a"), s.Connect("b")) }
}

func three(run func(s *Script, a, b, c *Client)) func(*Script) {
	return func(s *Script) { run(s, s.Connect("a"), s.Connect("b"), s.Connect("c")) }
}

// Cases returns all cases for a server with the usual configuration. They are independent of
// each other.
func Cases() []Case {
	var all []Case
	for _, group := range []struct {
		name  string
		cases []Case
	}{
		{"create", createCases}, {"sequence", sequenceCases}, {"delete", deleteCases},
		{"data", dataCases}, {"children", childrenCases}, {"acl", aclCases},
		{"auth", authCases}, {"multi", multiCases}, {"watch", watchCases},
		{"addWatch", addWatchCases}, {"setWatches", setWatchesCases},
		{"session", sessionCases}, {"connect", connectCases}, {"frame", frameCases},
		{"zxid", zxidCases}, {"system", systemCases}, {"container", containerCases},
		{"fourLetterWord", fourLetterCases},
	} {
		for _, c := range group.cases {
			c.Name = group.name + "/" + c.Name
			all = append(all, c)
		}
	}
	return all
}

// Run runs the case against the server, in a subtest with the given name, and
// returns its transcript.
func Run(t *testing.T, name string, server Server, c Case) []string {
	s := newScript(t, server)
	t.Run(name, func(t *testing.T) {
		s.t = t
		s.run(c)
	})
	return s.transcript()
}

// OnZktest runs all cases against zktest alone, in simulated time.
func OnZktest(t *testing.T, version zktest.Version) {
	for _, group := range []struct {
		cases []Case
		opts  []zktest.Option
	}{
		{Cases(), []zktest.Option{zktest.SuperDigest(SuperDigest())}},
		{RestartCases, nil},
		{TTLCases, []zktest.Option{zktest.ExtendedTypes()}},
		{SkipACLCases, []zktest.Option{zktest.SkipACL()}},
		{WithoutDigestCases, []zktest.Option{zktest.WithoutDigest()}},
		{SASLCases, []zktest.Option{zktest.SASL(SASLUsers)}},
		{RequiredSASLCases, []zktest.Option{zktest.SASL(SASLUsers), zktest.RequireSASL()}},
	} {
		for _, c := range group.cases {
			t.Run(c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, _ := Double(t, version, 2*time.Second, append(group.opts, zktest.InMemory())...)
					newScript(t, server).run(c)
				})
			})
		}
	}
	t.Run(aclNumbers.Name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server, srv := Double(t, version, time.Second, zktest.InMemory())
			newScript(t, server).run(aclNumbers)
			require.NoError(t, server.Restart())
			require.Equal(t, 7, srv.ACLs())
			require.Equal(t, 12, srv.Counts().NewACLs)
		})
	})
}

// On returns a Script for a test of a zktest server.
func On(t *testing.T, srv *zktest.Server) *Script {
	s := newScript(t, Server{Dial: dialer(srv), TickTime: time.Second, Version: zktest.ZooKeeper39})
	t.Cleanup(func() {
		for _, c := range s.clients {
			c.conn.Close()
		}
	})
	return s
}

func dialer(srv *zktest.Server) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return srv.DialContext(ctx, "tcp", srv.Addr()) }
}

// Double starts a zktest server that emulates a version with this tick.
func Double(t *testing.T, version zktest.Version, tick time.Duration, opts ...zktest.Option) (Server, *zktest.Server) {
	srv := zktest.NewServer(t, append([]zktest.Option{
		zktest.Emulate(version),
		zktest.TickTime(tick),
		zktest.SessionTimeouts(2*tick, 20*tick),
		zktest.ContainerCheckInterval(500 * time.Millisecond),
	}, opts...)...)
	return Server{
		Dial:           dialer(srv),
		TickTime:       tick,
		Version:        version,
		CounterNearEnd: srv.SetCounter,
		Restart: func() error {
			srv.Stop()
			return srv.Restart()
		},
	}, srv
}
