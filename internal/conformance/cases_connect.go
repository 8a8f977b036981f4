package conformance

var connectCases = []Case{
	{Name: "bounds of the timeout", Run: func(s *Script) {
		// A timeout outside the bounds becomes the nearest bound. A resumed
		// session negotiates again.
		ticks := func(n int32) int32 { return n * int32(s.server.TickTime.Milliseconds()) }
		for _, ask := range []int32{
			1, 0, -1, -1 << 31, 7 * 24 * 3600 * 1000, 1<<31 - 1, ticks(2), ticks(3), ticks(7), ticks(20), ticks(21),
		} {
			c := s.Handshake("c", ConnectRequest{Timeout: ask})
			s.Equal(min(max(ask, ticks(2)), ticks(20)), int32(c.Timeout.Milliseconds()), "negotiated")
		}
		a := s.Handshake("a", ConnectRequest{Timeout: ticks(5)})
		b := s.Handshake("b", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: ticks(8)})
		s.Equal(8*s.server.TickTime, b.Timeout, "negotiated again")
	}},
	{Name: "the byte for readOnly", Run: func(s *Script) {
		for _, tail := range [][]byte{{}, {0}, {1}, {2}, {0, 0}, {1, 2, 3}} {
			a := s.Handshake("a", ConnectRequest{Timeout: 5000, ReadOnly: tail})
			a.Drain()
			// The response has the byte only if the request has, whatever the
			// session's first request had.
			s.Handshake("b", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: 5000, ReadOnly: []byte{}}).Drain()
			s.IsRefused(ConnectRequest{Timeout: 5000, ID: 4711, ReadOnly: tail})
		}
	}},
	{Name: "another version of the protocol", Run: func(s *Script) {
		for _, version := range []int32{1, -1, 1 << 30} {
			s.Handshake("a", ConnectRequest{Version: version, Timeout: 5000})
		}
	}},
	{Name: "a new session with another password", Run: func(s *Script) {
		for _, password := range [][]byte{{}, []byte("short"), make([]byte, 100)} {
			a := s.Handshake("a", ConnectRequest{Password: password, Timeout: 5000})
			s.Resume("b", a).Drain()
		}
	}},
	{Name: "a null password", Run: func(s *Script) {
		a := s.Dial("a")
		b := ConnectRequest{Timeout: 5000, Password: []byte{}}.Frame()
		copy(b[len(b)-5:], []byte{0xff, 0xff, 0xff, 0xff}) // the length of the password
		a.Raw(b)
		answer, ok := a.connected()
		s.Note("%v, %s", ok, answer)
		if ok {
			a.End()
		}
	}},
	{Name: "a zxid that the server has not seen", Run: one(func(s *Script, a *Client) {
		last := a.Ok(SetData(root, nil, -1)).Zxid
		isClosed := func(seen int64, c ConnectRequest) bool {
			c.LastZxidSeen = seen
			return s.Handshake("b", c).dead
		}
		s.Equal(false, isClosed(last, ConnectRequest{Timeout: 5000}), "the zxid of the server")
		s.Equal(true, isClosed(last+1<<32, ConnectRequest{Timeout: 5000}), "closed without an answer")
		// The session's old connection is not affected.
		s.Equal(true, isClosed(last+1<<32, a.resumption()), "closed")
		a.Ok(Exists(root, false))
		s.Equal(false, isClosed(-1, ConnectRequest{Timeout: 5000}), "a negative zxid")
	})},
	{Name: "a request right after it", Run: one(func(s *Script, a *Client) {
		// The server reads no further until it has created the session.
		b := s.Dial("b")
		b.Raw(append(ConnectRequest{Timeout: 5000}.Frame(), b.frameOf(7, Exists(root, false))...))
		if _, ok := b.connected(); ok {
			b.Receive()
			b.End()
		}
		a.Drain()
	})},
	// The server takes the second one for a request. Its version is the xid, and the
	// upper half of lastZxidSeen is the operation, 0.
	broken("twice on a connection", ConnectRequest{Timeout: 5000}.Frame()),
}
