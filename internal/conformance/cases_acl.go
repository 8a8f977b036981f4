package conformance

import (
	"fmt"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var aclCases = []Case{
	{Name: "getACL and setACL", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n))
		before := a.Ok(GetACL(n)).Stat
		r := a.Ok(SetACL(n, append(Anyone(31), Grant(1, "digest", "u:hash")...), 0))
		s.Equal(int32(1), r.Stat.Aversion, "aversion counts the changes of the ACL")
		s.Equal(before.Mzxid, r.Stat.Mzxid, "mzxid does not change")
		s.Equal(before.Pzxid, r.Stat.Pzxid, "pzxid does not change")
		s.Equal(before.Version, r.Stat.Version, "version does not change")
		a.Ok(GetACL(n))
		a.Fails(jute.ErrBadVersion, SetACL(n, Open, 0), SetACL(n, Open, -2))
		a.Ok(SetACL(n, Open, -1), SetACL(n, append(Anyone(1), Anyone(1)...), 2))
		a.Fails(jute.ErrNoNode, SetACL("/case/missing", Open, -1), GetACL("/case/missing"))
		// The server checks the ACL before the znode and its version.
		a.Fails(jute.ErrInvalidACL, SetACL(n, Presented, -1), SetACL(n, nil, 7), SetACL("/case/missing", nil, -1))
		a.Ok(Exists(n, false))
	})},
	{Name: "what each permission allows", Run: one(func(s *Script, a *Client) {
		for _, perm := range []int32{jute.PermRead, jute.PermWrite, jute.PermCreate, jute.PermDelete, jute.PermAdmin} {
			for _, perms := range []int32{perm, jute.PermAll &^ perm} {
				node := fmt.Sprintf("%s/%d", root, perms)
				a.Ok(Plain(node), Plain(node+"/child"), SetACL(node, Anyone(perms), -1))
				a.Call(GetData(node, false), GetChildren(node, false), Exists(node, false), GetACL(node))
				a.Call(Multi(Check(node, -1)), SetData(node, nil, -1), Plain(node+"/new"), Container(node+"/box"))
				a.Call(Delete(node+"/child", -1), Delete(node+"/missing", -1), SetACL(node, Anyone(perms), -1))
				// A znode's own ACL does not protect it from being deleted.
				a.Call(Delete(node+"/child", -1), Delete(node+"/new", -1), Delete(node+"/box", -1), Delete(node, -1))
			}
		}
	})},
	{Name: "NoAuth comes before other errors", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Plain(m))
		a.Fails(jute.ErrBadVersion, Delete(n, 5)) // before NotEmpty
		a.Ok(SetACL(n, ReadOnly, -1))
		a.Fails(jute.ErrNoAuth, SetData(n, nil, 9), SetACL(n, Open, 9), Plain(m), Delete(m, 5), Delete(n+"/missing", -1))
		a.Fails(jute.ErrBadVersion, Multi(Check(n, 9)))
	})},
	// A client with READ but not ADMIN sees the users in a digest ACL, but not
	// their hashes (FinalRequestProcessor).
	{Name: "getACL redacts digests", Run: two(func(s *Script, a, b *Client) {
		a.present("digest", "u:secret")
		rest := slices.Concat(ReadOnly, Grant(1, "ip", "10.1.2.3"))
		a.Ok(Create(n, nil, slices.Concat(Presented, rest, Grant(1, "digest", "v:hash")), 0))
		s.Equal(slices.Concat(digestACL("u:secret"), rest, Grant(1, "digest", "v:hash")), a.Ok(GetACL(n)).ACL, "the whole ACL")
		s.Equal(slices.Concat(All("digest", "u:x"), rest, Grant(1, "digest", "v:x")), b.Ok(GetACL(n)).ACL, "without hashes")
		a.Ok(Create("/case/hidden", nil, digestACL("u:secret"), 0))
		b.Fails(jute.ErrNoAuth, GetACL("/case/hidden"))
	})},
}

// aclNumbers creates and deletes znodes with ACLs in every way that a server has. Its last
// znode has an ACL of its own, which gets the last number. A server gives numbers to the
// open ACL, too: only the znodes that it makes itself have it without one
// (ReferenceCountedACLCache).
var aclNumbers = Case{Name: "numbers of ACLs", Run: two(func(s *Script, a, b *Client) {
	me, you := digestACL("u:secret"), digestACL("v:secret")
	with := func(name string, acl []jute.ACL) Request { return Create("/case/"+name, nil, acl, 0) }
	a.present("digest", "u:secret")
	a.Ok(with("a", me), with("b", me), Delete("/case/a", -1), Delete("/case/b", -1))
	s.Note("a list that comes again")
	a.Ok(with("a", me), SetACL("/case/a", me, -1), with("b", append(me, me...)), SetACL("/case/b", me, -1))
	a.Ok(with("c", Presented), SetACL("/case/c", append(me, you...), -1), with("d", append(you, me...)))
	s.Note("lists of znodes that the server makes")
	a.Ok(with("e", ReadOnly), SetACL("/", Anyone(jute.PermAll&^jute.PermAdmin), -1))
	s.Note("requests that fail")
	a.Fails(jute.ErrNoNode, with("none/a", you))
	a.Fails(jute.ErrBadVersion, SetACL("/case/a", you, 7), Multi(with("f", you), SetData("/case/a", nil, 7)))
	s.Note("a multi, a session and a container")
	a.Ok(Multi(with("f", you), Delete("/case/f", -1)))
	b.Ok(Create("/case/ephemeral", nil, Anyone(jute.PermAll&^jute.PermWrite), jute.FlagEphemeral))
	b.End()
	box := root + "/box"
	a.Ok(CreateContainer(box, nil, Anyone(jute.PermRead|jute.PermCreate|jute.PermDelete), jute.FlagContainer))
	a.Ok(Plain(box+"/n"), AddWatch(box, jute.WatchPersistent), Delete(box+"/n", -1))
	a.Receive() // the container's end
	a.Ok(with("last", Anyone(jute.PermDelete)))
})}
