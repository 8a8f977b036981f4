package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var createCases = []Case{
	{Name: "plain", Run: one(func(s *Script, a *Client) {
		a.Ok(GetChildren2(s.Path(""), false))
		r := a.Ok(Create(s.Path("n"), []byte("data"), Open, 0))
		s.Equal(s.Path("n"), r.Path, "the reply has the path")
		st := a.Ok(Exists(s.Path("n"), false)).Stat
		s.Equal(st.Czxid, st.Mzxid, "mzxid of a new znode")
		s.Equal(st.Czxid, st.Pzxid, "pzxid of a new znode")
		parent := a.Ok(GetChildren2(s.Path(""), false)).Stat
		s.Equal(st.Czxid, parent.Pzxid, "pzxid of the parent")
		s.Equal(int32(1), parent.Cversion, "cversion of the parent")
		s.Equal(int32(1), parent.NumChildren, "children of the parent")
		s.Equal(int32(0), parent.Version, "version of the parent")
	})},
	{Name: "flags", Run: one(func(s *Script, a *Client) {
		for flags := range int32(4) {
			for _, op := range []func(string, []byte, []jute.ACL, int32) Request{Create, Create2} {
				r := a.Ok(op(s.Path("n"), []byte("x"), Open, flags))
				st := a.Ok(Exists(r.Path, false)).Stat
				owner := int64(0)
				if flags&jute.FlagEphemeral != 0 {
					owner = a.ID
				}
				s.Equal(owner, st.EphemeralOwner, "owner")
				a.Ok(GetChildren2(s.Path(""), false))
				a.Ok(Delete(r.Path, -1))
			}
		}
	})},
	{Name: "flags that op create does not know", Run: one(func(s *Script, a *Client) {
		// CreateMode knows 4, a container, and PrepRequestProcessor accepts
		// it. But the transaction is a plain create, which cannot express a
		// container, so the znode is a plain one.
		r := a.Ok(Create(s.Path("box"), nil, Open, jute.FlagContainer))
		a.Ok(Exists(r.Path, false))
		a.Ok(Delete(r.Path, -1))
		// 5 and 6, znodes with a time to live, are an extension that is off.
		a.Fails(jute.ErrUnimplemented, Create(s.Path("ttl"), nil, Open, jute.FlagTTL))
		a.Fails(jute.ErrUnimplemented, Create(s.Path("ttl"), nil, Open, jute.FlagSequentialTTL))
		inMulti := jute.ErrBadArguments
		if s.Since(zktest.ZooKeeper39) {
			inMulti = jute.ErrMarshalling
		}
		for _, flags := range []int32{7, 8, 99, -1, math.MinInt32} {
			a.Fails(jute.ErrBadArguments, Create(s.Path("n"), nil, Open, flags))
			a.Fails(jute.ErrBadArguments, Create2(s.Path("n"), nil, Open, flags))
			a.Fails(inMulti, Multi(Create(s.Path("n"), nil, Open, flags)))
		}
		a.Ok(GetChildren2(s.Path(""), false))
	})},
	{Name: "NodeExists", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		for flags := range int32(2) {
			a.Fails(jute.ErrNodeExists, Create(s.Path("n"), nil, Open, flags))
			a.Fails(jute.ErrNodeExists, Create2(s.Path("n"), nil, Open, flags))
		}
		a.Fails(jute.ErrNodeExists, CreateContainer(s.Path("n"), nil, Open, jute.FlagContainer))
		a.Fails(jute.ErrNodeExists, Create("/zookeeper", nil, Open, 0))
		st := a.Ok(Exists(s.Path(""), false)).Stat
		s.Equal(int32(1), st.Cversion, "failed creates do not count")
	})},
	{Name: "NoNode", Run: one(func(s *Script, a *Client) {
		for flags := range int32(4) {
			a.Fails(jute.ErrNoNode, Create(s.Path("missing/n"), nil, Open, flags))
			a.Fails(jute.ErrNoNode, Create2(s.Path("missing/n"), nil, Open, flags))
		}
		a.Fails(jute.ErrNoNode, CreateContainer(s.Path("missing/n"), nil, Open, jute.FlagContainer))
	})},
	{Name: "NoChildrenForEphemerals", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		for flags := range int32(4) {
			a.Fails(jute.ErrNoChildrenForEphemerals, Create(s.Path("e/n"), nil, Open, flags))
		}
		a.Fails(jute.ErrNoChildrenForEphemerals, CreateContainer(s.Path("e/n"), nil, Open, jute.FlagContainer))
		// The server checks the parent's ACL first.
		a.Ok(SetACL(s.Path("e"), ReadOnly, -1))
		a.Fails(jute.ErrNoAuth, Create(s.Path("e/n"), nil, Open, 0))
	})},
	{Name: "InvalidACL", Run: one(func(s *Script, a *Client) {
		acl := func(scheme, id string) []jute.ACL {
			return []jute.ACL{{Perms: 31, Scheme: scheme, ID: id}}
		}
		for _, bad := range [][]jute.ACL{
			acl("world", "somebody"),
			acl("", ""),
			acl("digest", "no colon"),
			acl("digest", "two:colons:here"),
			acl("digest", ":"),
			acl("digest", ""),
			acl("ip", "not an address"),
			acl("ip", "1.2.3.4/33"),
			acl("ip", "1.2.3"),
			append(acl("world", "anyone"), acl("nonsense", "x")...),
		} {
			r := a.Call(Create(s.Path("n"), nil, bad, 0))
			if r.Err == 0 {
				a.Ok(GetACL(r.Path))
				a.Ok(Delete(r.Path, -1))
			}
		}
		// For auth, the connection has presented no credential.
		for _, bad := range [][]jute.ACL{nil, {}, acl("nonsense", "x"), acl("auth", "")} {
			a.Fails(jute.ErrInvalidACL, Create(s.Path("n"), nil, bad, 0))
		}
		// The server checks the ACL before the parent.
		a.Fails(jute.ErrInvalidACL, Create(s.Path("missing/n"), nil, nil, 0))
	})},
	{Name: "valid ACLs", Run: one(func(s *Script, a *Client) {
		for _, good := range [][]jute.ACL{
			Anyone(0), Anyone(1), Anyone(32), Anyone(-1),
			append(Anyone(1), Anyone(1)...), // duplicates are removed
			append(Anyone(1), Anyone(2)...), // not duplicates
			{{Perms: 31, Scheme: "ip", ID: "0.0.0.0/0"}},
			{{Perms: 31, Scheme: "ip", ID: "10.1.2.3"}},
			{{Perms: 31, Scheme: "ip", ID: "10.0.0.0/8"}, {Perms: 31, Scheme: "world", ID: "anyone"}},
			{{Perms: 31, Scheme: "digest", ID: "u:x"}, {Perms: 31, Scheme: "world", ID: "anyone"}},
		} {
			r := a.Call(Create(s.Path("n"), nil, good, 0))
			if r.Err == 0 {
				a.Call(GetACL(r.Path))
				a.Ok(Delete(r.Path, -1))
			}
		}
	})},
	{Name: "paths", Run: one(func(s *Script, a *Client) {
		for _, path := range []string{
			"", "x", "x/y", "/", "//", s.Path("n/"), s.Path("/n"), s.Path("."), s.Path(".."),
			s.Path("./n"), s.Path("../n"), s.Path("a\x00b"), s.Path("a\x01b"), s.Path("a\x1f"),
			s.Path("a\x7fb"), s.Path("a\u0085b"), s.Path("a\ud7ff"), s.Path("a\uf8ff"), s.Path("a\ufff0"),
			s.Path("a\uf900"), s.Path("a\uffef"), s.Path("a\uffff"), s.Path("a\U00010000"), s.Path("a\U0010ffff"),
			s.Path("ä"), s.Path("日本"), s.Path("😀"), s.Path(" "), s.Path("..."), s.Path(".n"), s.Path("n."),
			s.Path("a\\b"), s.Path("a\tb"), s.Path("a\nb"), s.Path("a\xffb"),
		} {
			for _, flags := range []int32{0, jute.FlagSequential} {
				if path == "/" && flags != 0 {
					continue // succeeds, but the number depends on other clients
				}
				r := a.Call(Create(path, nil, Open, flags))
				if r.Err == 0 {
					a.Ok(Exists(r.Path, false))
					a.Ok(Delete(r.Path, -1))
				}
				if session.CheckPath(path) == nil {
					s.Equal(int32(0), r.Err, "the server accepts what the library does")
				}
			}
		}
		a.Fails(jute.ErrBadArguments, Create(s.Path("😀"), nil, Open, 0)) // two surrogates
		a.Fails(jute.ErrBadArguments, Create("", nil, Open, 0))
		a.Fails(jute.ErrBadArguments, Create("x", nil, Open, 0))
		a.Fails(jute.ErrBadArguments, Create(s.Path(".."), nil, Open, 0))
		a.Fails(jute.ErrBadArguments, Create(s.Path("a\x00b"), nil, Open, 0))
		// The server looks up the parent before it validates the whole path
		// (PrepRequestProcessor).
		a.Fails(jute.ErrNoNode, Create(s.Path("n/"), nil, Open, 0))
		// It validates the path with its number. Here the number is the whole
		// name.
		a.Fails(jute.ErrBadArguments, Create(s.Path("")+"/", nil, Open, 0))
		r := a.Ok(Create(s.Path("")+"/", nil, Open, jute.FlagSequential))
		a.Ok(Delete(r.Path, -1))
	})},
	{Name: "null and empty data", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("null"), nil, Open, 0))
		a.Ok(Create(s.Path("empty"), []byte{}, Open, 0))
		s.Equal([]byte(nil), a.Ok(GetData(s.Path("null"), false)).Data, "null stays null")
		s.Equal([]byte{}, a.Ok(GetData(s.Path("empty"), false)).Data, "empty stays empty")
		a.Ok(SetData(s.Path("empty"), nil, -1))
		a.Ok(SetData(s.Path("null"), []byte{}, -1))
		s.Equal([]byte(nil), a.Ok(GetData(s.Path("empty"), false)).Data, "null replaces empty")
		s.Equal([]byte{}, a.Ok(GetData(s.Path("null"), false)).Data, "empty replaces null")
	})},
	{Name: "create2", Run: one(func(s *Script, a *Client) {
		for flags := range int32(4) {
			r := a.Ok(Create2(s.Path("n"), []byte("data"), Open, flags))
			s.Equal(r.Zxid, r.Stat.Czxid, "the Stat is that of this transaction")
			s.Equal(int32(4), r.Stat.DataLength, "the Stat counts the data")
			a.Ok(Delete(r.Path, -1))
		}
	})},
	{Name: "createContainer", Run: one(func(s *Script, a *Client) {
		r := a.Ok(CreateContainer(s.Path("box"), []byte("d"), Open, jute.FlagContainer))
		// In the server's tree a special owner marks a container, but the Stat
		// does not show it (DataNode.copyStat).
		s.Equal(int64(0), r.Stat.EphemeralOwner, "the owner")
		a.Ok(GetData(s.Path("box"), false))
		a.Ok(GetChildren2(s.Path(""), false))
		a.Ok(Delete(s.Path("box"), -1))
		// The operation makes it a container. The flags only determine whether
		// its name gets a number.
		for _, flags := range []int32{0, 1, 2, 3, 5, 6, 7, -1} {
			r := a.Call(CreateContainer(s.Path("box"), nil, Open, flags))
			if r.Err == 0 {
				a.Ok(Exists(r.Path, false))
				a.Ok(Delete(r.Path, -1))
			}
		}
		a.Ok(GetEphemerals(s.Path("")))
	})},
	{Name: "createTTL is switched off", Run: one(func(s *Script, a *Client) {
		a.Fails(jute.ErrUnimplemented, CreateTTL(s.Path("n"), nil, Open, jute.FlagTTL, 1000))
		a.Fails(jute.ErrUnimplemented, CreateTTL(s.Path("n"), nil, Open, jute.FlagSequentialTTL, 1000))
		a.Drain()
		// Without the flag a time to live is an error. Before 3.9 a multi ignores
		// it, since there the flags determine the operation (Op.Create).
		for flags := range int32(5) {
			a.Fails(jute.ErrBadArguments, CreateTTL(s.Path("n"), nil, Open, flags, 1000))
			a.Call(Multi(CreateTTL(s.Path("n"), nil, Open, flags, 1000)))
			if s.Since(zktest.ZooKeeper39) { // or it stops the server
				a.Call(Multi(CreateTTL(s.Path("n"), nil, Open, flags, -1)))
				a.Call(Multi(CreateTTL(s.Path("n"), nil, Open, flags, 0)))
			}
		}
		for _, ttl := range []int64{-1, 0, 1 << 40} {
			a.Call(CreateTTL(s.Path("n"), nil, Open, jute.FlagTTL, ttl))
			a.Call(Multi(CreateTTL(s.Path("n"), nil, Open, jute.FlagTTL, ttl)))
		}
		a.Call(Multi(Create(s.Path("n"), nil, Open, jute.FlagTTL)))
		a.Ok(Exists(s.Path(""), false))
	})},
	{Name: "a frame that is too large", Run: one(func(s *Script, a *Client) {
		// The body of a frame may have 1,048,575 bytes (jute.maxbuffer).
		size := func(data int) Request { return Create(s.Path("n"), make([]byte, data), Open, 0) }
		over := 8 + len(size(0).Body)
		a.Ok(size(jute.MaxFrame - over))
		s.Equal(int32(jute.MaxFrame-over), a.Ok(Exists(s.Path("n"), false)).Stat.DataLength, "length")
		a.Ok(GetData(s.Path("n"), false))
		a.Send(SetData(s.Path("n"), make([]byte, jute.MaxFrame), -1))
		a.Closed()
	})},
}
