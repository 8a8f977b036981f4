package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// TTLCases are for a server whose znodes can have a time to live
// (zookeeper.extendedTypesEnabled=true).
var TTLCases = []Case{
	{Name: "ttl/is given by createTTL alone", Run: two(func(s *Script, a, b *Client) {
		const day, longest = 24 * 3600 * 1000, 1<<40 - 1
		for _, flags := range []int32{jute.FlagTTL, jute.FlagSequentialTTL} {
			ttl := func(ms int64) Request { return CreateTTL(n, []byte("data"), Open, flags, ms) }
			// In the server's tree a special owner has the time, but the Stat does not show it
			// (DataNode.copyStat).
			s.Equal(int64(0), a.createAndLook(ttl(day), exists).Stat.EphemeralOwner, "the owner")
			path := a.Ok(Multi(ttl(longest))).Created[0]
			a.Ok(Exists(path, false), GetEphemerals(root), Plain(path+"/m"), Delete(path+"/m", -1), Delete(path, -1))
			for _, ms := range []int64{0, -1, longest + 1} {
				a.Fails(jute.ErrBadArguments, ttl(ms), Multi(ttl(ms)))
			}
			for _, create := range creates {
				a.Fails(jute.ErrBadArguments, create(n, nil, Open, flags))
				a.Fails(jute.ErrMarshalling, Multi(create(n, nil, Open, flags)))
			}
		}
		for flags := range int32(5) {
			a.Fails(jute.ErrBadArguments, CreateTTL(n, nil, Open, flags, day))
		}
		b.Ok(CreateTTL(n, nil, Open, jute.FlagTTL, day))
		b.End()
		a.Ok(Exists(n, false), GetChildren2(root, false), Delete(n, -1))
	})},
	// The ContainerManager deletes it when it has no children and its mtime is older than the time to live.
	{Name: "ttl/is reaped when it has passed", Run: one(func(s *Script, a *Client) {
		a.Ok(AddWatch(root, jute.WatchPersistentRecursive), CreateTTL(n, nil, Open, jute.FlagTTL, 1))
		s.Equal([]Event{deleted(n)}, a.Receive().Events, "reaped")
		a.Ok(Multi(CreateTTL(n, nil, Open, jute.FlagTTL, 1), Plain(m)), Multi(hadChild("/case/box")...))
		s.Equal([]Event{deleted("/case/box")}, a.Receive().Events, "a znode with a child stays")
		a.Ok(Delete(m, -1))
		s.Equal([]Event{deleted(n)}, a.Receive().Events, "reaped without it")
	})},
}
