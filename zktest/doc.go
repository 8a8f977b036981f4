// Package zktest runs a ZooKeeper server inside the process, for tests of code
// that uses ZooKeeper. One line starts a server that stops when the test ends:
//
//	srv := zktest.NewServer(t)
//	conn, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second)
//
// Outside a test, use [Start] and [Server.Close].
//
// # What it emulates
//
// The server speaks the protocol of a standalone ZooKeeper 3.9 server, to any client:
// sessions that expire, ephemeral, sequential and container znodes, watches of all kinds,
// multi, ACLs with digest authentication, SASL by DIGEST-MD5, and sync. It listens on a
// free port of the loopback interface. It answers the four-letter words ruok, srvr, stat,
// mntr, isro, envi, conf, cons, dump and wchs, and closes the connection at any other. A
// real server answers only srvr, unless 4lw.commands.whitelist has others. Use options to
// change what depends on a real server's configuration, and [Emulate] for ZooKeeper 3.8.
//
// go-zookeeper, kazoo 2.8 and Curator 5.4 have been run against it, with their
// recipes.
//
// # What it does not emulate
//
// The server is a test double. It keeps data in memory only. It has no quotas,
// no Kerberos, no ensemble and no limits of load. A [Lag] fault imitates a follower
// that is behind its leader. Where zktest differs from a real server, the real
// server is right.
//
// # A server of its own
//
// The command zktest/zkserver runs a server in a process of its own, for tests in
// other languages:
//
//	go run github.com/zkrecipes/zkrecipes/zktest/zkserver@latest -listen 127.0.0.1:2181
//
// # Faults on demand
//
// [Server.Expire] and [Server.ExpireWithEvents] expire a session and [Server.Disconnect]
// closes its connection, at once. [Server.Stop] and [Server.Restart] restart the server; data
// and sessions survive that as they survive the restart of a real one. [Server.Restore] makes
// the server lose all transactions since a [Server.Snapshot], as an ensemble does that loses its
// disks. A [Plan]
// makes the server fail at chosen requests: it loses requests or replies, delays
// them, replaces them with errors, expires sessions, refuses connections, or
// serves stale reads. Pass a plan to [WithPlan], or add a [Fault] to that of a
// running server with [Server.Plan] and [Plan.Add]. [PlanFromSeed] makes a random
// plan that can be repeated.
//
// # Simulated time
//
// With [InMemory] the server opens no socket and runs in a bubble of
// testing/synctest. Sessions expire in simulated time there, so a session
// timeout of ten seconds costs milliseconds. Start the server and the client inside the
// bubble, and give the client the server's dialer: [Server.DialContext] as Options.Dialer of
// zkrecipes, [Server.Dial] to go-zookeeper (zk.WithDialer).
package zktest
