package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var connectCases = []Case{
	{Name: "bounds of the timeout", Run: func(s *Script) {
		// A timeout outside the bounds becomes the nearest bound. A resumed
		// session negotiates again.
		ticks := func(n int32) int32 { return n * int32(s.server.TickTime.Milliseconds()) }
		for _, ask := range []int32{
			1, 0, -1, -1 << 31, 7 * 24 * 3600 * 1000, 1<<31 - 1, ticks(2), ticks(3), ticks(7), ticks(20), ticks(21),
		} {
			c := s.Handshake("c", ConnectRequest{Timeout: ask, ReadOnly: []byte{0}})
			s.Equal(min(max(ask, ticks(2)), ticks(20)), int32(c.Timeout.Milliseconds()), "negotiated")
		}
		a := s.Handshake("a", ConnectRequest{Timeout: ticks(5), ReadOnly: []byte{0}})
		b := s.Handshake("b", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: ticks(8), ReadOnly: []byte{0}})
		s.Equal(8*s.server.TickTime, b.Timeout, "negotiated again")
	}},
	{Name: "the byte for readOnly", Run: func(s *Script) {
		for _, tail := range [][]byte{nil, {0}, {1}, {2}, {0, 0}, {1, 2, 3}} {
			a := s.Handshake("a", ConnectRequest{Timeout: 5000, ReadOnly: tail})
			a.Drain()
			// The response has the byte only if the request has, whatever the
			// session's first request had.
			s.Handshake("b", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: 5000}).Drain()
			s.Handshake("c", ConnectRequest{Timeout: 5000, ID: 4711, ReadOnly: tail}).Closed()
		}
	}},
	{Name: "another version of the protocol", Run: func(s *Script) {
		for _, version := range []int32{1, -1, 1 << 30} {
			s.Handshake("a", ConnectRequest{Version: version, Timeout: 5000, ReadOnly: []byte{0}})
		}
	}},
	{Name: "a new session with another password", Run: func(s *Script) {
		for _, password := range [][]byte{{}, []byte("short"), make([]byte, 100)} {
			a := s.Handshake("a", ConnectRequest{Password: password, Timeout: 5000, ReadOnly: []byte{0}})
			s.Resume("b", a).Drain()
		}
	}},
	{Name: "a null password", Run: func(s *Script) {
		a := s.Dial("a")
		b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
		b = jute.AppendInt64(jute.AppendInt32(b, 5000), 0)
		a.Raw(jute.Frame(append(jute.AppendInt32(b, -1), 0)))
		s.Note("a > connect with a null password")
		frame, ok := a.frame()
		s.Note("%d bytes, %v", len(frame), ok)
		if ok {
			d := jute.NewDecoder(frame)
			d.Int32()
			d.Int32()
			a.ID, a.over = d.Int64(), false
			s.Note("a session: %v", a.ID != 0)
			a.End()
		}
	}},
	{Name: "a zxid that the server has not seen", Run: one(func(s *Script, a *Client) {
		last := a.Ok(SetData(s.Path(""), nil, -1)).Zxid
		s.Equal(false, s.Handshake("b", ConnectRequest{Timeout: 5000, LastZxidSeen: last, ReadOnly: []byte{0}}).dead, "the zxid of the server")
		s.Equal(true, s.Handshake("c", ConnectRequest{Timeout: 5000, LastZxidSeen: last + 1<<32, ReadOnly: []byte{0}}).dead, "closed without an answer")
		// The session's old connection is not affected.
		s.Equal(true, s.Handshake("d", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: 5000, LastZxidSeen: last + 1<<32, ReadOnly: []byte{0}}).dead, "closed")
		a.Ok(Exists(s.Path(""), false))
		s.Equal(false, s.Handshake("e", ConnectRequest{Timeout: 5000, LastZxidSeen: -1, ReadOnly: []byte{0}}).dead, "a negative zxid")
	})},
	{Name: "a request right after it", Run: one(func(s *Script, a *Client) {
		// The server reads no further until it has created the session.
		b := s.Dial("b")
		exists := Exists(s.Path(""), false)
		b.sent[7] = exists
		b.Raw(append(ConnectRequest{Timeout: 5000, ReadOnly: []byte{0}}.frame(), exists.frame(7)...))
		if _, ok := b.connected(); ok {
			b.Receive()
			b.End()
		}
		a.Drain()
	})},
	// The server takes the second one for a request. Its version is the xid, and the
	// upper half of lastZxidSeen is the operation, 0.
	broken("twice on a connection", ConnectRequest{Timeout: 5000, ReadOnly: []byte{0}}.frame()),
}
