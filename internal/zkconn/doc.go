// Package zkconn runs one ZooKeeper session on one go-zookeeper Conn. It knows nothing of lines, grants
// or recipes. Its owner passes functions in a [Config] and is called back through them.
//
// # Requests
//
// A transaction is built, counted in the account, and sent on the connection on which requests pass
// (transaction.go, account.go, session.go). Package wire writes it and matches the reply, which becomes
// an [Outcome]. Reads go the same way (read.go). A [Watch] (watch.go) is set by a read, and again on the
// next connection. A [PredecessorWatch] (predecessor.go) and a [TreeWatch] (tree.go) end with their
// connection. [Retry] repeats a transaction until its outcome is known.
//
// # The session
//
// go-zookeeper calls the dialer (dial.go) in a loop. It chooses among the servers (hosts.go,
// servers.go), keeps the pace, and holds the loop once the session has ended (life.go). What servers do
// wrong has a file each: they refuse for now (refusals.go), close the connection at a large request
// (killer.go), answer and do not serve (giveup.go), or have lost transactions (rollback.go).
//
// # Invariants
//
// Without any of these, a write is carried out twice or in the wrong session, an event is missed, or a
// session that nobody uses keeps its znodes.
//
//   - Z1: A request is sent on one connection or not at all, and never in a later session. go-zookeeper
//     would open the next session in the same Conn, so the dialer never returns to it after the end.
//   - Z2: What may have been carried out is sent again only if the answer then tells whether it was. A
//     reply that makes no sense is a lost one.
//   - Z3: The account counts a znode from before its creation is sent, and notes the outcome in the
//     order of the replies, whether or not somebody waits.
//   - Z4: A watch is in the table before its request is sent, and fires before its event is passed on,
//     in the order in which the events came over the connection.
//   - Z5: That a znode was released is believed only if both of its watches were answered, by events
//     that bear one zxid, on the connection on which the watches were set.
//   - Z6: Before the owner is told that requests pass, or no longer do, the state says so. Both are
//     told in the order in which they happened.
//   - Z7: A session ends once: from then on there is a cause, no connection is made, and no request
//     begins.
//   - Z8: No call of go-zookeeper is under way when Conn.Close is called: anything else is a data race in
//     go-zookeeper. There is none at all.
//   - Z9: A session that no server serves is closed, but not before ValidUntil has passed: until then
//     its leases are believed.
//
// # go-zookeeper
//
// These faults of v1.0.4 are the reasons for some of the code. What is fixed there can go here.
//
//   - After a session has expired, a Conn opens another one and sends it what is queued (dial).
//   - It dials without a pause, and does not notice meanwhile that it was closed (pace, endLoop).
//   - Before it dials the first server of its list again, it fails what is queued and sleeps for a
//     second. Close takes a second while disconnected. Names are resolved once (provider).
//   - It dials servers that are behind the session's zxid forever (wire.Session.Probe).
//   - It notices a silent server after two thirds of the timeout, and at first after seven timeouts
//     (wire/receive.go).
//   - It returns errors of the socket to callers, and may hang if a write fails during Close (W8).
//   - It hangs if the connection is lost while it presents credentials again, and panics if the server
//     grants a timeout of 0 (wire/handshake.go).
package zkconn
