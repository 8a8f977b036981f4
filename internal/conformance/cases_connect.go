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
			c := s.Dial("c")
			c.Handshake(ConnectRequest{Timeout: ask, ReadOnly: []byte{0}})
			s.Equal(min(max(ask, ticks(2)), ticks(20)), int32(c.Timeout.Milliseconds()), "negotiated")
		}
		a := s.Dial("a")
		a.Handshake(ConnectRequest{Timeout: ticks(5), ReadOnly: []byte{0}})
		b := s.Dial("b")
		b.Handshake(ConnectRequest{ID: a.ID, Password: a.Password, Timeout: ticks(8), ReadOnly: []byte{0}})
		s.Equal(8*s.server.TickTime, b.Timeout, "negotiated again")
	}},
	{Name: "the byte for readOnly", Run: func(s *Script) {
		for _, tail := range [][]byte{nil, {0}, {1}, {2}, {0, 0}, {1, 2, 3}} {
			a := s.Dial("a")
			a.Handshake(ConnectRequest{Timeout: 5000, ReadOnly: tail})
			a.Drain()
			// The response has the byte only if the request has, whatever the
			// session's first request had.
			b := s.Dial("b")
			b.Handshake(ConnectRequest{ID: a.ID, Password: a.Password, Timeout: 5000})
			b.Drain()
			c := s.Dial("c")
			c.Handshake(ConnectRequest{Timeout: 5000, ID: 4711, ReadOnly: tail})
			c.Closed()
		}
	}},
	{Name: "another version of the protocol", Run: func(s *Script) {
		for _, version := range []int32{1, -1, 1 << 30} {
			a := s.Dial("a")
			a.Handshake(ConnectRequest{Version: version, Timeout: 5000, ReadOnly: []byte{0}})
		}
	}},
	{Name: "a new session with another password", Run: func(s *Script) {
		for _, password := range [][]byte{{}, []byte("short"), make([]byte, 100)} {
			a := s.Dial("a")
			a.Handshake(ConnectRequest{Password: password, Timeout: 5000, ReadOnly: []byte{0}})
			b := s.Resume("b", a)
			b.Drain()
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
	{Name: "a zxid that the server has not seen", Run: func(s *Script) {
		a := s.Connect("a")
		last := a.Ok(SetData(s.Path(""), nil, -1)).Zxid
		b := s.Dial("b")
		s.Equal(true, b.Handshake(ConnectRequest{Timeout: 5000, LastZxidSeen: last, ReadOnly: []byte{0}}), "the zxid of the server")
		c := s.Dial("c")
		s.Equal(false, c.Handshake(ConnectRequest{Timeout: 5000, LastZxidSeen: last + 1<<32, ReadOnly: []byte{0}}), "closed without an answer")
		// The session's old connection is not affected.
		d := s.Dial("d")
		s.Equal(false, d.Handshake(ConnectRequest{ID: a.ID, Password: a.Password, Timeout: 5000, LastZxidSeen: last + 1<<32, ReadOnly: []byte{0}}), "closed")
		a.Ok(Exists(s.Path(""), false))
		e := s.Dial("e")
		s.Equal(true, e.Handshake(ConnectRequest{Timeout: 5000, LastZxidSeen: -1, ReadOnly: []byte{0}}), "a negative zxid")
	}},
	{Name: "a request right after it", Run: func(s *Script) {
		// The server reads no further until it has created the session.
		a := s.Connect("a")
		b := s.Dial("b")
		connectFrame := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
		connectFrame = jute.AppendInt64(jute.AppendInt32(connectFrame, 5000), 0)
		connectFrame = jute.Frame(append(jute.AppendBuffer(connectFrame, make([]byte, 16)), 0))
		exists := Exists(s.Path(""), false)
		request := jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, 7), exists.Op), exists.Body...))
		b.sent[7] = exists
		b.Raw(append(connectFrame, request...))
		frame, ok := b.frame()
		if ok {
			d := jute.NewDecoder(frame)
			d.Int64()
			b.ID = d.Int64()
			b.Receive()
			b.End()
		}
		a.Drain()
	}},
	{Name: "twice on a connection", Run: func(s *Script) {
		// The server takes the second one for a request. Its version is the
		// xid, and the upper half of lastZxidSeen is the operation, 0.
		a := s.Connect("a")
		connectFrame := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
		connectFrame = jute.AppendInt64(jute.AppendInt32(connectFrame, 5000), 0)
		a.Raw(jute.Frame(append(jute.AppendBuffer(connectFrame, make([]byte, 16)), 0)))
		a.Closed()
	}},
}
