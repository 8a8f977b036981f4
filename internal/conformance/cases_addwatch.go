package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var addWatchCases = []Case{
	{Name: "persistent", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		b.Ok(AddWatch(n, jute.WatchPersistent))
		for range 2 {
			a.Ok(Create(n, nil, Open, 0))
			a.Ok(SetData(n, nil, -1))
			a.Ok(SetData(n, nil, -1))
			a.Ok(Create(n+"/m", nil, Open, 0))
			a.Ok(SetData(n+"/m", nil, -1))
			a.Ok(Create(n+"/m/k", nil, Open, 0))
			a.Ok(Delete(n+"/m/k", -1))
			a.Ok(Delete(n+"/m", -1))
			a.Ok(Delete(n, -1))
			s.Equal([]Event{created(n), dataChanged(n), dataChanged(n), childrenChanged(n), childrenChanged(n), deleted(n)},
				b.Drain(), "the watch is persistent")
		}
	})},
	{Name: "recursive", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		for range 2 {
			a.Ok(Create(n, nil, Open, 0))
			a.Ok(Create(n+"/m", nil, Open, 0))
			a.Ok(SetData(n+"/m", nil, -1))
			a.Ok(Create(n+"/m/k", nil, Open, 0))
			a.Ok(Create(s.Path("nn"), nil, Open, 0))
			a.Ok(Delete(s.Path("nn"), -1))
			a.Ok(Delete(n+"/m/k", -1))
			a.Ok(Delete(n+"/m", -1))
			a.Ok(Delete(n, -1))
			// There are no events for changed children: each child has its own.
			s.Equal([]Event{created(n), created(n + "/m"), dataChanged(n + "/m"), created(n + "/m/k"),
				deleted(n + "/m/k"), deleted(n + "/m"), deleted(n)}, b.Drain(), "the watch is persistent")
		}
	})},
	{Name: "besides other watches", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(AddWatch(n, jute.WatchPersistent))
		b.Ok(GetData(n, true))
		b.Ok(GetChildren(n, true))
		a.Ok(SetData(n, nil, -1))
		s.Equal([]Event{dataChanged(n)}, b.Drain(), "one event for both watches")
		a.Ok(SetData(n, nil, -1))
		if got := b.Drain(); s.Since(zktest.ZooKeeper39) {
			s.Equal([]Event{dataChanged(n)}, got, "the persistent one stays")
		} else {
			s.Equal(none, got, "the later watch has replaced it")
		}
		a.Ok(Create(n+"/m", nil, Open, 0))
		b.Drain()
		a.Ok(Create(n+"/k", nil, Open, 0))
		b.Drain()
		// With both modes on one path, the later one wins (WatcherModeManager).
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		a.Ok(Delete(n+"/k", -1))
		b.Drain()
		b.Ok(AddWatch(n, jute.WatchPersistent))
		a.Ok(Delete(n+"/m", -1))
		b.Drain()
		a.Ok(Delete(n, -1))
		b.Drain()
	})},
	{Name: "recursive above and below", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		b.Ok(AddWatch(s.Path(""), jute.WatchPersistentRecursive))
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		b.Ok(GetChildren(n, true))
		a.Ok(Create(n+"/m", nil, Open, 0))
		b.Drain()
		b.Ok(GetData(n+"/m", true))
		a.Ok(SetData(n+"/m", nil, -1))
		b.Drain()
		a.Ok(Delete(n+"/m", -1))
		b.Drain()
	})},
	{Name: "operations of a multi", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		a.Ok(Multi(Create(n, nil, Open, 0), Create(n+"/m", nil, Open, 0), SetData(n, nil, -1), Delete(n+"/m", -1)))
		s.Equal([]Event{created(n), created(n + "/m"), dataChanged(n), deleted(n + "/m")}, b.Drain(), "each of them")
	})},
	{Name: "needs no READ", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Anyone(31&^jute.PermRead), 0))
		b.Ok(AddWatch(n, jute.WatchPersistent))
	})},
	{Name: "is checked and removed", Run: two(func(s *Script, a, b *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		for _, mode := range []int32{jute.WatchPersistent, jute.WatchPersistentRecursive} {
			for _, kind := range []int32{jute.WatcherChildren, jute.WatcherData, jute.WatcherAny} {
				b.Ok(AddWatch(n, mode))
				b.Call(CheckWatches(n, kind))
				b.Call(RemoveWatches(n, kind))
				b.Call(CheckWatches(n, jute.WatcherChildren))
				b.Call(CheckWatches(n, jute.WatcherData))
				a.Ok(SetData(n, nil, -1))
				b.Drain()
				a.Ok(Create(n+"/m", nil, Open, 0))
				b.Drain()
				a.Ok(Delete(n+"/m", -1))
				b.Call(RemoveWatches(n, jute.WatcherAny))
			}
		}
		b.Ok(AddWatch(n, jute.WatchPersistentRecursive))
		b.Fails(jute.ErrNoWatcher, CheckWatches(n+"/m", jute.WatcherAny))
	})},
	{Name: "an unknown mode", Run: one(func(s *Script, a *Client) {
		for _, mode := range []int32{2, 3, -1} {
			a.Try(AddWatch(s.Path("n"), mode))
		}
	})},
}
