package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var zxidCases = []Case{
	// The header of a reply has the zxid of the last transaction that the server
	// has applied. For a write, even a failed one, that is its own transaction.
	{Name: "of replies", Run: two(func(s *Script, a, b *Client) {
		r := a.Ok(Create2(n, nil, Open, 0))
		s.Equal(r.Zxid, r.Stat.Czxid, "a write's own transaction")
		a.Ok(Exists(n, false))
		b.Ok(Exists(n, false))
		b.Drain()
		b.Fails(jute.ErrNoNode, GetData("/case/missing", false))
		failed := a.Fails(jute.ErrNodeExists, Plain(n))
		s.Equal(r.Zxid+1, failed.Zxid, "a failed write is a transaction")
		s.Equal(failed.Zxid, b.Ok(Exists(n, false)).Zxid, "and reads show it")
		// Since 3.9 the server decodes most writes before they get a zxid.
		short, took := Delete(n, -1), int64(1)
		short.Body = short.Body[:len(short.Body)-1]
		if s.Since(zktest.ZooKeeper39) {
			took = 0
		}
		s.Equal(failed.Zxid+took, a.Fails(jute.ErrMarshalling, short).Zxid, "of a malformed write")
		a.Call(Multi(Check(n, 7)), Multi(Check(n, 0)))
		a.Ok(Sync(n))
		a.Drain()
		a.present("digest", "u:secret")
		a.Ok(SetWatches(0, "nothing", Watches{}))
		a.Fails(jute.ErrNoWatcher, CheckWatches(n, jute.WatcherAny))
		a.Ok(AddWatch(n, jute.WatchPersistent), SetData(n, nil, -1))
	})},
	{Name: "how many each change uses", Run: one(func(s *Script, a *Client) {
		last := a.Ok(Exists(root, false)).Zxid
		step := func(what string) {
			now := a.Ok(Exists(root, false)).Zxid
			s.Note("%s: %d", what, now-last)
			last = now
		}
		b := s.Connect("b")
		step("a new session")
		b.Drop()
		b = s.Resume("b again", b)
		step("a resumed session")
		s.IsRefused(ConnectRequest{ID: 4711, Timeout: 5000})
		step("a session that does not exist")
		b.Ok(Ephemeral("/case/e"))
		step("create")
		b.End()
		step("a closed session")
		for _, r := range []Request{
			SetData(root, nil, -1), SetData(root, nil, 77), Create(n, nil, nil, 0),
			Plain(""), SetData("", nil, -1), Delete("/", -1), Create(n, nil, Open, 99),
			SetACL(root, Open, -1), SetACL(root, nil, -1), Multi(Check(root, 77)),
			Multi(), Multi(Check(root, -1)), Multi(Check(root, 77)),
			Multi(Plain("/case/x"), Plain("/case/y"), Delete("/case/x", -1)),
			Sync(root), GetData("/case/missing", true), CreateTTL(n, nil, Open, jute.FlagTTL, 9),
		} {
			a.Call(r)
			step(r.Text)
		}
		if !s.Since(zktest.ZooKeeper39) {
			a.Call(Check(root, 77))
			step("a check alone")
		}
	})},
	{Name: "of znodes, after each kind of change", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Plain(m))
		for _, r := range []Request{
			SetData(m, []byte("1"), -1), SetData(n, []byte("2"), -1), SetACL(m, Open, -1), SetACL(n, Open, -1),
			Plain(m + "/k"), SetData(m+"/k", nil, -1), Delete(m+"/k", -1),
			Container(n + "/box"), Delete(n+"/box", -1),
			EphemeralSequential(n + "/e-"), Delete(n+"/e-0000000002", -1),
			Delete(m, -1), Plain(m),
		} {
			a.Ok(r, Exists(root, false), GetChildren2(n, false))
			a.Call(Exists(m, false))
		}
	})},
	{Name: "of the events of changes", Run: two(func(s *Script, a, b *Client) {
		begin := func() {
			a.Ok(Plain(n))
			b.Ok(GetData(n, true), GetChildren(n, true))
		}
		b.Fails(jute.ErrNoNode, Exists(n, true))
		b.Ok(GetChildren(root, true))
		change := a.Ok(Plain(n)).Zxid
		s.fired(b.Receive(), created(n), change)
		s.fired(b.Receive(), childrenChanged(root), change)
		a.Ok(Delete(n, -1))

		// A connection with a data watch and a child watch gets one event of a deletion
		// (DataTree.deleteNode).
		begin()
		change = a.Ok(Delete(n, -1)).Zxid
		s.fired(b.Receive(), deleted(n), change)
		b.Gets("one event for both watches")

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
		b.Gets("no more")
	})},
	{Name: "of the events of a session's end", Run: func(s *Script) {
		b := s.Connect("b")
		b.Ok(Plain(n))
		for _, end := range []func(*Client){(*Client).End, (*Client).Drop} { // closed, expired
			a := s.ConnectFor("a", int32(10*s.server.TickTime.Milliseconds()))
			a.Ok(Ephemeral(m))
			b.Ok(GetData(m, true), GetChildren(m, true), GetChildren(n, true))
			end(a)
			first, second := b.Receive(), b.Receive()
			change := b.Ok(Exists(n, false)).Stat.Pzxid
			s.fired(first, deleted(m), change)
			s.fired(second, childrenChanged(n), change)
		}
	}},
	// setWatches knows no transaction, so its events have no zxid (DataTree.setWatches).
	{Name: "of the events of setWatches", Run: two(func(s *Script, a, b *Client) {
		gone := "/case/gone"
		a.Ok(Plain(n))
		seen := a.Ok(Create2(gone, nil, Open, 0)).Zxid
		a.Ok(SetData(n, nil, -1), Plain(m), Delete(gone, -1))
		b.Send(SetWatches(seen, "before the changes", Watches{
			Data: []string{n, gone}, Exist: []string{n, gone}, Child: []string{n, gone}}))
		for _, e := range []Event{dataChanged(n), deleted(gone), created(n), childrenChanged(n), deleted(gone)} {
			s.fired(b.Receive(), e, -1)
		}
		s.Equal([]Event(nil), b.Receive().Events, "the reply comes last")
		change := a.Ok(Plain(gone)).Zxid // the watch that did not fire
		s.fired(b.Receive(), created(gone), change)
	})},
	// The events of a transaction come before all replies whose header has its zxid or
	// a later one (DataTree.processTxn).
	{Name: "of events and of the replies after them", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		b.Ok(GetData(n, true))
		change := a.Ok(SetData(n, nil, -1)).Zxid
		b.Send(Exists(root, false))
		s.fired(b.Receive(), dataChanged(n), change)
		s.Equal(change, b.Receive().Zxid, "a read's reply")

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
