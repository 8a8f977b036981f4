package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// createAndLook sends a create and, if it succeeds, reads the znode and deletes it.
func (c *Client) createAndLook(create Request, read func(path string) Request) Reply {
	c.s.t.Helper()
	r := c.Call(create)
	if r.Err == 0 {
		c.Call(read(r.Path))
		c.Ok(Delete(r.Path, -1))
	}
	return r
}

func exists(path string) Request { return Exists(path, false) }

var createCases = []Case{
	{Name: "flags", Run: one(func(s *Script, a *Client) {
		for flags := range int32(4) {
			for _, create := range creates[:2] {
				r := a.Ok(create(n, []byte("data"), Open, flags))
				st, parent := a.Ok(Exists(r.Path, false)).Stat, a.Ok(GetChildren2(root, false)).Stat
				want := jute.Stat{Czxid: r.Zxid, Mzxid: r.Zxid, Pzxid: r.Zxid, Ctime: st.Ctime, Mtime: st.Ctime, DataLength: 4}
				if flags&jute.FlagEphemeral != 0 {
					want.EphemeralOwner = a.ID
				}
				s.Equal(want, st, "the znode")
				if r.Stat != (jute.Stat{}) {
					s.Equal(want, r.Stat, "create2 returns the Stat")
				}
				s.Equal(r.Zxid, parent.Pzxid, "pzxid of the parent")
				s.Equal([]int32{1, 0}, []int32{parent.NumChildren, parent.Version}, "children and version of the parent")
				a.Ok(Delete(r.Path, -1))
			}
		}
	})},
	{Name: "flags that op create does not know", Run: one(func(s *Script, a *Client) {
		// CreateMode knows 4, a container, and PrepRequestProcessor accepts
		// it. But the transaction is a plain create, which cannot express a
		// container, so the znode is a plain one.
		a.createAndLook(Create("/case/box", nil, Open, jute.FlagContainer), exists)
		// 5 and 6, znodes with a time to live, are an extension that is off.
		a.Fails(jute.ErrUnimplemented, Create(n, nil, Open, jute.FlagTTL), Create(n, nil, Open, jute.FlagSequentialTTL))
		inMulti := jute.ErrBadArguments
		if s.Since(zktest.ZooKeeper39) {
			inMulti = jute.ErrMarshalling
		}
		for _, flags := range []int32{7, 8, 99, -1, math.MinInt32} {
			a.Fails(jute.ErrBadArguments, Create(n, nil, Open, flags), Create2(n, nil, Open, flags))
			a.Fails(inMulti, Multi(Create(n, nil, Open, flags)))
		}
		a.Ok(GetChildren2(root, false))
	})},
	{Name: "NodeExists, NoNode and NoChildrenForEphemerals", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Ephemeral("/case/e"))
		for flags := range int32(4) {
			if flags&jute.FlagSequential == 0 {
				a.Fails(jute.ErrNodeExists, Create(n, nil, Open, flags), Create2(n, nil, Open, flags))
			}
			a.Fails(jute.ErrNoNode, Create("/case/missing/n", nil, Open, flags), Create2("/case/missing/n", nil, Open, flags))
			a.Fails(jute.ErrNoChildrenForEphemerals, Create("/case/e/n", nil, Open, flags))
		}
		a.Fails(jute.ErrNodeExists, Container(n), Plain("/zookeeper"))
		a.Fails(jute.ErrNoNode, Container("/case/missing/n"))
		a.Fails(jute.ErrNoChildrenForEphemerals, Container("/case/e/n"))
		s.Equal(int32(2), a.Ok(Exists(root, false)).Stat.Cversion, "failed creates do not count")
		// The server checks the parent's ACL first.
		a.Ok(SetACL("/case/e", ReadOnly, -1))
		a.Fails(jute.ErrNoAuth, Plain("/case/e/n"))
	})},
	{Name: "ACLs", Run: one(func(s *Script, a *Client) {
		for _, acl := range [][]jute.ACL{
			Anyone(0), Anyone(1), Anyone(32), Anyone(-1),
			append(Anyone(1), Anyone(1)...), // duplicates are removed
			append(Anyone(1), Anyone(2)...), // not duplicates
			All("ip", "0.0.0.0/0"), All("ip", "10.1.2.3"), append(All("ip", "10.0.0.0/8"), Open...),
			All("ip", "not an address"), All("ip", "1.2.3.4/33"), All("ip", "1.2.3"),
			// Integer.parseInt takes zeros and a sign before a number.
			All("ip", "010.1.2.03"), All("ip", "+1.-0.2.3"), All("ip", "1.2.3.4/+08"), All("ip", "1.2.3.4/"), All("ip", "1.2.3.4/8/8"),
			All("ip", "256.1.2.3"), All("ip", "-1.1.2.3"), All("ip", "1.2.3.4."), All("ip", "1.2.3. 4"), All("ip", "::1"),
			append(All("digest", "u:x"), Open...), All("digest", ""), All("digest", ":"),
			All("digest", "no colon"), All("digest", "two:colons:here"),
			All("world", "somebody"), All("", ""), append(Anyone(1), All("nonsense", "x")...),
		} {
			a.createAndLook(Create(n, nil, acl, 0), GetACL)
		}
		// For auth, the connection has presented no credential.
		for _, bad := range [][]jute.ACL{nil, {}, All("nonsense", "x"), Presented} {
			a.Fails(jute.ErrInvalidACL, Create(n, nil, bad, 0))
		}
		// The server checks the ACL before the parent.
		a.Fails(jute.ErrInvalidACL, Create("/case/missing/n", nil, nil, 0))
	})},
	{Name: "paths", Run: one(func(s *Script, a *Client) {
		for _, path := range []string{
			"", "x", "x/y", "/", "//", "/case/n/", "/case//n", "/case/.", "/case/..", "/case/./n", "/case/../n",
			"/case/a\x00b", "/case/a\x01b", "/case/a\x1f", "/case/a\x7fb", "/case/a\u0085b", "/case/a\ud7ff", "/case/a\uf8ff",
			"/case/a\ufff0", "/case/a\uf900", "/case/a\uffef", "/case/a\uffff", "/case/a\U00010000", "/case/a\U0010ffff",
			"/case/ä", "/case/日本", "/case/😀", "/case/ ", "/case/...", "/case/.n", "/case/n.",
			"/case/a\\b", "/case/a\tb", "/case/a\nb", "/case/a\xffb",
		} {
			for _, flags := range []int32{0, jute.FlagSequential} {
				if path == "/" && flags != 0 {
					continue // succeeds, but the number depends on other cases
				}
				r := a.createAndLook(Create(path, nil, Open, flags), exists)
				if session.CheckPath(path) == nil {
					s.Equal(int32(0), r.Err, "the server accepts what the library does")
				}
			}
		}
		a.Fails(jute.ErrBadArguments, Plain("/case/😀")) // two surrogates
		a.Fails(jute.ErrBadArguments, Plain(""), Plain("x"), Plain("/case/.."), Plain("/case/a\x00b"))
		// The server looks up the parent before it validates the whole path
		// (PrepRequestProcessor).
		a.Fails(jute.ErrNoNode, Plain("/case/n/"))
		// It validates the path with its number. Here the number is the whole
		// name.
		a.Fails(jute.ErrBadArguments, Plain("/case/"))
		r := a.Ok(Sequential("/case/"))
		a.Ok(Delete(r.Path, -1))
	})},
	{Name: "null and empty data", Run: one(func(s *Script, a *Client) {
		for _, data := range [][2][]byte{{nil, {}}, {{}, nil}} {
			a.Ok(Create(n, data[0], Open, 0))
			s.Equal(data[0], a.Ok(GetData(n, false)).Data, "null stays null, and empty stays empty")
			a.Ok(SetData(n, data[1], -1))
			s.Equal(data[1], a.Ok(GetData(n, false)).Data, "one replaces the other")
			a.Ok(Delete(n, -1))
		}
	})},
	{Name: "createContainer", Run: one(func(s *Script, a *Client) {
		r := a.Ok(CreateContainer("/case/box", []byte("d"), Open, jute.FlagContainer))
		// In the server's tree a special owner marks a container, but the Stat
		// does not show it (DataNode.copyStat).
		s.Equal(int64(0), r.Stat.EphemeralOwner, "the owner")
		a.Ok(GetData("/case/box", false), GetChildren2(root, false), Delete("/case/box", -1))
		// The operation makes it a container. The flags only determine whether
		// its name gets a number.
		for _, flags := range []int32{0, 1, 2, 3, 5, 6, 7, -1} {
			a.createAndLook(CreateContainer("/case/box", nil, Open, flags), exists)
		}
		a.Ok(GetEphemerals(root))
	})},
	{Name: "createTTL is switched off", Run: one(func(s *Script, a *Client) {
		ttl := func(flags int32, ms int64) Request { return CreateTTL(n, nil, Open, flags, ms) }
		a.Fails(jute.ErrUnimplemented, ttl(jute.FlagTTL, 1000), ttl(jute.FlagSequentialTTL, 1000))
		a.Drain()
		// Without the flag a time to live is an error. Before 3.9 a multi ignores
		// it, since there the flags determine the operation (Op.Create).
		for flags := range int32(5) {
			a.Fails(jute.ErrBadArguments, ttl(flags, 1000))
			a.Call(Multi(ttl(flags, 1000)))
			if s.Since(zktest.ZooKeeper39) { // or it stops the server
				a.Call(Multi(ttl(flags, -1)), Multi(ttl(flags, 0)))
			}
		}
		for _, ms := range []int64{-1, 0, 1 << 40} {
			a.Call(ttl(jute.FlagTTL, ms), Multi(ttl(jute.FlagTTL, ms)))
		}
		a.Call(Multi(Create(n, nil, Open, jute.FlagTTL)))
		a.Ok(Exists(root, false))
	})},
	{Name: "a frame that is too large", Run: one(func(s *Script, a *Client) {
		// The body of a frame may have 1,048,575 bytes (jute.maxbuffer).
		size := func(data int) Request { return Create(n, make([]byte, data), Open, 0) }
		over := 8 + len(size(0).Body)
		a.Ok(size(jute.MaxFrame - over))
		s.Equal(int32(jute.MaxFrame-over), a.Ok(Exists(n, false)).Stat.DataLength, "length")
		a.Ok(GetData(n, false))
		a.Send(SetData(n, make([]byte, jute.MaxFrame), -1))
		a.Closed()
	})},
}
