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
package zkconn
