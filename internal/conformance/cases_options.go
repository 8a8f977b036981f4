package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// SkipACLCases are for a server that does not check ACLs (zookeeper.skipACL=yes).
var SkipACLCases = []Case{
	{Name: "skipACL/everything is allowed", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(n, []byte("x"), digestACL("u:secret"), 0), GetData(n, true), GetChildren2(n, true))
		s.Equal([]Event{dataChanged(n)}, a.Ok(SetData(n, nil, -1)).Events, "events too")
		a.Ok(Plain(m), Multi(Check(n, -1)), Delete(m, -1))
		// Digests are not redacted.
		a.Ok(GetACL(n), SetACL(n, Anyone(0), -1), GetACL(n))
		// By this the library detects it: the client may change the znode, so it is the version that fails.
		a.Fails(jute.ErrBadVersion, SetData("/zookeeper/config", nil, math.MaxInt32))
	})},
	{Name: "skipACL/invalid ACLs", Run: one(func(s *Script, a *Client) {
		for _, acl := range [][]jute.ACL{nil, {}, All("nonsense", "x"), Presented, Anyone(0)} {
			a.Call(Create("/case/n-", nil, acl, jute.FlagSequential))
		}
	})},
	{Name: "skipACL/credentials", Run: one(func(s *Script, a *Client) {
		a.present("digest", "u:secret")
		a.Ok(Create(n, nil, Presented, 0), GetACL(n))
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
		a.Fails(jute.ErrInvalidACL, Create(n, nil, digestACL("u:secret"), 0), Create(n, nil, Presented, 0))
		a.Ok(Plain(n))
		a.Fails(jute.ErrInvalidACL, SetACL(n, append(Anyone(31), digestACL("u:secret")...), -1))
		a.present("ip", "")
		a.Ok(Create("/case/m", nil, ReadOnly, 0))
		a.Fails(jute.ErrNoAuth, SetData("/case/m", nil, -1))
	})},
}
