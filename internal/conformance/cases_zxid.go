package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var zxidCases = []Case{
	// The header of a reply has the zxid of the last transaction that the server
	// has applied. For a write, even a failed one, that is its own transaction.
	{Name: "of replies", Run: two(func(s *Script, a, b *Client) {
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
	})},
	{Name: "how many each change uses", Exclusive: true, Run: one(func(s *Script, a *Client) {
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
		c := s.Handshake("c", ConnectRequest{ID: 4711, Timeout: 5000, ReadOnly: []byte{0}})
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
	})},
	{Name: "of znodes, after each kind of change", Run: one(func(s *Script, a *Client) {
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
	})},
	{Name: "of the events of changes", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		begin := func() {
			a.Ok(Create(n, nil, Open, 0))
			b.Ok(GetData(n, true))
			b.Ok(GetChildren(n, true))
		}
		b.Fails(jute.ErrNoNode, Exists(n, true))
		b.Ok(GetChildren(s.Path(""), true))
		change := a.Ok(Create(n, nil, Open, 0)).Zxid
		s.fired(b.Receive(), created(n), change)
		s.fired(b.Receive(), childrenChanged(s.Path("")), change)
		a.Ok(Delete(n, -1))

		// A connection with a data watch and a child watch gets one event of a deletion
		// (DataTree.deleteNode).
		begin()
		change = a.Ok(Delete(n, -1)).Zxid
		s.fired(b.Receive(), deleted(n), change)
		s.Equal(none, b.Drain(), "one event for both watches")

		begin()
		set, del := a.Ok(SetData(n, nil, -1)).Zxid, a.Ok(Delete(n, -1)).Zxid
		s.fired(b.Receive(), dataChanged(n), set)
		s.fired(b.Receive(), deleted(n), del)
		s.Equal(true, set < del, "two transactions")

		// The first event uses up the data watch, so that the second one is the child
		// watch's.
		begin()
		change = a.Ok(Multi(SetData(n, nil, -1), Delete(n, -1))).Zxid
		s.fired(b.Receive(), dataChanged(n), change)
		s.fired(b.Receive(), deleted(n), change)
		s.Equal(none, b.Drain(), "no more")
	})},
	{Name: "of the events of a session's end", Run: func(s *Script) {
		b := s.Connect("b")
		p, e := s.Path("p"), s.Path("p/e")
		b.Ok(Create(p, nil, Open, 0))
		for _, end := range []func(*Client){(*Client).End, (*Client).Drop} { // closed, expired
			a := s.ConnectFor("a", int32(10*s.server.TickTime.Milliseconds()))
			a.Ok(Create(e, nil, Open, jute.FlagEphemeral))
			b.Ok(GetData(e, true))
			b.Ok(GetChildren(e, true))
			b.Ok(GetChildren(p, true))
			end(a)
			first, second := b.Receive(), b.Receive()
			change := b.Ok(Exists(p, false)).Stat.Pzxid
			s.fired(first, deleted(e), change)
			s.fired(second, childrenChanged(p), change)
		}
	}},
	// setWatches knows no transaction, so its events have no zxid (DataTree.setWatches).
	{Name: "of the events of setWatches", Run: two(func(s *Script, a, b *Client) {
		n, gone := s.Path("n"), s.Path("gone")
		a.Ok(Create(n, nil, Open, 0))
		seen := a.Ok(Create2(gone, nil, Open, 0)).Zxid
		a.Ok(SetData(n, nil, -1))
		a.Ok(Create(n+"/m", nil, Open, 0))
		a.Ok(Delete(gone, -1))
		b.Send(SetWatches(seen, "before the changes", Watches{
			Data: []string{n, gone}, Exist: []string{n, gone}, Child: []string{n, gone}}))
		for _, e := range []Event{dataChanged(n), deleted(gone), created(n), childrenChanged(n), deleted(gone)} {
			s.fired(b.Receive(), e, -1)
		}
		s.Equal(none, b.Receive().Events, "the reply comes last")
		change := a.Ok(Create(gone, nil, Open, 0)).Zxid // the watch that did not fire
		s.fired(b.Receive(), created(gone), change)
	})},
	// The events of a transaction come before all replies whose header has its zxid or
	// a later one (DataTree.processTxn).
	{Name: "of events and of the replies after them", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(GetData(n, true))
		change := a.Ok(SetData(n, nil, -1)).Zxid
		b.Send(Exists(s.Path(""), false))
		s.fired(b.Receive(), dataChanged(n), change)
		if r := b.Receive(); !s.server.Shared {
			s.Equal(change, r.Zxid, "a read's reply")
		}

		b.SendTogether(GetData(n, true), GetChildren(n, true), SetData(n, nil, -1), Exists(n, true),
			Multi(SetData(n, nil, -1), Delete(n, -1)), Exists(n, false))
		var got []Reply
		for range 9 {
			got = append(got, b.Receive())
		}
		set, read, multi, last := got[3], got[4], got[7], got[8]
		s.fired(got[2], dataChanged(n), set.Zxid)
		s.Equal(set.Zxid, read.Stat.Mzxid, "the read sees the setData")
		s.fired(got[5], dataChanged(n), multi.Zxid)
		s.fired(got[6], deleted(n), multi.Zxid)
		s.Equal(true, set.Zxid < multi.Zxid && multi.Zxid <= last.Zxid, "in order")
	})},
}

// fired asserts that r is this event, with the zxid of a change in its header. Before
// 3.9 the header has none (ZOOKEEPER-4655).
func (s *Script) fired(r Reply, e Event, change int64) {
	s.t.Helper()
	if !s.Since(zktest.ZooKeeper39) {
		change = -1
	}
	s.Equal([]Event{e}, r.Events, "the event")
	s.Equal(change, r.Zxid, "the event's zxid")
}
