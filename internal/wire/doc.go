// Package wire implements the net.Conn that go-zookeeper uses in place of the TCP or TLS connection.
// go-zookeeper dials, makes the handshake and sends pings; wire sends all requests, and makes up for what
// go-zookeeper v1.0.4 lacks: it presents credentials before any request (handshake.go, login.go), keeps
// requests back until the watches are set again (gate.go), never replaces a session that has ended by a
// new one, and knows until when the session is known to be alive (receive.go). A [Session] outlives its
// connections, each of which is a [Conn].
//
// A request is a [Call] (send.go), whose reply is matched in receive.go. What is go-zookeeper's own
// passes through relay.go.
//
// # Invariants
//
// Without any of these, a lease is believed too long, a write is sent twice, or an event is missed.
//
//   - W1: On a resumed connection requests wait until each watch is set again and the session's znodes
//     were compared: else a watch that a reply sets would race with those that are being set again, and a
//     server that has lost transactions would be believed.
//   - W2: All frames take effect in the order in which they came, and one for go-zookeeper when it has
//     asked for the last byte.
//   - W3: A session has one id. A handshake that names another fails.
//   - W4: An answer proves that the session was alive when the request was sent, not later. Behind a
//     closed gate it counts once the gate opens.
//   - W5: A Call is written to its connection, once, or fails with ErrNotSent. Calls fail after
//     Config.Down has returned, so that a caller that repeats one waits for the next connection.
//   - W6: Watches are set again from the zxid of the last reply, never from that of an event: others of
//     the same transaction may be yet to come.
//   - W7: A client that has sent nothing for most of its timeout makes a new handshake before it sends
//     anything: a follower answers pings that the leader never hears of.
//   - W8: Write never fails. go-zookeeper learns from Read that a connection is lost.
package wire
