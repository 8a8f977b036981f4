package conformance

import "github.com/zkrecipes/zkrecipes/internal/jute"

// RestartCases are for a server of their own: after "data/check alone" a 3.8 server cannot start again,
// because it logs a transaction that it cannot read (SerializeUtils.deserializeTxn).
var RestartCases = []Case{
	{Name: "a session is resumed", Exclusive: true, Run: one(func(s *Script, a *Client) {
		p := s.Path("p")
		a.Ok(Create(p, nil, Open, 0))
		a.Ok(Create(p+"/n-", nil, Open, jute.FlagSequential))
		a.Ok(Create(p+"/e-", nil, Open, jute.FlagEphemeralSequential))
		a.Ok(Delete(p+"/n-0000000000", -1))
		a.Ok(GetData(p, true))
		seen := a.Ok(Exists(p, false)).Zxid
		s.Fail(s.server.Restart(), "restart")
		a.Closed()
		again := s.Handshake("a again", ConnectRequest{ID: a.ID, Password: a.Password, Timeout: int32(a.Timeout.Milliseconds()), LastZxidSeen: seen, ReadOnly: []byte{0}})
		again.Ok(GetChildren2(p, false))
		again.Ok(SetData(p, nil, -1)) // fires no watch
		again.Ok(Create(p+"/n-", nil, Open, jute.FlagSequential))
		again.Ok(Exists(p+"/e-0000000001", false))
	})},
	{Name: "a container that had a child within the transaction that created it", Exclusive: true, Run: one(func(s *Script, a *Client) {
		box := s.Path("box")
		a.Ok(Multi(append(hadChild(box), Create(box+"/n-", nil, Open, jute.FlagSequential))...))
		for range 2 { // by the log, and by a snapshot
			s.Fail(s.server.Restart(), "restart")
		}
		a.Closed()
		b := s.Connect("b")
		b.Ok(GetData(box, false))
		b.Ok(GetChildren2(box, false))
		b.Ok(Create(box+"/n-", nil, Open, jute.FlagSequential))
		b.Ok(AddWatch(box, jute.WatchPersistentRecursive))
		b.Ok(Delete(box+"/n-0000000001", -1))
		b.Ok(Delete(box+"/n-0000000002", -1))
		b.Receive() // it is reaped
		b.Fails(jute.ErrNoNode, Exists(box, false))
	})},
}
