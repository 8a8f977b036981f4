package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// created and the following three are events for assertions.
func created(path string) Event { return Event{Type: jute.EventCreated, Path: path} }

func deleted(path string) Event { return Event{Type: jute.EventDeleted, Path: path} }

func dataChanged(path string) Event { return Event{Type: jute.EventDataChanged, Path: path} }

func childrenChanged(path string) Event { return Event{Type: jute.EventChildrenChanged, Path: path} }

// In most of these cases b sets watches and a changes znodes, so that b gets
// nothing but events.
var watchCases = []Case{
	{Name: "which changes fire which watches", Run: one(func(s *Script, a *Client) {
		exists, data := s.Connect("exists"), s.Connect("getData")
		children, children2 := s.Connect("getChildren"), s.Connect("getChildren2")
		persistent, recursive := s.Connect("persistent"), s.Connect("recursive")
		persistent.Ok(AddWatch(n, jute.WatchPersistent))
		recursive.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		type events []Event
		for _, change := range []struct {
			Request
			exists, data, children, persistent, recursive events
		}{
			{Plain(n), events{created(n)}, nil, nil, events{created(n)}, events{created(n)}},
			{SetData(n, nil, -1), events{dataChanged(n)}, events{dataChanged(n)}, nil, events{dataChanged(n)}, events{dataChanged(n)}},
			{SetACL(n, Open, -1), nil, nil, nil, nil, nil},
			// There are no events of a recursive watch for changed children: each child has its own.
			{Plain(m), nil, nil, events{childrenChanged(n)}, events{childrenChanged(n)}, events{created(m)}},
			{SetData(m, nil, -1), nil, nil, nil, nil, events{dataChanged(m)}},
			{Plain(m + "/k"), nil, nil, nil, nil, events{created(m + "/k")}},
			{Delete(m+"/k", -1), nil, nil, nil, nil, events{deleted(m + "/k")}},
			{Delete(m, -1), nil, nil, events{childrenChanged(n)}, events{childrenChanged(n)}, events{deleted(m)}},
			{Plain(n + "n"), nil, nil, nil, nil, nil},
			{Delete(n, -1), events{deleted(n)}, events{deleted(n)}, events{deleted(n)}, events{deleted(n)}, events{deleted(n)}},
			{Plain(n), events{created(n)}, nil, nil, events{created(n)}, events{created(n)}},
		} {
			exists.Call(Exists(n, true)) // also while there is no n
			data.Call(GetData(n, true))
			children.Call(GetChildren(n, true))
			children2.Call(GetChildren2(n, true))
			a.Ok(change.Request)
			exists.Gets(change.Text, change.exists...)
			data.Gets(change.Text, change.data...)
			children.Gets(change.Text, change.children...)
			children2.Gets(change.Text, change.children...)
			persistent.Gets(change.Text, change.persistent...)
			recursive.Gets(change.Text, change.recursive...)
		}
	})},
	{Name: "fire once", Run: three(func(s *Script, a, b, c *Client) {
		b.Fails(jute.ErrNoNode, Exists(n, true))
		a.Ok(Plain(n))
		b.Gets("the creation", created(n))
		c.Ok(GetData(n, true), GetChildren(n, true))
		for _, want := range [][]Event{{dataChanged(n), childrenChanged(n)}, nil} {
			a.Ok(SetData(n, nil, -1), Sequential(n+"/"))
			c.Gets("only the first changes", want...)
			b.Gets("nothing more")
		}
	})},
	{Name: "a failed read sets no watch", Run: two(func(s *Script, a, b *Client) {
		b.Fails(jute.ErrNoNode, GetData(n, true), GetChildren(n, true), GetChildren2(n, true))
		a.Ok(Create(n, nil, WriteOnly, 0))
		b.Fails(jute.ErrNoAuth, GetData(n, true), GetChildren(n, true))
		a.Ok(SetData(n, nil, -1), Plain(m))
		b.Gets("nothing")
	})},
	{Name: "several watches on one path", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		for range 2 {
			b.Ok(Exists(n, true), GetData(n, true))
		}
		a.Ok(SetData(n, nil, -1))
		b.Gets("exists and getData are one watch", dataChanged(n))
		b.Ok(GetData(n, true), GetChildren(n, true), GetChildren2(n, true))
		a.Ok(Delete(n, -1))
		// DataTree.deleteNode fires the data watches. Then it fires the child
		// watches of clients that did not get that event.
		b.Gets("one event for both watches", deleted(n))
	})},
	{Name: "a client's own change", Run: one(func(s *Script, a *Client) {
		a.Fails(jute.ErrNoNode, Exists(n, true))
		a.Ok(GetChildren(root, true))
		s.Equal([]Event{created(n), childrenChanged(root)}, a.Ok(Plain(n)).Events, "before the reply")
		a.Ok(GetData(n, true))
		s.Equal([]Event{dataChanged(n)}, a.Ok(SetData(n, nil, -1)).Events, "before the reply")
		a.Ok(GetData(n, true))
		a.Fails(jute.ErrBadVersion, SetData(n, nil, 7))
		a.Gets("a failed change fires nothing")
		s.Equal([]Event{deleted(n)}, a.Ok(Delete(n, -1)).Events, "before the reply")
	})},
	{Name: "requests in flight", Run: one(func(s *Script, a *Client) {
		// Each read arms its own watch. A change between two reads fires the
		// watch of the first.
		a.Ok(Plain(n))
		a.SendTogether(GetData(n, true), SetData(n, []byte("1"), -1), GetData(n, true), SetData(n, []byte("2"), -1))
		a.Try(Delete(n, -1))
	})},
	{Name: "operations of a multi", Run: three(func(s *Script, a, b, c *Client) {
		a.Ok(Plain(n), Plain(m))
		b.Ok(GetData(m, true))
		c.Ok(GetChildren(n, true))
		// The library's hand-over relies on this: a data watch fires for the
		// change of data and not for the deletion.
		a.Ok(Multi(SetData(m, []byte("released"), -1), Delete(m, -1)))
		b.Gets("only the first change", dataChanged(m))
		c.Gets("the child watch fires for the deletion", childrenChanged(n))

		a.Ok(Plain(m))
		b.Ok(Exists(m, true), GetChildren(n, true), GetData(n, true))
		b.Fails(jute.ErrNoNode, Exists("/case/x", true))
		b.Ok(GetChildren(root, true))
		a.Ok(Multi(SetData(n, nil, -1), Plain("/case/x"), Delete(m, -1), Delete("/case/x", -1)))
		b.Gets("in the order of the operations", dataChanged(n), created("/case/x"), childrenChanged(root), deleted(m), childrenChanged(n))

		b.Ok(GetData(n, true), GetChildren(n, true))
		a.Fails(jute.ErrBadVersion, Multi(SetData(n, nil, -1), Plain(m), Check(n, 77)))
		b.Gets("a multi that fails changes nothing")
	})},
	{Name: "on the root", Run: two(func(s *Script, a, b *Client) {
		// Other cases change its Stat and children.
		top := root + "-top"
		b.Quietly(GetChildren("/", true), GetData("/", true))
		s.Equal(Open, b.Quietly(GetACL("/")).ACL, "ACL")
		a.Ok(Plain(top))
		a.Quietly(SetData("/", nil, -1))
		b.Gets("children and data", childrenChanged("/"), dataChanged("/"))
		b.Ok(AddWatch("/", jute.WatchPersistentRecursive))
		a.Ok(Plain(top+"/n"), Delete(top+"/n", -1))
		a.Quietly(SetData("/", nil, -1))
		b.Gets("everything", created(top+"/n"), deleted(top+"/n"), dataChanged("/"))
		a.Ok(Delete(top, -1))
	})},
	{Name: "are lost with the connection", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		b.Ok(GetData(n, true))
		b.Drop()
		again := s.Resume("b again", b)
		a.Ok(SetData(n, nil, -1))
		again.Gets("no watch is set on this connection")
	})},
	// The server checks READ again when it sends an event (NIOServerCnxn.process,
	// since 3.8.4, 3.9.2 and the 3.8.0 of Debian 12; CVE-2024-23944).
	{Name: "without READ get no events", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		b.Ok(GetData(n, true), GetChildren(n, true))
		a.Ok(SetACL(n, Open, -1), SetData(n, nil, -1))
		b.Gets("with READ", dataChanged(n))
		b.Ok(GetData(n, true))
		a.Ok(SetACL(n, WriteOnly, -1), SetData(n, nil, -1), Plain(m))
		b.Gets("without READ")
		// The watch has fired all the same.
		a.Ok(SetACL(n, Open, -1), SetData(n, nil, -1), Delete(m, -1))
		b.Gets("with READ again")
		b.Ok(GetData(n, true), GetChildren(root, true))
		a.Ok(SetACL(n, WriteOnly, -1), Delete(n, -1))
		b.Drain()
		// A znode that is created without READ.
		b.Fails(jute.ErrNoNode, Exists(n, true))
		b.Ok(AddWatch(root, jute.WatchPersistentRecursive))
		a.Ok(Create(n, nil, WriteOnly, 0))
		b.Drain()
		a.Ok(Plain(n + "/open"))
		b.Drain()
		b.Ok(SetWatches(0, "nothing", Watches{Data: []string{n}, Child: []string{n}}))
	})},
	{Name: "checkWatches and removeWatches", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		kinds := []int32{jute.WatcherChildren, jute.WatcherData, jute.WatcherAny}
		for _, kind := range kinds {
			b.Fails(jute.ErrNoWatcher, CheckWatches(n, kind), RemoveWatches(n, kind))
		}
		b.Ok(GetData(n, true))
		for _, kind := range kinds {
			b.Call(CheckWatches(n, kind))
		}
		b.Fails(jute.ErrNoWatcher, RemoveWatches(n, jute.WatcherChildren))
		b.Ok(RemoveWatches(n, jute.WatcherData))
		a.Ok(SetData(n, nil, -1))
		b.Gets("removed, without an event")

		b.Ok(GetChildren(n, true))
		for _, kind := range kinds {
			b.Call(CheckWatches(n, kind))
		}
		b.Ok(RemoveWatches(n, jute.WatcherChildren))
		b.Ok(GetChildren(n, true), GetData(n, true), RemoveWatches(n, jute.WatcherAny))
		for _, kind := range kinds {
			b.Fails(jute.ErrNoWatcher, CheckWatches(n, kind))
		}
		b.Fails(jute.ErrNoNode, Exists("/case/missing", true))
		b.Ok(CheckWatches("/case/missing", jute.WatcherData), RemoveWatches("/case/missing", jute.WatcherAny))
		// A client cannot remove the watches of others.
		a.Ok(GetData(n, true))
		b.Fails(jute.ErrNoWatcher, RemoveWatches(n, jute.WatcherAny))
		s.Equal([]Event{dataChanged(n)}, a.Ok(SetData(n, nil, -1)).Events, "not removed")
		for _, kind := range []int32{0, 4, 5, 6, -1} {
			b.Call(CheckWatches(n, kind), RemoveWatches(n, kind))
		}
		b.Call(RemoveWatches("", jute.WatcherAny))
	})},
}
