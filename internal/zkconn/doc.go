// Package zkconn runs one ZooKeeper session on one go-zookeeper Conn: dialing,
// reads, watches, transactions, and the session's end. It knows nothing of
// lines, grants or recipes. Its owner passes functions in a [Config] and is
// called back through them.
//
// A request is sent on one connection or not at all, and never in a later
// session. Reads and transactions are repeated until they are answered, the
// caller's context ends, or the session does ([ErrSessionOver]).
package zkconn
