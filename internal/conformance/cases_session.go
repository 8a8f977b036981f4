package conformance

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var sessionCases = []Case{
	{Name: "is resumed with id and password", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Ephemeral(n))
		a.Drop()
		again := s.Resume("a again", a)
		s.Equal(a.ID, again.ID, "the id")
		s.Equal(a.Password, again.Password, "the password")
		again.Ok(Exists(n, false))
		b.Ok(Exists(n, false))
	})},
	{Name: "moves while the old connection is open", Run: one(func(s *Script, a *Client) {
		a.Ok(Ephemeral(n))
		again := s.Resume("a again", a)
		a.Closed()
		again.Ok(Exists(n, false))
		third := s.Resume("a for the third time", again)
		again.Closed()
		third.Ok(Exists(n, false))
	})},
	{Name: "with a wrong password", Run: one(func(s *Script, a *Client) {
		a.Ok(Ephemeral(n))
		s.IsRefused(ConnectRequest{ID: a.ID, Password: []byte("0123456789abcdef"), Timeout: 5000})
		// A client that knows the id can interrupt a session, but not take it
		// over: the server closes the old connection before it checks the
		// password (ZooKeeperServer.processConnectRequest).
		a.Closed()
		for _, password := range [][]byte{{}, a.Password[:15]} {
			s.IsRefused(ConnectRequest{ID: a.ID, Password: password, Timeout: 5000})
		}
		s.Resume("a again", a).Ok(Exists(n, false))
	})},
	{Name: "that is closed or does not exist", Run: one(func(s *Script, a *Client) {
		a.End()
		s.HasEnded(a)
		for _, id := range []int64{1, -1, 0x7fffffffffffff} {
			s.IsRefused(ConnectRequest{ID: id, Timeout: 5000})
		}
	})},
	{Name: "gets the events of its own close", Run: one(func(s *Script, a *Client) {
		// The close is a transaction like any other. The server closes the
		// connection afterwards.
		a.Ok(Ephemeral(n), GetData(n, true), GetChildren(root, true))
		s.Equal([]Event{deleted(n), childrenChanged(root)}, a.Call(Close()).Events, "before the reply")
		a.Closed()
		a.over = true
	})},
	{Name: "with requests in flight before its close", Run: two(func(s *Script, a, b *Client) {
		a.SendTogether(Plain(n), Ephemeral("/case/e"), Multi(Ephemeral("/case/f"), Delete(n, -1)), GetChildren(root, false), Close())
		a.Closed()
		a.over = true
		b.Ok(GetChildren2(root, false))
	})},
	{Name: "with requests after its close", Run: two(func(s *Script, a, b *Client) {
		a.SendTogether(Close(), Plain(n))
		a.Receive()
		a.ClosedRefusing(jute.ErrSessionExpired) // a busy ZooKeeper's answer to the create may still come
		a.over = true
		// The refusal is a transaction that uses up a zxid. Another one settles that.
		b.Ok(Plain("/case/m"))
		b.Fails(jute.ErrNoNode, Exists(n, false))
	})},
	{Name: "closed deletes its ephemerals in one transaction", Run: two(func(s *Script, a, b *Client) {
		p, q := "/case/p", "/case/q"
		b.Ok(Plain(p), Plain(q))
		a.Ok(Ephemeral(p+"/e"), Ephemeral(q+"/e"), Plain(q+"/stays"))
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
		b.Ok(Plain(n))
		a.Ok(Ephemeral(m), Ephemeral(n+"/f"))
		b.Ok(Exists(m, true))
		sent := time.Now()
		b.Receive()
		s.Equal(true, time.Since(sent) > a.Timeout-2*s.server.TickTime, "not much before its timeout")
		a.Closed()
		st := b.Ok(GetChildren2(n, false)).Stat
		s.Equal(int32(0), st.NumChildren, "both are deleted")
		s.Equal(int32(4), st.Cversion, "cversion counts two creates and two deletes")
		s.HasEnded(a)
	}},
	{Name: "is kept alive by pings and by requests", Run: func(s *Script) {
		a := s.ConnectFor("a", int32(10*s.server.TickTime.Milliseconds()))
		a.Ok(Ephemeral(n))
		// A silent session expires within its timeout and a tick.
		end := time.Now().Add(a.Timeout + 2*s.server.TickTime)
		before := len(s.lines)
		for ping := true; time.Now().Before(end); ping = !ping {
			if ping {
				a.Drain()
			} else {
				a.Ok(Exists(n, false))
			}
			time.Sleep(s.server.TickTime / 2)
		}
		s.lines = s.lines[:before] // their number varies
		a.xid = 100
		a.Ok(Exists(n, false))
	}},
}
