package zktest_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// connect stands for the call of zk.Connect in the code under test.
func connect(srv *zktest.Server) (*zk.Conn, <-chan zk.Event) {
	conn, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second,
		zk.WithDialer(srv.Dial), zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		log.Fatal(err)
	}
	return conn, events
}

// Expire expires a session at once, as if its process had paused for longer than
// the session timeout of ten seconds. The server deletes the session's ephemeral
// znode, and both clients get an event.
func Example() {
	srv, err := zktest.Start() // in a test: srv := zktest.NewServer(t)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	leader, events := connect(srv)
	defer leader.Close()
	path, err := leader.Create("/leader-", []byte("a"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)

	follower, _ := connect(srv)
	defer follower.Close()
	_, _, changed, err := follower.GetW(path)
	if err != nil {
		log.Fatal(err)
	}

	session := srv.Sessions()[0] // the oldest
	fmt.Println(session.Timeout, session.Ephemerals)
	srv.Expire(session.ID)

	fmt.Println("follower:", (<-changed).Type)
	for event := range events {
		if event.State == zk.StateExpired {
			fmt.Println("leader:", event.State)
			break
		}
	}
	fmt.Println("created:", srv.Counts().Requests["create"])
	// Output:
	// /leader-0000000000 <nil>
	// 10s [/leader-0000000000]
	// follower: EventNodeDeleted
	// leader: StateExpired
	// created: 1
}

// The second create under /jobs succeeds, but its reply is lost.
func ExamplePlan() {
	srv, err := zktest.Start(zktest.WithPlan(zktest.NewPlan(zktest.Fault{
		Do: zktest.Drop, After: true, Op: "create", Path: "/jobs/*", Skip: 1,
	})))
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	conn, _ := connect(srv)
	defer conn.Close()

	for _, path := range []string{"/jobs", "/jobs/a", "/jobs/b"} {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		fmt.Println(path, "reply lost:", errors.Is(err, zk.ErrConnectionClosed))
	}
	fmt.Println(srv.Children("/jobs"))
	fmt.Print(srv.Plan())
	// Output:
	// /jobs reply lost: false
	// /jobs/a reply lost: false
	// /jobs/b reply lost: true
	// [a b]
	// drop after create /jobs/* skip=1 times=1: matched 2, fired 1
}

// Example_synctest has no output, so go test does not run it. This test does.
func TestSynctestExamplePasses(t *testing.T) { leaderZnodeOutlivesItsConnection(t) }
