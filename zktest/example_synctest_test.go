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

// (In your tests its name would be TestADeadLeadersPlaceStandsForTenSeconds.)
func deadLeadersPlaceStandsForTenSeconds(t *testing.T) {
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
		time.Sleep(time.Hour) // heartbeats go to and fro, and this takes milliseconds

		// The leader is cut off: no connection is accepted from now on, and it
		// loses the one that it has.
		srv.Plan().Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		srv.Disconnect(leader.SessionID())
		cut := time.Now()
		if event := <-changed; event.Type != zk.EventNodeDeleted {
			t.Error(event)
		}
		// Ten seconds, counted from its last heartbeat and up to a tick more.
		if stood := time.Since(cut); stood < 6*time.Second || stood > 11*time.Second {
			t.Errorf("stood for %v", stood)
		}
	})
}

// In a bubble of testing/synctest the sessions of a server in memory end after
// their whole timeout, in simulated time: an hour and ten seconds pass here in
// milliseconds.
func Example_synctest() {
	var t *testing.T // go test has one for each TestXxx
	deadLeadersPlaceStandsForTenSeconds(t)
}
