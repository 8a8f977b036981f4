package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// watchCases have what fires these watches.
var addWatchCases = []Case{
	{Name: "besides other watches", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		b.Ok(AddWatch(n, jute.WatchPersistent), GetData(n, true), GetChildren(n, true))
		a.Ok(SetData(n, nil, -1))
		b.Gets("one event for both watches", dataChanged(n))
		a.Ok(SetData(n, nil, -1))
		if s.Since(zktest.ZooKeeper39) {
			b.Gets("the persistent one stays", dataChanged(n))
		} else {
			b.Gets("the later watch has replaced it")
		}
		a.Ok(Plain(m))
		b.Drain()
		a.Ok(Plain(n + "/k"))
		b.Drain()
		// With both modes on one path, the later one wins (WatcherModeManager).
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		a.Ok(Delete(n+"/k", -1))
		b.Drain()
		b.Ok(AddWatch(n, jute.WatchPersistent))
		a.Ok(Delete(m, -1))
		b.Drain()
		a.Ok(Delete(n, -1))
		b.Drain()
	})},
	{Name: "recursive above and below", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		b.Ok(AddWatch(root, jute.WatchPersistentRecursive), AddWatch(n, jute.WatchPersistentRecursive), GetChildren(n, true))
		a.Ok(Plain(m))
		b.Drain()
		b.Ok(GetData(m, true))
		a.Ok(SetData(m, nil, -1))
		b.Drain()
		a.Ok(Delete(m, -1))
		b.Drain()
	})},
	{Name: "is checked and removed", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		for _, mode := range []int32{jute.WatchPersistent, jute.WatchPersistentRecursive} {
			for _, kind := range []int32{jute.WatcherChildren, jute.WatcherData, jute.WatcherAny} {
				b.Ok(AddWatch(n, mode))
				b.Call(CheckWatches(n, kind), RemoveWatches(n, kind))
				b.Call(CheckWatches(n, jute.WatcherChildren), CheckWatches(n, jute.WatcherData))
				a.Ok(SetData(n, nil, -1))
				b.Drain()
				a.Ok(Plain(m))
				b.Drain()
				a.Ok(Delete(m, -1))
				b.Call(RemoveWatches(n, jute.WatcherAny))
			}
		}
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		b.Fails(jute.ErrNoWatcher, CheckWatches(m, jute.WatcherAny))
	})},
	{Name: "an unknown mode", Run: one(func(s *Script, a *Client) {
		for _, mode := range []int32{2, 3, -1} {
			a.Try(AddWatch(n, mode))
		}
	})},
}
