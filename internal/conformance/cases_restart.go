package conformance

import "github.com/zkrecipes/zkrecipes/internal/jute"

// RestartCases are for a server of their own: after "data/check alone" a 3.8 server cannot start again,
// because it logs a transaction that it cannot read (SerializeUtils.deserializeTxn).
var RestartCases = []Case{
	{Name: "restart/a session is resumed", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Sequential(n+"/n-"), EphemeralSequential(n+"/e-"), Delete(n+"/n-0000000000", -1), GetData(n, true))
		resumption := a.resumption()
		resumption.LastZxidSeen = a.Ok(Exists(n, false)).Zxid
		s.Fail(s.server.Restart(), "restart")
		a.Closed()
		again := s.Handshake("a again", resumption)
		s.Equal(a.ID, again.ID, "the session")
		again.Ok(GetChildren2(n, false))
		r := again.Ok(SetData(n, nil, -1))
		s.Equal([]Event(nil), r.Events, "watches are gone")
		s.Equal(true, r.Zxid > resumption.LastZxidSeen, "zxids go on")
		s.Equal(n+"/n-0000000002", again.Ok(Sequential(n+"/n-")).Path, "the next number")
		again.Ok(Exists(n+"/e-0000000001", false))
	})},
	{Name: "restart/a container that had a child within the transaction that created it", Run: one(func(s *Script, a *Client) {
		box := "/case/box"
		a.Ok(Multi(append(hadChild(box), Sequential(box+"/n-"))...))
		for range 2 { // by the log, and by a snapshot
			s.Fail(s.server.Restart(), "restart")
		}
		a.Closed()
		b := s.Connect("b")
		b.Ok(GetData(box, false), GetChildren2(box, false), Sequential(box+"/n-"), AddWatch(box, jute.WatchPersistentRecursive))
		b.Ok(Delete(box+"/n-0000000001", -1), Delete(box+"/n-0000000002", -1))
		b.Receive() // it is reaped
		b.Fails(jute.ErrNoNode, Exists(box, false))
	})},
}
