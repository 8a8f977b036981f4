// Package zktest is a ZooKeeper server inside the process, for tests of code
// that uses ZooKeeper:
//
//	srv := zktest.NewServer(t)
//	conn, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second)
//
// It speaks the protocol of a standalone server of version 3.8 to any client:
// sessions that expire, ephemeral, sequential and container znodes, watches of
// all kinds, multi, ACLs with digest authentication, sync, and the four-letter
// words ruok, srvr and mntr. It listens on loopback, or with InMemory on
// nothing at all; then it runs in a bubble of testing/synctest, where sessions
// expire in simulated time.
//
// go-zookeeper, kazoo 2.8 and Curator 5.4 with their recipes have been run on it.
//
// It is a test double: data is in memory only, there are no quotas, no
// SASL, no ensemble and no limits of load, and where it differs from
// a real server the real one is right.
package zktest
