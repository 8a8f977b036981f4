package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var connectCases = []Case{
	{Name: "bounds of the timeout", Run: func(s *Script) {
		// Out of them it is the nearest one. The Resume asks anew, and gets
		// what it asks for.
		for _, ask := range []int32{1, 0, -1, -1 << 31, 7 * 24 * 3600 * 1000, 1<<31 - 1} {
			s.Dial("c").Hello(Hello{Timeout: ask, ReadOnly: []byte{0}})
		}
		ticks := func(n int32) int32 { return n * int32(s.server.TickTime.Milliseconds()) }
		for _, n := range []int32{2, 3, 7, 20, 21} {
			s.Dial("c").Hello(Hello{Timeout: ticks(n), ReadOnly: []byte{0}})
		}
		a := s.Dial("a")
		a.Hello(Hello{Timeout: ticks(5), ReadOnly: []byte{0}})
		b := s.Dial("b")
		b.Hello(Hello{ID: a.ID, Password: a.Password, Timeout: ticks(8), ReadOnly: []byte{0}})
		s.Equal(8*s.server.TickTime, b.Timeout, "negotiated anew")
	}},
	{Name: "the byte for readOnly", Run: func(s *Script) {
		for _, tail := range [][]byte{nil, {0}, {1}, {2}, {0, 0}, {1, 2, 3}} {
			a := s.Dial("a")
			a.Hello(Hello{Timeout: 5000, ReadOnly: tail})
			a.Drain()
			// Who did not send it gets none, also when the session had one.
			b := s.Dial("b")
			b.Hello(Hello{ID: a.ID, Password: a.Password, Timeout: 5000})
			b.Drain()
			c := s.Dial("c")
			c.Hello(Hello{Timeout: 5000, ID: 4711, ReadOnly: tail})
			c.Closed()
		}
	}},
	{Name: "another version of the protocol", Run: func(s *Script) {
		for _, version := range []int32{1, -1, 1 << 30} {
			a := s.Dial("a")
			a.Hello(Hello{Version: version, Timeout: 5000, ReadOnly: []byte{0}})
		}
	}},
	{Name: "a new session with another password", Run: func(s *Script) {
		for _, password := range [][]byte{{}, []byte("short"), make([]byte, 100)} {
			a := s.Dial("a")
			a.Hello(Hello{Password: password, Timeout: 5000, ReadOnly: []byte{0}})
			b := s.Resume("b", a)
			b.Drain()
		}
	}},
	{Name: "no password at all", Run: func(s *Script) {
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
	{Name: "having seen what the server has not", Run: func(s *Script) {
		a := s.Connect("a")
		last := a.Ok(SetData(s.Path(""), nil, -1)).Zxid
		b := s.Dial("b")
		s.Equal(true, b.Hello(Hello{Timeout: 5000, LastZxidSeen: last, ReadOnly: []byte{0}}), "as far as the server")
		c := s.Dial("c")
		s.Equal(false, c.Hello(Hello{Timeout: 5000, LastZxidSeen: last + 1<<32, ReadOnly: []byte{0}}), "closed without a word")
		// The session's old connection is none the worse for it.
		d := s.Dial("d")
		s.Equal(false, d.Hello(Hello{ID: a.ID, Password: a.Password, Timeout: 5000, LastZxidSeen: last + 1<<32, ReadOnly: []byte{0}}), "closed")
		a.Ok(Exists(s.Path(""), false))
		e := s.Dial("e")
		s.Equal(true, e.Hello(Hello{Timeout: 5000, LastZxidSeen: -1, ReadOnly: []byte{0}}), "a negative one")
	}},
	{Name: "requests right behind it", Run: func(s *Script) {
		// The server reads no further until the session is made.
		a := s.Connect("a")
		b := s.Dial("b")
		hello := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
		hello = jute.AppendInt64(jute.AppendInt32(hello, 5000), 0)
		hello = jute.Frame(append(jute.AppendBuffer(hello, make([]byte, 16)), 0))
		exists := Exists(s.Path(""), false)
		request := jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, 7), exists.Op), exists.Body...))
		b.sent[7] = exists
		b.Raw(append(hello, request...))
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
		// The second one is taken for a request: its version for the xid and
		// the upper half of lastZxidSeen for the operation, 0.
		a := s.Connect("a")
		hello := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
		hello = jute.AppendInt64(jute.AppendInt32(hello, 5000), 0)
		a.Raw(jute.Frame(append(jute.AppendBuffer(hello, make([]byte, 16)), 0)))
		a.Closed()
	}},
}
