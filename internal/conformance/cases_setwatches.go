package conformance

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var setWatchesCases = []Case{
	{Name: "fires the watches of changed znodes at once, and arms the rest", Run: two(func(s *Script, a, b *Client) {
		for _, name := range []string{"changed", "deleted", "same", "more", "less", "less/child", "gone", "quiet"} {
			a.Ok(Plain("/case/" + name))
		}
		seen := a.Ok(Exists(root, false)).Zxid
		a.Ok(SetData("/case/changed", nil, -1), Delete("/case/deleted", -1), Plain("/case/created"))
		a.Ok(Plain("/case/more/child"), Delete("/case/less/child", -1), Delete("/case/gone", -1))
		r := b.Ok(SetWatches(seen, "before the changes", Watches{
			Data:  []string{"/case/changed", "/case/deleted", "/case/same"},
			Exist: []string{"/case/created", "/case/missing"},
			Child: []string{"/case/more", "/case/less", "/case/gone", "/case/quiet"},
		}))
		s.Equal([]Event{
			dataChanged("/case/changed"), deleted("/case/deleted"), created("/case/created"),
			childrenChanged("/case/more"), childrenChanged("/case/less"), deleted("/case/gone"),
		}, r.Events, "in the order of the request, before the reply")
		// Only the watches that did not fire are armed.
		a.Ok(SetData("/case/changed", nil, -1), SetData("/case/created", nil, -1), SetData("/case/same", nil, -1))
		a.Ok(Plain("/case/missing"), Plain("/case/quiet/child"), Plain("/case/more/another"))
		b.Gets("armed", dataChanged("/case/same"), created("/case/missing"), childrenChanged("/case/quiet"))
	})},
	{Name: "with other zxids", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		seen := a.Ok(SetData(n, nil, -1)).Zxid
		b.Ok(
			SetWatches(seen, "the change", Watches{Data: []string{n}, Exist: []string{n}, Child: []string{n}}),
			SetWatches(seen-1, "before the change", Watches{Data: []string{n}}),
			SetWatches(seen-1, "before the change", Watches{Child: []string{n}}),
			SetWatches(0, "nothing", Watches{Data: []string{n}, Child: []string{n}}),
			SetWatches(seen+1000000, "the future", Watches{Data: []string{n}}),
		)
		a.Ok(SetData(n, nil, -1))
		b.Drain()
	})},
	// The server processes each vector before it reads the next one.
	{Name: "of nulls", Run: one(func(s *Script, a *Client) {
		const empty, null = 0, -1
		for _, lengths := range [][]int32{{null, null, null}, {empty, null, null}, {empty, empty, null}, {empty, empty, empty}} {
			b := jute.AppendInt64(nil, 0)
			for _, length := range lengths {
				b = jute.AppendInt32(b, length)
			}
			a.Try(Request{Op: jute.OpSetWatches, Text: fmt.Sprintf("setWatches of vectors with lengths %d", lengths), Body: b})
		}
		a.Ok(Plain(n))
		b := jute.AppendStrings(make([]byte, 8), []string{n})
		a.Try(Request{Op: jute.OpSetWatches, Text: "setWatches with a path and two nulls", Body: jute.AppendInt64(b, -1)})
	})},
	// The server knows only the current state, not that at the zxid. If a znode
	// was created and deleted again, or deleted and created again, the event
	// depends on what the server sees now.
	{Name: "of znodes that came and went", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain("/case/again"))
		seen := a.Ok(Exists(root, false)).Zxid
		a.Ok(Plain("/case/short"), Delete("/case/short", -1), Delete("/case/again", -1), Plain("/case/again"))
		b.Ok(SetWatches(seen, "before the changes", Watches{
			Data: []string{"/case/again"}, Exist: []string{"/case/short"}, Child: []string{"/case/again", root}}))
		a.Ok(Plain("/case/short"))
		b.Drain()
	})},
	{Name: "of the same path twice", Run: two(func(s *Script, a, b *Client) {
		seen := a.Ok(Create2(n, nil, Open, 0)).Zxid
		a.Ok(SetData(n, nil, -1))
		b.Ok(SetWatches(seen, "the creation", Watches{Data: []string{n, n}}))
		b.Ok(SetWatches(a.Ok(Exists(n, false)).Zxid, "now", Watches{Data: []string{n, n}}))
		a.Ok(SetData(n, nil, -1))
		b.Drain()
	})},
	{Name: "by a resumed session", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
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
		a.Ok(Create(n, nil, WriteOnly, 0))
		b.Ok(SetWatches(a.Ok(GetACL(n)).Zxid, "now", Watches{Data: []string{n}, Child: []string{n}}))
		b.Ok(CheckWatches(n, jute.WatcherAny))
	})},
	{Name: "setWatches2", Run: two(func(s *Script, a, b *Client) {
		all := []string{"/case/data", "/case/child", "/case/persistent", "/case/recursive"}
		for _, path := range all {
			a.Ok(Plain(path))
		}
		seen := a.Ok(Exists(root, false)).Zxid
		change := func() {
			for _, path := range all {
				a.Ok(SetData(path, nil, -1), Sequential(path+"/c-"))
			}
			a.Call(Plain("/case/exist"))
		}
		change()
		r := b.CallAs(jute.XidSetWatches, SetWatches2(seen, "before the changes", Watches{
			Data: all[:1], Exist: []string{"/case/exist"}, Child: all[1:2], Persistent: all[2:3], Recursive: all[3:]}))
		s.Equal(int32(0), r.Err, "whatever the xid")
		change()
		b.Drain()
		change()
		b.Drain()
	})},
}
