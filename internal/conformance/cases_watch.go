package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// created and the following three are events for assertions.
func created(path string) Event { return Event{Type: jute.EventCreated, Path: path} }

func deleted(path string) Event { return Event{Type: jute.EventDeleted, Path: path} }

func dataChanged(path string) Event { return Event{Type: jute.EventDataChanged, Path: path} }

func childrenChanged(path string) Event { return Event{Type: jute.EventChildrenChanged, Path: path} }

var none []Event // no events

// In most of these cases b sets watches and a changes znodes, so that b gets
// nothing but events.
var watchCases = []Case{
	{Name: "exists on a missing znode watches for its creation", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		b.Fails(jute.ErrNoNode, Exists(n, true))
		a.Ok(Create(n, nil, Open, 0))
		s.Equal([]Event{created(n)}, b.Drain(), "the creation")
		a.Ok(SetData(n, nil, -1))
		a.Ok(Delete(n, -1))
		s.Equal(none, b.Drain(), "one-shot")
	})},
	{Name: "exists on a znode watches its data and deletion", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(Exists(n, true))
		a.Ok(SetACL(n, Open, -1))
		a.Ok(Create(n+"/child", nil, Open, 0))
		s.Equal(none, b.Drain(), "not ACL and children")
		a.Ok(SetData(n, nil, -1))
		s.Equal([]Event{dataChanged(n)}, b.Drain(), "data")
		a.Ok(Delete(n+"/child", -1))
		b.Ok(Exists(n, true))
		a.Ok(Delete(n, -1))
		s.Equal([]Event{deleted(n)}, b.Drain(), "deletion")
		a.Ok(Create(n, nil, Open, 0))
		s.Equal(none, b.Drain(), "one-shot")
	})},
	{Name: "getData watches data and deletion", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(GetData(n, true))
		a.Ok(SetData(n, nil, -1))
		s.Equal([]Event{dataChanged(n)}, b.Drain(), "data")
		b.Ok(GetData(n, true))
		a.Ok(Delete(n, -1))
		s.Equal([]Event{deleted(n)}, b.Drain(), "deletion")
	})},
	{Name: "a failed read sets no watch", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		b.Fails(jute.ErrNoNode, GetData(n, true))
		b.Fails(jute.ErrNoNode, GetChildren(n, true))
		b.Fails(jute.ErrNoNode, GetChildren2(n, true))
		a.Ok(Create(n, nil, Anyone(31&^jute.PermRead), 0))
		b.Fails(jute.ErrNoAuth, GetData(n, true))
		b.Fails(jute.ErrNoAuth, GetChildren(n, true))
		a.Ok(SetData(n, nil, -1))
		a.Ok(Create(n+"/child", nil, Open, 0))
		s.Equal(none, b.Drain(), "nothing")
	})},
	{Name: "getChildren watches children and the deletion of the znode", Run: func(s *Script) {
		a, b, c := s.Connect("a"), s.Connect("b"), s.Connect("c")
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(GetChildren(n, true))
		c.Ok(GetChildren2(n, true))
		a.Ok(SetData(n, nil, -1))
		s.Equal(none, b.Drain(), "not data")
		a.Ok(Create(n+"/child", nil, Open, 0))
		s.Equal([]Event{childrenChanged(n)}, b.Drain(), "a child is created")
		s.Equal([]Event{childrenChanged(n)}, c.Drain(), "a child is created")
		b.Ok(GetChildren(n, true))
		a.Ok(SetData(n+"/child", nil, -1))
		a.Ok(Create(n+"/child/below", nil, Open, 0))
		s.Equal(none, b.Drain(), "not changes of children")
		a.Ok(Delete(n+"/child/below", -1))
		a.Ok(Delete(n+"/child", -1))
		s.Equal([]Event{childrenChanged(n)}, b.Drain(), "a child is deleted")
		b.Ok(GetChildren(n, true))
		a.Ok(Delete(n, -1))
		s.Equal([]Event{deleted(n)}, b.Drain(), "the deletion of the znode")
	}},
	{Name: "several watches on one path", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		for range 2 {
			b.Ok(Exists(n, true))
			b.Ok(GetData(n, true))
		}
		a.Ok(SetData(n, nil, -1))
		s.Equal([]Event{dataChanged(n)}, b.Drain(), "exists and getData are one watch")
		b.Ok(GetData(n, true))
		b.Ok(GetChildren(n, true))
		b.Ok(GetChildren2(n, true))
		a.Ok(Delete(n, -1))
		// DataTree.deleteNode fires the data watches. Then it fires the child
		// watches of clients that did not get that event.
		s.Equal([]Event{deleted(n)}, b.Drain(), "one event for both watches")
	})},
	{Name: "znode and parent", Run: two(func(s *Script, a, b *Client) {
		n, m := s.Path("n"), s.Path("n/m")
		a.Ok(Create(n, nil, Open, 0))
		b.Fails(jute.ErrNoNode, Exists(m, true))
		b.Ok(GetChildren(n, true))
		a.Ok(Create(m, nil, Open, 0))
		s.Equal([]Event{created(m), childrenChanged(n)}, b.Drain(), "the znode, then its parent")
		b.Ok(GetData(m, true))
		b.Ok(GetChildren(m, true))
		b.Ok(GetChildren(n, true))
		a.Ok(Delete(m, -1))
		s.Equal([]Event{deleted(m), childrenChanged(n)}, b.Drain(), "the znode, then its parent")
	})},
	{Name: "a client's own change", Run: one(func(s *Script, a *Client) {
		n := s.Path("n")
		a.Fails(jute.ErrNoNode, Exists(n, true))
		a.Ok(GetChildren(s.Path(""), true))
		s.Equal([]Event{created(n), childrenChanged(s.Path(""))}, a.Ok(Create(n, nil, Open, 0)).Events, "before the reply")
		a.Ok(GetData(n, true))
		s.Equal([]Event{dataChanged(n)}, a.Ok(SetData(n, nil, -1)).Events, "before the reply")
		a.Ok(GetData(n, true))
		a.Fails(jute.ErrBadVersion, SetData(n, nil, 7))
		s.Equal(none, a.Drain(), "a failed change fires nothing")
		s.Equal([]Event{deleted(n)}, a.Ok(Delete(n, -1)).Events, "before the reply")
	})},
	{Name: "the event comes before the reply that shows the change", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(GetData(n, true))
		a.Ok(SetData(n, []byte("new"), -1))
		r := b.Ok(GetData(n, false))
		s.Equal([]Event{dataChanged(n)}, r.Events, "the event comes first")
		s.Equal([]byte("new"), r.Data, "then the data comes")
	})},
	{Name: "requests in flight", Run: one(func(s *Script, a *Client) {
		// Each read arms its own watch. A change between two reads fires the
		// watch of the first.
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		a.Send(GetData(n, true))
		a.Send(SetData(n, []byte("1"), -1))
		a.Send(GetData(n, true))
		a.Send(SetData(n, []byte("2"), -1))
		a.Try(Delete(n, -1))
	})},
	{Name: "operations of a multi", Run: func(s *Script) {
		a, b, c := s.Connect("a"), s.Connect("b"), s.Connect("c")
		n, m := s.Path("n"), s.Path("n/m")
		a.Ok(Create(n, nil, Open, 0))
		a.Ok(Create(m, nil, Open, 0))
		b.Ok(GetData(m, true))
		c.Ok(GetChildren(n, true))
		// The library's hand-over relies on this: a data watch fires for the
		// change of data and not for the deletion.
		a.Ok(Multi(SetData(m, []byte("released"), -1), Delete(m, -1)))
		s.Equal([]Event{dataChanged(m)}, b.Drain(), "only the first change")
		s.Equal([]Event{childrenChanged(n)}, c.Drain(), "the child watch fires for the deletion")

		a.Ok(Create(m, nil, Open, 0))
		b.Ok(Exists(m, true))
		b.Ok(GetChildren(n, true))
		b.Ok(GetData(n, true))
		b.Fails(jute.ErrNoNode, Exists(s.Path("x"), true))
		b.Ok(GetChildren(s.Path(""), true))
		a.Ok(Multi(SetData(n, nil, -1), Create(s.Path("x"), nil, Open, 0), Delete(m, -1), Delete(s.Path("x"), -1)))
		s.Equal([]Event{dataChanged(n), created(s.Path("x")), childrenChanged(s.Path("")), deleted(m), childrenChanged(n)},
			b.Drain(), "in the order of the operations")

		b.Ok(GetData(n, true))
		b.Ok(GetChildren(n, true))
		a.Call(Multi(SetData(n, nil, -1), Create(m, nil, Open, 0), Check(n, 77)))
		s.Equal(none, b.Drain(), "a multi that fails changes nothing")
	}},
	{Name: "ephemerals are deleted with their session", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		b.Ok(Create(n, nil, Open, 0))
		a.Ok(Create(n+"/e", nil, Open, jute.FlagEphemeral))
		b.Ok(GetData(n+"/e", true))
		b.Ok(GetChildren(n, true))
		a.End()
		s.Equal([]Event{deleted(n + "/e"), childrenChanged(n)}, b.Drain(), "as for a delete")
	})},
	{Name: "on the root", Run: two(func(s *Script, a, b *Client) {
		// Other cases change its Stat and children.
		top := s.Path("") + "-top"
		b.Quietly(GetChildren("/", true))
		b.Quietly(GetData("/", true))
		s.Equal([]string{"[world:anyone:31]"}, b.Quietly(GetACL("/")).ACL, "ACL")
		a.Ok(Create(top, nil, Open, 0))
		a.Quietly(SetData("/", nil, -1))
		if !s.server.Shared {
			s.Equal([]Event{childrenChanged("/"), dataChanged("/")}, b.Drain(), "children and data")
			b.Ok(AddWatch("/", jute.WatchPersistentRecursive))
			a.Ok(Create(top+"/n", nil, Open, 0))
			a.Ok(Delete(top+"/n", -1))
			a.Quietly(SetData("/", nil, -1))
			s.Equal([]Event{created(top + "/n"), deleted(top + "/n"), dataChanged("/")}, b.Drain(), "everything")
		}
		a.Ok(Delete(top, -1))
	})},
	{Name: "are lost with the connection", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(GetData(n, true))
		b.Drop()
		again := s.Resume("b again", b)
		a.Ok(SetData(n, nil, -1))
		s.Equal(none, again.Drain(), "no watch is set on this connection")
	})},
	// The server checks READ again when it sends an event (NIOServerCnxn.process,
	// since 3.8.4, 3.9.2 and the 3.8.0 of Debian 12; CVE-2024-23944).
	{Name: "without READ get no events", Run: two(func(s *Script, a, b *Client) {
		n, hidden := s.Path("n"), Anyone(jute.PermAll&^jute.PermRead)
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(GetData(n, true))
		b.Ok(GetChildren(n, true))
		a.Ok(SetACL(n, Anyone(jute.PermAll), -1))
		a.Ok(SetData(n, nil, -1))
		s.Equal([]Event{dataChanged(n)}, b.Drain(), "with READ")
		b.Ok(GetData(n, true))
		a.Ok(SetACL(n, hidden, -1))
		a.Ok(SetData(n, nil, -1))
		a.Ok(Create(n+"/m", nil, Open, 0))
		s.Equal(none, b.Drain(), "without READ")
		// The watch has fired all the same.
		a.Ok(SetACL(n, Open, -1))
		a.Ok(SetData(n, nil, -1))
		a.Ok(Delete(n+"/m", -1))
		s.Equal(none, b.Drain(), "with READ again")
		b.Ok(GetData(n, true))
		b.Ok(GetChildren(s.Path(""), true))
		a.Ok(SetACL(n, hidden, -1))
		a.Ok(Delete(n, -1))
		b.Drain()
		// A znode that is created without READ.
		b.Fails(jute.ErrNoNode, Exists(n, true))
		b.Ok(AddWatch(s.Path(""), jute.WatchPersistentRecursive))
		a.Ok(Create(n, nil, hidden, 0))
		b.Drain()
		a.Ok(Create(n+"/open", nil, Open, 0))
		b.Drain()
		b.Ok(SetWatches(0, "nothing", Watches{Data: []string{n}, Child: []string{n}}))
	})},
	{Name: "checkWatches and removeWatches", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		kinds := []int32{jute.WatcherChildren, jute.WatcherData, jute.WatcherAny}
		for _, kind := range kinds {
			b.Fails(jute.ErrNoWatcher, CheckWatches(n, kind))
			b.Fails(jute.ErrNoWatcher, RemoveWatches(n, kind))
		}
		b.Ok(GetData(n, true))
		for _, kind := range kinds {
			b.Call(CheckWatches(n, kind))
		}
		b.Fails(jute.ErrNoWatcher, RemoveWatches(n, jute.WatcherChildren))
		b.Ok(RemoveWatches(n, jute.WatcherData))
		a.Ok(SetData(n, nil, -1))
		s.Equal(none, b.Drain(), "removed, without an event")

		b.Ok(GetChildren(n, true))
		for _, kind := range kinds {
			b.Call(CheckWatches(n, kind))
		}
		b.Ok(RemoveWatches(n, jute.WatcherChildren))

		b.Ok(GetChildren(n, true))
		b.Ok(GetData(n, true))
		b.Ok(RemoveWatches(n, jute.WatcherAny))
		for _, kind := range kinds {
			b.Fails(jute.ErrNoWatcher, CheckWatches(n, kind))
		}
		b.Fails(jute.ErrNoNode, Exists(s.Path("missing"), true))
		b.Ok(CheckWatches(s.Path("missing"), jute.WatcherData))
		b.Ok(RemoveWatches(s.Path("missing"), jute.WatcherAny))
		// A client cannot remove the watches of others.
		a.Ok(GetData(n, true))
		b.Fails(jute.ErrNoWatcher, RemoveWatches(n, jute.WatcherAny))
		s.Equal([]Event{dataChanged(n)}, a.Ok(SetData(n, nil, -1)).Events, "not removed")
		for _, kind := range []int32{0, 4, 5, 6, -1} {
			b.Call(CheckWatches(n, kind))
			b.Call(RemoveWatches(n, kind))
		}
		b.Call(RemoveWatches("", jute.WatcherAny))
	})},
}
