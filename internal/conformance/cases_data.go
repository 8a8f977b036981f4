package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var dataCases = []Case{
	// Reads do not validate paths: an invalid path is just not found.
	{Name: "reads of invalid paths", Run: one(func(s *Script, a *Client) {
		// The empty path is an alias of the root (DataTree).
		s.Equal(int32(0), a.Quietly(GetData("", false)).Err, "the root")
		s.Equal(int32(0), a.Quietly(Exists("", false)).Err, "the root")
		for _, path := range []string{"x", "//", s.Path("n/"), s.Path(".."), s.Path("a\x00b"), s.Path("a\x01b")} {
			for _, op := range []func(string, bool) Request{Exists, GetData, GetChildren, GetChildren2} {
				a.Call(op(path, false))
			}
			a.Call(GetACL(path))
			a.Call(Sync(path))
			if !s.Since(zktest.ZooKeeper39) {
				a.Call(Check(path, -1))
			}
			a.Drain()
		}
	})},
	{Name: "writes to invalid paths", Run: one(func(s *Script, a *Client) {
		for _, path := range []string{"", "x", "//", s.Path("n/"), s.Path(".."), s.Path("a\x00b"), s.Path("a\x01b")} {
			a.Call(SetData(path, nil, -1))
			a.Call(SetACL(path, Open, -1))
			a.Call(Multi(Check(path, -1)))
		}
	})},
	{Name: "setData", Run: one(func(s *Script, a *Client) {
		made := a.Ok(Create2(s.Path("n"), []byte("data"), Open, 0)).Stat
		before := a.Ok(Exists(s.Path(""), false)).Stat
		r := a.Ok(SetData(s.Path("n"), []byte("longer data"), 0))
		s.Equal(r.Zxid, r.Stat.Mzxid, "mzxid")
		s.Equal(made.Czxid, r.Stat.Czxid, "czxid")
		s.Equal(made.Pzxid, r.Stat.Pzxid, "pzxid")
		s.Equal(int32(1), r.Stat.Version, "version")
		s.Equal(int32(11), r.Stat.DataLength, "length")
		a.Fails(jute.ErrBadVersion, SetData(s.Path("n"), nil, 0))
		a.Fails(jute.ErrBadVersion, SetData(s.Path("n"), nil, 2))
		a.Fails(jute.ErrBadVersion, SetData(s.Path("n"), nil, -2))
		a.Fails(jute.ErrBadVersion, SetData(s.Path("n"), nil, math.MaxInt32))
		s.Equal(int32(2), a.Ok(SetData(s.Path("n"), nil, -1)).Stat.Version, "version")
		// Setting the same data again is a change too.
		s.Equal(int32(3), a.Ok(SetData(s.Path("n"), nil, 2)).Stat.Version, "version")
		a.Fails(jute.ErrNoNode, SetData(s.Path("missing"), nil, -1))
		a.Fails(jute.ErrNoNode, SetData(s.Path("missing"), nil, 3))
		s.Equal(before, a.Ok(Exists(s.Path(""), false)).Stat, "the parent does not change")
	})},
	// The reply to a check outside a multi would have a null Stat, which cannot
	// be serialised. The server catches the exception
	// (NIOServerCnxn.sendResponse), and the client waits forever.
	{Name: "check alone", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		if s.Since(zktest.ZooKeeper39) {
			// An operation that Request.isValid does not know.
			a.Fails(jute.ErrUnimplemented, Check(s.Path("n"), 0))
			a.Closed()
			return
		}
		a.Fails(jute.ErrBadVersion, Check(s.Path("n"), 1))
		a.Fails(jute.ErrNoNode, Check(s.Path("missing"), -1))
		a.Try(Check(s.Path("n"), 0))
	})},
	{Name: "sync", Run: one(func(s *Script, a *Client) {
		s.Equal(s.Path("n"), a.Ok(Sync(s.Path("n"))).Path, "the reply has the path, whether or not the znode exists")
		a.Ok(Sync("/"))
	})},
	{Name: "reads without READ", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), []byte("data"), Anyone(jute.PermAll&^jute.PermRead), 0))
		a.Fails(jute.ErrNoAuth, GetData(s.Path("n"), false))
		a.Fails(jute.ErrNoAuth, GetChildren(s.Path("n"), false))
		a.Fails(jute.ErrNoAuth, GetChildren2(s.Path("n"), false))
		a.Fails(jute.ErrNoAuth, GetAllChildrenNumber(s.Path("n")))
		a.Fails(jute.ErrNoAuth, Multi(Check(s.Path("n"), -1)))
		// READ or ADMIN suffices for the ACL.
		a.Ok(GetACL(s.Path("n")))
		if s.Since(zktest.ZooKeeper39) {
			a.Fails(jute.ErrNoAuth, Exists(s.Path("n"), true))
			b := s.Connect("b")
			b.Ok(SetData(s.Path("n"), nil, -1))
			a.Drain()
			return
		}
		a.Fails(jute.ErrNoAuth, Check(s.Path("n"), -1))
		a.Ok(Exists(s.Path("n"), false)) // every client may read the Stat
	})},
}
