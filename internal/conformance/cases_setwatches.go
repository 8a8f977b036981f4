package conformance

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var setWatchesCases = []Case{
	{Name: "fires the watches of changed znodes at once, and arms the rest", Run: func(s *Script) {
		for _, xid := range []int32{5, jute.XidSetWatches} {
			s.Note("xid %d", xid)
			p := s.Path("p")
			a, b := s.Connect("a"), s.Connect("b")
			a.Ok(Create(p, nil, Open, 0))
			for _, n := range []string{"changed", "deleted", "same", "more", "less", "less/child", "gone", "quiet"} {
				a.Ok(Create(p+"/"+n, nil, Open, 0))
			}
			seen := a.Ok(Exists(p, false)).Zxid
			a.Ok(SetData(p+"/changed", nil, -1))
			a.Ok(Delete(p+"/deleted", -1))
			a.Ok(Create(p+"/created", nil, Open, 0))
			a.Ok(Create(p+"/more/child", nil, Open, 0))
			a.Ok(Delete(p+"/less/child", -1))
			a.Ok(Delete(p+"/gone", -1))
			b.SendAs(xid, SetWatches(seen, "before the changes", Watches{
				Data:  []string{p + "/changed", p + "/deleted", p + "/same"},
				Exist: []string{p + "/created", p + "/missing"},
				Child: []string{p + "/more", p + "/less", p + "/gone", p + "/quiet"},
			}))
			r := b.awaitReply(xid)
			s.Equal([]Event{
				dataChanged(p + "/changed"), deleted(p + "/deleted"), created(p + "/created"),
				childrenChanged(p + "/more"), childrenChanged(p + "/less"), deleted(p + "/gone"),
			}, r.Events, "in the order of the request, before the reply")
			// Only the watches that did not fire are armed.
			for _, n := range []string{"changed", "created", "same"} {
				a.Ok(SetData(p+"/"+n, nil, -1))
			}
			a.Ok(Create(p+"/missing", nil, Open, 0))
			a.Ok(Create(p+"/quiet/child", nil, Open, 0))
			a.Ok(Create(p+"/more/another", nil, Open, 0))
			s.Equal([]Event{dataChanged(p + "/same"), created(p + "/missing"), childrenChanged(p + "/quiet")}, b.Drain(), "armed")
			a.deleteAll(p)
		}
	}},
	{Name: "with other zxids", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		seen := a.Ok(SetData(n, nil, -1)).Zxid
		b.Ok(SetWatches(seen, "the change", Watches{Data: []string{n}, Exist: []string{n}, Child: []string{n}}))
		b.Ok(SetWatches(seen-1, "before the change", Watches{Data: []string{n}}))
		b.Ok(SetWatches(seen-1, "before the change", Watches{Child: []string{n}}))
		b.Ok(SetWatches(0, "nothing", Watches{Data: []string{n}, Child: []string{n}}))
		b.Ok(SetWatches(seen+1000000, "the future", Watches{Data: []string{n}}))
		a.Ok(SetData(n, nil, -1))
		b.Drain()
	})},
	{Name: "of nothing", Run: one(func(s *Script, a *Client) {
		a.Ok(SetWatches(0, "nothing", Watches{}))
		a.Ok(SetWatches2(0, "nothing", Watches{}))
	})},
	// The server processes each vector before it reads the next one.
	{Name: "of nulls", Run: one(func(s *Script, a *Client) {
		for n := range 4 {
			b := jute.AppendInt64(nil, 0)
			for range n {
				b = jute.AppendInt32(b, 0)
			}
			for range 3 - n {
				b = jute.AppendInt32(b, -1)
			}
			a.Try(Request{Op: jute.OpSetWatches, Text: fmt.Sprintf("setWatches with %d nulls", 3-n), Body: b})
		}
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		b := jute.AppendStrings(make([]byte, 8), []string{s.Path("n")})
		a.Try(Request{Op: jute.OpSetWatches, Text: "setWatches with a path and two nulls", Body: jute.AppendInt64(b, -1)})
	})},
	// The server knows only the current state, not that at the zxid. If a znode
	// was created and deleted again, or deleted and created again, the event
	// depends on what the server sees now.
	{Name: "of znodes that came and went", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Create(s.Path("again"), nil, Open, 0))
		seen := a.Ok(Exists(s.Path(""), false)).Zxid
		a.Ok(Create(s.Path("short"), nil, Open, 0))
		a.Ok(Delete(s.Path("short"), -1))
		a.Ok(Delete(s.Path("again"), -1))
		a.Ok(Create(s.Path("again"), nil, Open, 0))
		b.Ok(SetWatches(seen, "before the changes", Watches{
			Data: []string{s.Path("again")}, Exist: []string{s.Path("short")}, Child: []string{s.Path("again"), s.Path("")}}))
		a.Ok(Create(s.Path("short"), nil, Open, 0))
		b.Drain()
	})},
	// An exist watch is set on a missing znode. If the znode exists now, the watch
	// fires, whatever the zxid (DataTree.setWatches).
	{Name: "an exist watch on an existing znode", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		seen := a.Ok(Create2(n, nil, Open, 0)).Zxid
		a.Ok(SetData(n, nil, -1))
		b.Ok(SetWatches(seen, "the creation", Watches{Exist: []string{n}}))
		a.Ok(SetData(n, nil, -1))
		b.Drain()
	})},
	{Name: "of the same path twice", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		seen := a.Ok(Create2(n, nil, Open, 0)).Zxid
		a.Ok(SetData(n, nil, -1))
		b.Ok(SetWatches(seen, "the creation", Watches{Data: []string{n, n}}))
		b.Ok(SetWatches(a.Ok(Exists(n, false)).Zxid, "now", Watches{Data: []string{n, n}}))
		a.Ok(SetData(n, nil, -1))
		b.Drain()
	})},
	{Name: "by a resumed session", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		seen := b.Ok(GetData(n, true)).Zxid
		b.Drop()
		a.Ok(SetData(n, nil, -1))
		again := s.Resume("b again", b)
		// The reply to a request that is sent before the setWatches shows the
		// change before its event.
		again.Send(GetData(n, false))
		again.SendAs(jute.XidSetWatches, SetWatches(seen, "the first read", Watches{Data: []string{n}}))
		again.Try(GetData(n, true))
	})},
	{Name: "needs no READ to be armed", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Anyone(31&^jute.PermRead), 0))
		b.Ok(SetWatches(a.Ok(GetACL(n)).Zxid, "now", Watches{Data: []string{n}, Child: []string{n}}))
		b.Ok(CheckWatches(n, jute.WatcherAny))
	})},
	{Name: "setWatches2", Run: two(func(s *Script, a, b *Client) {
		p := s.Path("p")
		a.Ok(Create(p, nil, Open, 0))
		for _, n := range []string{"data", "child", "persistent", "recursive"} {
			a.Ok(Create(p+"/"+n, nil, Open, 0))
		}
		seen := a.Ok(Exists(p, false)).Zxid
		change := func() {
			for _, n := range []string{"data", "child", "persistent", "recursive"} {
				a.Ok(SetData(p+"/"+n, nil, -1))
				a.Ok(Create(p+"/"+n+"/c-", nil, Open, jute.FlagSequential))
			}
			a.Call(Create(p+"/exist", nil, Open, 0))
		}
		change()
		b.CallAs(jute.XidSetWatches, SetWatches2(seen, "before the changes", Watches{
			Data: []string{p + "/data"}, Exist: []string{p + "/exist"}, Child: []string{p + "/child"},
			Persistent: []string{p + "/persistent"}, Recursive: []string{p + "/recursive"}}))
		change()
		b.Drain()
		change()
		b.Drain()
	})},
}

// deleteAll deletes a tree.
func (c *Client) deleteAll(path string) {
	for _, child := range c.Ok(GetChildren(path, false)).Children {
		c.deleteAll(path + "/" + child)
	}
	c.Ok(Delete(path, -1))
}
