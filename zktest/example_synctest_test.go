package zktest_test

import (
	"io"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// In your tests this would be a function TestLeaderZnodeOutlivesItsConnection.
func leaderZnodeOutlivesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		connect := func() *zk.Conn {
			conn, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second,
				zk.WithDialer(srv.Dial), zk.WithLogger(log.New(io.Discard, "", 0)))
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		leader, follower := connect(), connect()
		defer leader.Close()
		defer follower.Close()

		_, err := leader.Create("/leader", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		_, _, changed, err := follower.GetW("/leader")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // takes milliseconds, with all heartbeats

		// Cut the leader off: refuse new connections and close its connection.
		srv.Plan().Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		srv.Disconnect(leader.SessionID())
		cutOff := time.Now()
		if event := <-changed; event.Type != zk.EventNodeDeleted {
			t.Error(event)
		}
		// The session expires ten seconds after its last heartbeat, and up to a
		// tick later.
		if d := time.Since(cutOff); d < 6*time.Second || d > 11*time.Second {
			t.Errorf("znode was deleted after %v", d)
		}
	})
}

// With InMemory, sessions expire in the simulated time of a testing/synctest
// bubble. An hour and ten seconds pass here in milliseconds.
func Example_synctest() {
	var t *testing.T // provided by go test
	leaderZnodeOutlivesItsConnection(t)
}
