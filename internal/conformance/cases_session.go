package conformance

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var sessionCases = []Case{
	{Name: "is resumed with id and password", Run: func(s *Script) {
		a, c := s.Connect("a"), s.Connect("c")
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		a.Drop()
		again := s.Resume("a again", a)
		s.Equal(a.ID, again.ID, "the id")
		s.Equal(a.Password, again.Password, "the password")
		again.Ok(Exists(s.Path("e"), false))
		c.Ok(Exists(s.Path("e"), false))
	}},
	{Name: "moves while the old connection is open", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		again := s.Resume("a again", a)
		a.Closed()
		again.Ok(Exists(s.Path("e"), false))
		third := s.Resume("a for the third time", again)
		again.Closed()
		third.Ok(Exists(s.Path("e"), false))
	})},
	{Name: "with a wrong password", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		wrong := s.Handshake("wrong", ConnectRequest{ID: a.ID, Password: []byte("0123456789abcdef"), Timeout: 5000, ReadOnly: []byte{0}})
		s.Equal(int64(0), wrong.ID, "no session")
		wrong.Closed()
		// A client that knows the id can interrupt a session, but not take it
		// over: the server closes the old connection before it checks the
		// password (ZooKeeperServer.processConnectRequest).
		a.Closed()
		again := s.Resume("a again", a)
		again.Ok(Exists(s.Path("e"), false))
	})},
	{Name: "with no password", Run: one(func(s *Script, a *Client) {
		a.Drop()
		empty := s.Handshake("empty", ConnectRequest{ID: a.ID, Password: []byte{}, Timeout: 5000, ReadOnly: []byte{0}})
		empty.Closed()
		short := s.Handshake("short", ConnectRequest{ID: a.ID, Password: a.Password[:15], Timeout: 5000, ReadOnly: []byte{0}})
		short.Closed()
		s.Resume("a again", a).Drain()
	})},
	{Name: "that does not exist", Run: func(s *Script) {
		s.Connect("a")
		for _, id := range []int64{1, -1, 0x7fffffffffffff} {
			c := s.Handshake("c", ConnectRequest{ID: id, Timeout: 5000, ReadOnly: []byte{0}})
			s.Equal(int64(0), c.ID, "no session")
			c.Closed()
		}
	}},
	{Name: "that is closed", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		id, password := a.ID, a.Password
		a.End()
		c := s.Handshake("c", ConnectRequest{ID: id, Password: password, Timeout: 5000, ReadOnly: []byte{0}})
		s.Equal(int64(0), c.ID, "no session")
		c.Closed()
	})},
	{Name: "gets the events of its own close", Run: one(func(s *Script, a *Client) {
		// The close is a transaction like any other. The server closes the
		// connection afterwards.
		e := s.Path("e")
		a.Ok(Create(e, nil, Open, jute.FlagEphemeral))
		a.Ok(GetData(e, true))
		a.Ok(GetChildren(s.Path(""), true))
		r := a.Call(Close())
		s.Equal([]Event{deleted(e), childrenChanged(s.Path(""))}, r.Events, "before the reply")
		a.Closed()
		a.over = true
	})},
	{Name: "with requests in flight before its close", Run: two(func(s *Script, a, b *Client) {
		a.Send(Create(s.Path("n"), nil, Open, 0))
		a.Send(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		a.Send(Multi(Create(s.Path("f"), nil, Open, jute.FlagEphemeral), Delete(s.Path("n"), -1)))
		a.Send(GetChildren(s.Path(""), false))
		a.Send(Close())
		a.Closed()
		a.over = true
		b.Ok(GetChildren2(s.Path(""), false))
	})},
	{Name: "with requests after its close", Run: two(func(s *Script, a, b *Client) {
		a.SendTogether(Close(), Create(s.Path("n"), nil, Open, 0))
		a.Receive()
		a.ClosedRefusing(jute.ErrSessionExpired) // a busy ZooKeeper's answer to the create may still come
		a.over = true
		// The refusal is a transaction that uses up a zxid. Another one settles that.
		b.Ok(Create(s.Path("m"), nil, Open, 0))
		b.Fails(jute.ErrNoNode, Exists(s.Path("n"), false))
	})},
	{Name: "closed deletes its ephemerals in one transaction", Run: two(func(s *Script, a, b *Client) {
		p, q := s.Path("p"), s.Path("q")
		b.Ok(Create(p, nil, Open, 0))
		b.Ok(Create(q, nil, Open, 0))
		a.Ok(Create(p+"/e", nil, Open, jute.FlagEphemeral))
		a.Ok(Create(q+"/e", nil, Open, jute.FlagEphemeral))
		a.Ok(Create(q+"/stays", nil, Open, 0))
		before := b.Ok(Exists(q, false)).Stat
		a.End()
		one, two := b.Ok(Exists(p, false)).Stat, b.Ok(GetChildren2(q, false)).Stat
		s.Equal(one.Pzxid, two.Pzxid, "one transaction")
		s.Equal(before.Cversion+1, two.Cversion, "cversion counts a delete")
		s.Equal(int32(1), two.NumChildren, "one is left")
	})},
	{Name: "expires", Run: func(s *Script) {
		b := s.Connect("b")
		a := s.ConnectFor("a", int32(10*s.server.TickTime.Milliseconds()))
		b.Ok(Create(s.Path("p"), nil, Open, 0))
		a.Ok(Create(s.Path("p/e"), nil, Open, jute.FlagEphemeral))
		a.Ok(Create(s.Path("p/f"), nil, Open, jute.FlagEphemeral))
		b.Ok(Exists(s.Path("p/e"), true))
		sent := time.Now()
		b.Receive()
		s.Equal(true, time.Since(sent) > a.Timeout-2*s.server.TickTime, "not much before its timeout")
		a.Closed()
		st := b.Ok(GetChildren2(s.Path("p"), false)).Stat
		s.Equal(int32(0), st.NumChildren, "both are deleted")
		s.Equal(int32(4), st.Cversion, "cversion counts two creates and two deletes")
		c := s.Handshake("c", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: 5000, ReadOnly: []byte{0}})
		s.Equal(int64(0), c.ID, "no session")
		c.Closed()
	}},
	{Name: "is kept alive by pings and by requests", Run: func(s *Script) {
		a := s.ConnectFor("a", int32(10*s.server.TickTime.Milliseconds()))
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		// A silent session expires within its timeout and a tick.
		end := time.Now().Add(a.Timeout + 2*s.server.TickTime)
		before := len(s.lines)
		for n := 0; time.Now().Before(end); n++ {
			if n%2 == 0 {
				a.Drain()
			} else {
				a.Ok(Exists(s.Path("e"), false))
			}
			time.Sleep(s.server.TickTime / 2)
		}
		s.lines = s.lines[:before] // their number varies
		a.xid = 100
		a.Ok(Exists(s.Path("e"), false))
	}},
}
