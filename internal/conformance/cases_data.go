package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var dataCases = []Case{
	// Reads do not validate paths: an invalid path is just not found. Writes do.
	{Name: "invalid paths", Run: one(func(s *Script, a *Client) {
		// The empty path is an alias of the root (DataTree).
		s.Equal(int32(0), a.Quietly(GetData("", false)).Err, "the root")
		s.Equal(int32(0), a.Quietly(Exists("", false)).Err, "the root")
		writes := func(path string) []Request {
			return []Request{SetData(path, nil, -1), SetACL(path, Open, -1), Multi(Check(path, -1)), Delete(path, -1)}
		}
		a.Call(writes("")...)
		for _, path := range []string{"x", "//", "/case/n/", "/case/..", "/case/a\x00b", "/case/a\x01b"} {
			for _, read := range reads {
				a.Call(read(path, false))
			}
			a.Call(GetACL(path), Sync(path))
			if !s.Since(zktest.ZooKeeper39) {
				a.Call(Check(path, -1))
			}
			a.Drain()
			a.Call(writes(path)...)
		}
	})},
	{Name: "setData", Run: one(func(s *Script, a *Client) {
		made := a.Ok(Create2(n, []byte("data"), Open, 0)).Stat
		before := a.Ok(Exists(root, false)).Stat
		r := a.Ok(SetData(n, []byte("longer data"), 0))
		s.Equal([]int64{made.Czxid, r.Zxid, made.Pzxid}, []int64{r.Stat.Czxid, r.Stat.Mzxid, r.Stat.Pzxid}, "czxid, mzxid and pzxid")
		s.Equal([]int32{1, 11}, []int32{r.Stat.Version, r.Stat.DataLength}, "version and length")
		for _, version := range []int32{0, 2, -2, math.MaxInt32} {
			a.Fails(jute.ErrBadVersion, SetData(n, nil, version))
		}
		s.Equal(int32(2), a.Ok(SetData(n, nil, -1)).Stat.Version, "version")
		// Setting the same data again is a change too.
		s.Equal(int32(3), a.Ok(SetData(n, nil, 2)).Stat.Version, "version")
		a.Fails(jute.ErrNoNode, SetData("/case/missing", nil, -1), SetData("/case/missing", nil, 3))
		s.Equal(before, a.Ok(Exists(root, false)).Stat, "the parent does not change")
	})},
	// The reply to a check outside a multi would have a null Stat, which cannot
	// be serialised. The server catches the exception
	// (NIOServerCnxn.sendResponse), and the client waits forever.
	{Name: "check alone", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n))
		if s.Since(zktest.ZooKeeper39) {
			// An operation that Request.isValid does not know.
			a.Fails(jute.ErrUnimplemented, Check(n, 0))
			a.Closed()
			return
		}
		a.Fails(jute.ErrBadVersion, Check(n, 1))
		a.Fails(jute.ErrNoNode, Check("/case/missing", -1))
		a.Try(Check(n, 0))
	})},
	{Name: "sync", Run: one(func(s *Script, a *Client) {
		s.Equal(n, a.Ok(Sync(n)).Path, "the reply has the path, whether or not the znode exists")
		a.Ok(Sync("/"))
	})},
	{Name: "reads without READ", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Create(n, []byte("data"), WriteOnly, 0))
		a.Fails(jute.ErrNoAuth, GetData(n, false), GetChildren(n, false), GetChildren2(n, false),
			GetAllChildrenNumber(n), Multi(Check(n, -1)))
		// READ or ADMIN suffices for the ACL. A watch that stays needs neither.
		a.Ok(GetACL(n), AddWatch(n, jute.WatchPersistent))
		if s.Since(zktest.ZooKeeper39) {
			a.Fails(jute.ErrNoAuth, Exists(n, true))
			b.Ok(SetData(n, nil, -1))
			a.Drain()
			return
		}
		a.Fails(jute.ErrNoAuth, Check(n, -1))
		a.Ok(Exists(n, false)) // every client may read the Stat
	})},
}
