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

// A Server is a server under test.
type Server struct {
	// Dial opens a connection on which nothing has been sent yet.
	Dial func(ctx context.Context) (net.Conn, error)

	// TickTime determines the bounds of session timeouts: 2 and 20 ticks.
	TickTime time.Duration

	// Version is the version of ZooKeeper.
	Version zktest.Version

	// Shared means that other clients may write to the server. Then the zxids in
	// the headers of replies are meaningless and are not compared.
	Shared bool

	// Restart ends the server and starts it again, with its data. It is nil if the
	// server cannot do it.
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

	// Exclusive means that the case cannot run on a Shared server. It depends on
	// state that other clients change, or on the server's configuration.
	Exclusive bool
}

// one returns the script of a case with a client a that has a session, and two that of one
// with another client b.
func one(run func(s *Script, a *Client)) func(*Script) {
	return func(s *Script) { run(s, s.Connect("a")) }
}

func two(run func(s *Script, a, b *Client)) func(*Script) {
	return func(s *Script) { run(s, s.Connect("a"), s.Connect("b")) }
}

// Cases returns all cases. They are independent of each other.
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
		defer s.end()
		c.Run(s)
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
		{SkipACLCases, []zktest.Option{zktest.SkipACL()}},
		{WithoutDigestCases, []zktest.Option{zktest.WithoutDigest()}},
		{SASLCases, []zktest.Option{zktest.SASL(SASLUsers)}},
		{RequiredSASLCases, []zktest.Option{zktest.SASL(SASLUsers), zktest.RequireSASL()}},
	} {
		for _, c := range group.cases {
			t.Run(c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScript(t, Double(t, version, 2*time.Second, append(group.opts, zktest.InMemory())...))
					defer s.end()
					c.Run(s)
				})
			})
		}
	}
	t.Run(aclNumbers.Name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer(t, zktest.Emulate(version), zktest.InMemory(), zktest.ContainerCheckInterval(time.Second))
			s := newScript(t, emulated(srv, version, time.Second))
			aclNumbers.Run(s)
			s.end()
			require.NoError(t, s.server.Restart())
			require.Equal(t, 7, srv.ACLs())
			require.Equal(t, 12, srv.Counts().NewACLs)
		})
	})
}

// Double returns a zktest server that emulates a version with this tick.
func Double(t *testing.T, version zktest.Version, tick time.Duration, opts ...zktest.Option) Server {
	return emulated(zktest.NewServer(t, append([]zktest.Option{
		zktest.Emulate(version),
		zktest.TickTime(tick),
		zktest.SessionTimeouts(2*tick, 20*tick),
		zktest.ContainerCheckInterval(500 * time.Millisecond),
	}, opts...)...), version, tick)
}

func emulated(srv *zktest.Server, version zktest.Version, tick time.Duration) Server {
	return Server{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return srv.DialContext(ctx, "tcp", srv.Addr())
		},
		TickTime:       tick,
		Version:        version,
		CounterNearEnd: srv.SetCounter,
		Restart: func() error {
			srv.Stop()
			return srv.Restart()
		},
	}
}
