package zktest_test

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

func Example() {
	srv, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	conn, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	path, err := conn.Create("/job-", []byte("a"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	for _, session := range srv.Sessions() {
		fmt.Println(session.Connected, session.Ephemerals)
	}
	fmt.Println(srv.Requests()["create"])
	// Output:
	// /job-0000000000 <nil>
	// true [/job-0000000000]
	// 1
}

func ExamplePlan() {
	// The second create under /jobs is done, but its answer is lost.
	plan := zktest.NewPlan(zktest.Fault{
		Do: zktest.Drop, After: true, Op: "create", Path: "/jobs/*", Skip: 1,
	})
	srv, err := zktest.Start(zktest.WithPlan(plan))
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	fmt.Print(srv.Plan())
	// Output:
	// drop after create /jobs/* skip=1 times=1: matched 0, fired 0
}
