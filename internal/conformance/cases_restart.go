package conformance

import "github.com/zkrecipes/zkrecipes/internal/jute"

// These cases come first. After "data/check alone" a 3.8 server cannot start again,
// because it logs a transaction that it cannot read (SerializeUtils.deserializeTxn).
var restartCases = []Case{
	{Name: "a session is resumed", Exclusive: true, Run: func(s *Script) {
		a := s.Connect("a")
		p := s.Path("p")
		a.Ok(Create(p, nil, Open, 0))
		a.Ok(Create(p+"/n-", nil, Open, jute.FlagSequential))
		a.Ok(Create(p+"/e-", nil, Open, jute.FlagEphemeralSequential))
		a.Ok(Delete(p+"/n-0000000000", -1))
		a.Ok(GetData(p, true))
		seen := a.Ok(Exists(p, false)).Zxid
		s.Fail(s.server.Restart(), "restart")
		a.Closed()
		again := s.Dial("a again")
		again.Handshake(ConnectRequest{ID: a.ID, Password: a.Password, Timeout: int32(a.Timeout.Milliseconds()), LastZxidSeen: seen, ReadOnly: []byte{0}})
		again.Ok(GetChildren2(p, false))
		again.Ok(SetData(p, nil, -1)) // fires no watch
		again.Ok(Create(p+"/n-", nil, Open, jute.FlagSequential))
		again.Ok(Exists(p+"/e-0000000001", false))
	}},
}
