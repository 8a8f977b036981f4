package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var zxidCases = []Case{
	// The header of a reply has the zxid of the last transaction that the server
	// has applied. For a write, even a failed one, that is its own transaction.
	{Name: "of replies", Run: func(s *Script) {
		a, b := s.Connect("a"), s.Connect("b")
		n := s.Path("n")
		r := a.Ok(Create2(n, nil, Open, 0))
		s.Equal(r.Zxid, r.Stat.Czxid, "a write's own transaction")
		a.Ok(Exists(n, false))
		b.Ok(Exists(n, false))
		b.Drain()
		b.Fails(jute.ErrNoNode, GetData(s.Path("missing"), false))
		failed := a.Fails(jute.ErrNodeExists, Create(n, nil, Open, 0))
		after := b.Ok(Exists(n, false))
		if !s.server.Shared {
			s.Equal(r.Zxid+1, failed.Zxid, "a failed write is a transaction")
			s.Equal(failed.Zxid, after.Zxid, "and reads show it")
		}
		a.Call(Multi(Check(n, 7)))
		a.Call(Multi(Check(n, 0)))
		a.Ok(Sync(n))
		a.Drain()
		a.present("digest", "u:secret")
		a.Ok(SetWatches(0, "nothing", Watches{}))
		a.Fails(jute.ErrNoWatcher, CheckWatches(n, jute.WatcherAny))
		a.Ok(AddWatch(n, jute.WatchPersistent))
		a.Ok(SetData(n, nil, -1))
	}},
	{Name: "how many each change uses", Exclusive: true, Run: func(s *Script) {
		a := s.Connect("a")
		last := a.Ok(Exists(s.Path(""), false)).Zxid
		step := func(what string) {
			now := a.Ok(Exists(s.Path(""), false)).Zxid
			s.Note("%s: %d", what, now-last)
			last = now
		}
		b := s.Connect("b")
		step("a new session")
		b.Drop()
		b = s.Resume("b again", b)
		step("a resumed session")
		c := s.Dial("c")
		c.Handshake(ConnectRequest{ID: 4711, Timeout: 5000, ReadOnly: []byte{0}})
		c.Closed()
		step("a session that does not exist")
		b.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		step("create")
		b.End()
		step("a closed session")
		for _, r := range []Request{
			SetData(s.Path(""), nil, -1), SetData(s.Path(""), nil, 77), Create(s.Path("n"), nil, nil, 0),
			Create("", nil, Open, 0), SetData("", nil, -1), Delete("/", -1), Create(s.Path("n"), nil, Open, 99),
			SetACL(s.Path(""), Open, -1), SetACL(s.Path(""), nil, -1), Multi(Check(s.Path(""), 77)),
			Multi(), Multi(Check(s.Path(""), -1)), Multi(Check(s.Path(""), 77)),
			Multi(Create(s.Path("x"), nil, Open, 0), Create(s.Path("y"), nil, Open, 0), Delete(s.Path("x"), -1)),
			Sync(s.Path("")), GetData(s.Path("missing"), true), CreateTTL(s.Path("n"), nil, Open, jute.FlagTTL, 9),
		} {
			a.Call(r)
			step(r.Text)
		}
		if !s.Since(zktest.ZooKeeper39) {
			a.Call(Check(s.Path(""), 77))
			step("a check alone")
		}
	}},
	{Name: "of znodes, after each kind of change", Run: func(s *Script) {
		a := s.Connect("a")
		p := s.Path("p")
		a.Ok(Create(p, nil, Open, 0))
		a.Ok(Create(p+"/n", nil, Open, 0))
		look := func() {
			a.Ok(Exists(s.Path(""), false))
			a.Ok(GetChildren2(p, false))
			a.Call(Exists(p+"/n", false))
		}
		for _, r := range []Request{
			SetData(p+"/n", []byte("1"), -1), SetData(p, []byte("2"), -1), SetACL(p+"/n", Open, -1), SetACL(p, Open, -1),
			Create(p+"/n/m", nil, Open, 0), SetData(p+"/n/m", nil, -1), Delete(p+"/n/m", -1),
			CreateContainer(p+"/box", nil, Open, jute.FlagContainer), Delete(p+"/box", -1),
			Create(p+"/e-", nil, Open, jute.FlagEphemeralSequential), Delete(p+"/e-0000000002", -1),
			Delete(p+"/n", -1), Create(p+"/n", nil, Open, 0),
		} {
			a.Ok(r)
			look()
		}
	}},
}
