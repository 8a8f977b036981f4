package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// SkipACLCases are for a server that does not check ACLs (zookeeper.skipACL=yes).
var SkipACLCases = []Case{
	{Name: "skipACL/everything is allowed", Run: one(func(s *Script, a *Client) {
		n := s.Path("n")
		a.Ok(Create(n, []byte("x"), digestACL(jute.PermAll, "u:secret"), 0))
		a.Ok(GetData(n, true))
		a.Ok(GetChildren2(n, true))
		s.Equal([]Event{dataChanged(n)}, a.Ok(SetData(n, nil, -1)).Events, "events too")
		a.Ok(Create(n+"/m", nil, Open, 0))
		a.Ok(Multi(Check(n, -1)))
		a.Ok(Delete(n+"/m", -1))
		// Digests are not redacted.
		a.Ok(GetACL(n))
		a.Ok(SetACL(n, Anyone(0), -1))
		a.Ok(GetACL(n))
	})},
	{Name: "skipACL/invalid ACLs", Run: one(func(s *Script, a *Client) {
		for _, acl := range [][]jute.ACL{nil, {}, {{Perms: 31, Scheme: "nonsense", ID: "x"}}, {{Perms: 31, Scheme: "auth"}}, Anyone(0)} {
			a.Call(Create(s.Path("n-"), nil, acl, jute.FlagSequential))
		}
	})},
	{Name: "skipACL/how the library detects it", Run: one(func(s *Script, a *Client) {
		// The client may change the znode, so it is the version that fails.
		a.Fails(jute.ErrBadVersion, SetData("/zookeeper/config", nil, math.MaxInt32))
	})},
	{Name: "skipACL/credentials", Run: one(func(s *Script, a *Client) {
		a.present("digest", "u:secret")
		a.Ok(Create(s.Path("n"), nil, []jute.ACL{{Perms: 31, Scheme: "auth"}}, 0))
		a.Ok(GetACL(s.Path("n")))
		a.present("nonsense", "x")
		a.Closed()
	})},
}

// WithoutDigestCases are for a server with digest authentication disabled
// (zookeeper.DigestAuthenticationProvider.enabled=false).
var WithoutDigestCases = []Case{
	{Name: "withoutDigest/a credential is refused", Run: one(func(s *Script, a *Client) {
		s.Equal(jute.ErrAuthFailed, a.present("digest", "u:secret").Err, "refused")
		a.Closed()
		s.Resume("a again", a).Drain()
	})},
	{Name: "withoutDigest/an ACL is invalid", Run: one(func(s *Script, a *Client) {
		a.Fails(jute.ErrInvalidACL, Create(s.Path("n"), nil, digestACL(jute.PermAll, "u:secret"), 0))
		a.Fails(jute.ErrInvalidACL, Create(s.Path("n"), nil, []jute.ACL{{Perms: 31, Scheme: "auth"}}, 0))
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Fails(jute.ErrInvalidACL, SetACL(s.Path("n"), append(Anyone(31), digestACL(31, "u:secret")...), -1))
		a.present("ip", "")
		a.Ok(Create(s.Path("m"), nil, ReadOnly, 0))
		a.Fails(jute.ErrNoAuth, SetData(s.Path("m"), nil, -1))
	})},
}
