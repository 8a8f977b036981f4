package zktest_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory runs f in a bubble with a server in memory.
func inMemory(t *testing.T, f func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.NewServer(t, append([]zktest.Option{zktest.InMemory()}, opts...)...)) })
}

// open returns a client that has a new session of ten seconds.
func open(t *testing.T, srv *zktest.Server) *conformance.Client {
	t.Helper()
	return conformance.On(t, srv).Handshake("c", conformance.ConnectRequest{Timeout: 10000})
}

// resume returns a client that has asked for the session of c and has seen that zxid. Its ID is
// 0 if the server has refused the session.
func resume(t *testing.T, srv *zktest.Server, c *conformance.Client, seen int64) *conformance.Client {
	t.Helper()
	return conformance.On(t, srv).Handshake("c again", conformance.ConnectRequest{
		ID: c.ID, Password: c.Password, Timeout: 10000, LastZxidSeen: seen,
	})
}

// exists reports whether a client sees a znode.
func exists(c *conformance.Client, path string) bool {
	return c.Call(conformance.Exists(path, false)).Err == 0
}
