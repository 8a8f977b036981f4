package conformance

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var aclCases = []Case{
	{Name: "getACL and setACL", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		before := a.Ok(GetACL(s.Path("n"))).Stat
		r := a.Ok(SetACL(s.Path("n"), append(Anyone(31), jute.ACL{Perms: 1, Scheme: "digest", ID: "u:hash"}), 0))
		s.Equal(int32(1), r.Stat.Aversion, "aversion counts the changes of the ACL")
		s.Equal(before.Mzxid, r.Stat.Mzxid, "mzxid does not change")
		s.Equal(before.Pzxid, r.Stat.Pzxid, "pzxid does not change")
		s.Equal(before.Version, r.Stat.Version, "version does not change")
		a.Ok(GetACL(s.Path("n")))
		a.Fails(jute.ErrBadVersion, SetACL(s.Path("n"), Open, 0))
		a.Fails(jute.ErrBadVersion, SetACL(s.Path("n"), Open, -2))
		a.Ok(SetACL(s.Path("n"), Open, -1))
		a.Ok(SetACL(s.Path("n"), append(Anyone(1), Anyone(1)...), 2))
		a.Fails(jute.ErrNoNode, SetACL(s.Path("missing"), Open, -1))
		a.Fails(jute.ErrNoNode, GetACL(s.Path("missing")))
		a.Ok(Exists(s.Path("n"), false))
	})},
	{Name: "InvalidACL", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("n"), nil, -1))
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("n"), []jute.ACL{}, -1))
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("n"), []jute.ACL{{Perms: 31, Scheme: "auth"}}, -1))
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("n"), []jute.ACL{{Perms: 31, Scheme: "nonsense"}}, -1))
		// The server checks the ACL before the znode and its version.
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("missing"), nil, -1))
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("n"), nil, 7))
	})},
	{Name: "what each permission allows", Run: one(func(s *Script, a *Client) {
		n := 0
		for _, perm := range []int32{jute.PermRead, jute.PermWrite, jute.PermCreate, jute.PermDelete, jute.PermAdmin} {
			for _, perms := range []int32{perm, jute.PermAll &^ perm} {
				s.Note("permissions %d", perms)
				n++
				node := fmt.Sprintf("%d", n)
				a.Ok(Create(s.Path(node), nil, Open, 0))
				a.Ok(Create(s.Path(node+"/child"), nil, Open, 0))
				a.Ok(SetACL(s.Path(node), Anyone(perms), -1))
				a.Call(GetData(s.Path(node), false))
				a.Call(GetChildren(s.Path(node), false))
				a.Call(Exists(s.Path(node), false))
				a.Call(GetACL(s.Path(node)))
				a.Call(Multi(Check(s.Path(node), -1)))
				a.Call(SetData(s.Path(node), nil, -1))
				a.Call(Create(s.Path(node+"/new"), nil, Open, 0))
				a.Call(CreateContainer(s.Path(node+"/box"), nil, Open, jute.FlagContainer))
				a.Call(Delete(s.Path(node+"/child"), -1))
				a.Call(Delete(s.Path(node+"/missing"), -1))
				a.Call(SetACL(s.Path(node), Anyone(perms), -1))
				// A znode's own ACL does not protect it from being deleted.
				for _, child := range []string{"child", "new", "box"} {
					a.Call(Delete(s.Path(node+"/"+child), -1))
				}
				a.Call(Delete(s.Path(node), -1))
			}
		}
	})},
	{Name: "NoAuth comes before BadVersion and NodeExists", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Ok(Create(s.Path("n/child"), nil, Open, 0))
		a.Ok(SetACL(s.Path("n"), Anyone(jute.PermRead), -1))
		a.Fails(jute.ErrNoAuth, SetData(s.Path("n"), nil, 9))
		a.Fails(jute.ErrNoAuth, SetACL(s.Path("n"), Open, 9))
		a.Fails(jute.ErrNoAuth, Create(s.Path("n/child"), nil, Open, 0))
		a.Fails(jute.ErrBadVersion, Multi(Check(s.Path("n"), 9)))
	})},
	// A client with READ but not ADMIN sees the users in a digest ACL, but not
	// their hashes (FinalRequestProcessor).
	{Name: "getACL redacts digests", Run: two(func(s *Script, a, b *Client) {
		a.present("digest", "u:secret")
		acl := append([]jute.ACL{{Perms: jute.PermAll, Scheme: "auth"}}, Anyone(jute.PermRead)...)
		acl = append(acl, jute.ACL{Perms: 1, Scheme: "ip", ID: "10.1.2.3"}, jute.ACL{Perms: 1, Scheme: "digest", ID: "v:hash"})
		a.Ok(Create(s.Path("n"), nil, acl, 0))
		s.Equal([]string{"[digest:" + digest("u:secret") + ":31]", "[world:anyone:1]", "[ip:10.1.2.3:1]", "[digest:v:hash:1]"},
			a.Ok(GetACL(s.Path("n"))).ACL, "the whole ACL")
		s.Equal([]string{"[digest:u:x:31]", "[world:anyone:1]", "[ip:10.1.2.3:1]", "[digest:v:x:1]"}, b.Ok(GetACL(s.Path("n"))).ACL, "without hashes")
		a.Ok(Create(s.Path("hidden"), nil, digestACL(jute.PermAll, "u:secret"), 0))
		b.Fails(jute.ErrNoAuth, GetACL(s.Path("hidden")))
	})},
}

// aclNumbers creates and deletes znodes with ACLs in every way that a server has. Its last
// znode has an ACL of its own, which gets the last number. A server gives numbers to the
// open ACL, too: only the znodes that it makes itself have it without one
// (ReferenceCountedACLCache).
var aclNumbers = Case{Name: "numbers of ACLs", Run: one(func(s *Script, a *Client) {
	me, you := digestACL(jute.PermAll, "u:secret"), digestACL(jute.PermAll, "v:secret")
	a.present("digest", "u:secret")
	a.Ok(Create(s.Path("a"), nil, me, 0))
	a.Ok(Create(s.Path("b"), nil, me, 0))
	a.Ok(Delete(s.Path("a"), -1))
	a.Ok(Delete(s.Path("b"), -1))
	s.Note("a list that comes again")
	a.Ok(Create(s.Path("a"), nil, me, 0))
	a.Ok(SetACL(s.Path("a"), me, -1))
	a.Ok(Create(s.Path("b"), nil, append(me, me...), 0))
	a.Ok(SetACL(s.Path("b"), me, -1))
	a.Ok(Create(s.Path("c"), nil, []jute.ACL{{Perms: jute.PermAll, Scheme: "auth"}}, 0))
	a.Ok(SetACL(s.Path("c"), append(me, you...), -1))
	a.Ok(Create(s.Path("d"), nil, append(you, me...), 0))
	s.Note("lists of znodes that the server makes")
	a.Ok(Create(s.Path("e"), nil, ReadOnly, 0))
	a.Ok(SetACL("/", Anyone(jute.PermAll&^jute.PermAdmin), -1))
	s.Note("requests that fail")
	a.Fails(jute.ErrNoNode, Create(s.Path("none/a"), nil, you, 0))
	a.Fails(jute.ErrBadVersion, SetACL(s.Path("a"), you, 7))
	a.Fails(jute.ErrBadVersion, Multi(Create(s.Path("f"), nil, you, 0), SetData(s.Path("a"), nil, 7)))
	s.Note("a multi, a session and a container")
	a.Ok(Multi(Create(s.Path("f"), nil, you, 0), Delete(s.Path("f"), -1)))
	b := s.Connect("b")
	b.Ok(Create(s.Path("ephemeral"), nil, Anyone(jute.PermAll&^jute.PermWrite), jute.FlagEphemeral))
	b.End()
	box := s.Path("box")
	a.Ok(CreateContainer(box, nil, Anyone(jute.PermRead|jute.PermCreate|jute.PermDelete), jute.FlagContainer))
	a.Ok(Create(box+"/n", nil, Open, 0))
	a.Ok(AddWatch(box, jute.WatchPersistent))
	a.Ok(Delete(box+"/n", -1))
	a.Receive() // the container's end
	a.Ok(Create(s.Path("last"), nil, Anyone(jute.PermDelete), 0))
})}
