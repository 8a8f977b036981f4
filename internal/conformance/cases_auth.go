package conformance

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// digest returns the id of user:password in an ACL
// (DigestAuthenticationProvider.generateDigest).
func digest(credential string) string {
	user, _, _ := strings.Cut(credential, ":")
	sum := sha1.Sum([]byte(credential))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

func digestACL(perms int32, credential string) []jute.ACL {
	return []jute.ACL{{Perms: perms, Scheme: "digest", ID: digest(credential)}}
}

// SuperCredential is the super user's credential.
const SuperCredential = "super:secret"

// SuperDigest returns the digest of SuperCredential, for the server's
// configuration.
func SuperDigest() string { return digest(SuperCredential) }

// present presents a credential with xid -4, as all clients do.
func (c *Client) present(scheme, credential string) Reply {
	c.s.t.Helper()
	return c.CallAs(jute.XidAuth, Auth(scheme, credential))
}

var authCases = []Case{
	{Name: "digest", Run: func(s *Script) {
		a, b, c := s.Connect("a"), s.Connect("b"), s.Connect("c")
		r := a.present("digest", "u:secret")
		s.Equal(int32(0), r.Err, "accepted")
		a.Ok(Create(s.Path("n"), []byte("x"), digestACL(jute.PermAll, "u:secret"), 0))
		a.Ok(GetData(s.Path("n"), false))
		b.Fails(jute.ErrNoAuth, GetData(s.Path("n"), false))
		// The server accepts any credential and compares it only with ACLs.
		b.present("digest", "u:wrong")
		b.Fails(jute.ErrNoAuth, GetData(s.Path("n"), false))
		b.Fails(jute.ErrNoAuth, SetData(s.Path("n"), nil, -1))
		b.present("digest", "u:secret")
		b.Ok(GetData(s.Path("n"), false))
		// Credentials add up. They belong to the connection, not to the
		// session.
		a.present("digest", "other:one")
		a.Ok(GetData(s.Path("n"), false))
		a.Drop()
		again := s.Resume("a again", a)
		again.Fails(jute.ErrNoAuth, GetData(s.Path("n"), false))
		again.present("digest", "u:secret")
		again.Ok(GetData(s.Path("n"), false))
		c.present("digest", "u:secret:with colon")
		c.present("digest", "without colon")
		c.present("digest", "")
		c.present("digest", ":")
		c.Fails(jute.ErrNoAuth, GetData(s.Path("n"), false))
	}},
	{Name: "digest twice", Run: one(func(s *Script, a *Client) {
		a.present("digest", "u:secret")
		a.present("digest", "u:secret")
		a.Ok(Create(s.Path("n"), nil, []jute.ACL{{Perms: 31, Scheme: "auth"}}, 0))
		a.Ok(GetACL(s.Path("n")))
	})},
	{Name: "an ACL of scheme auth grants to every presented credential", Run: one(func(s *Script, a *Client) {
		a.present("digest", "u:secret")
		a.present("digest", "v:other")
		a.Ok(Create(s.Path("n"), nil, []jute.ACL{{Perms: 31, Scheme: "auth", ID: "is ignored"}}, 0))
		// Sort the entries: they come from a hash set.
		look := func() {
			acl := a.Quietly(GetACL(s.Path("n"))).ACL
			slices.Sort(acl)
			s.Note("ACL %q", acl)
			s.Equal(true, slices.ContainsFunc(acl, func(e string) bool { return strings.Contains(e, digest("u:secret")) }), "u")
			s.Equal(true, slices.ContainsFunc(acl, func(e string) bool { return strings.Contains(e, digest("v:other")) }), "v")
		}
		look()
		a.Ok(SetACL(s.Path("n"), append(Anyone(1), jute.ACL{Perms: 1 | 16, Scheme: "auth"}), -1))
		look()
	})},
	{Name: "super", Exclusive: true, Run: two(func(s *Script, a, b *Client) {
		// The user whose digest is in the server's configuration may do
		// anything (ZooKeeperServer.checkACL).
		a.present("digest", "u:secret")
		a.Ok(Create(s.Path("n"), nil, digestACL(jute.PermRead, "u:secret"), 0))
		b.Fails(jute.ErrNoAuth, SetData(s.Path("n"), nil, -1))
		b.present("digest", SuperCredential)
		b.Ok(SetData(s.Path("n"), nil, -1))
		b.Ok(GetACL(s.Path("n")))
		b.Fails(jute.ErrBadVersion, SetData("/zookeeper/config", nil, math.MaxInt32))
		b.Ok(Create(s.Path("n/m"), nil, []jute.ACL{{Perms: 31, Scheme: "auth"}}, 0))
		b.Ok(GetACL(s.Path("n/m")))
		b.Ok(SetACL(s.Path("n"), Open, -1))
		b.Ok(GetEphemerals("/"))
	})},
	{Name: "ip", Run: one(func(s *Script, a *Client) {
		// Each connection has the identity of its address from the start. The
		// server ignores the credential.
		a.present("ip", "")
		a.present("ip", "10.1.2.3")
		a.Ok(Create(s.Path("n"), nil, []jute.ACL{{Perms: 31, Scheme: "ip", ID: "10.1.2.3"}}, 0))
		a.Fails(jute.ErrNoAuth, GetData(s.Path("n"), false))
		a.Fails(jute.ErrInvalidACL, Create(s.Path("m"), nil, []jute.ACL{{Perms: 31, Scheme: "auth"}}, 0))
	})},
	{Name: "world", Run: one(func(s *Script, a *Client) {
		r := a.present("world", "anyone")
		s.Equal(false, r.Closed, "a reply")
		a.Closed()
	})},
	{Name: "an unknown scheme", Run: one(func(s *Script, a *Client) {
		r := a.present("nonsense", "x")
		s.Equal(jute.ErrAuthFailed, r.Err, "refused")
		a.Closed()
		// The session is still alive.
		b := s.Resume("b", a)
		b.Ok(Exists(s.Path(""), false))
	})},
	{Name: "an empty scheme", Run: one(func(s *Script, a *Client) {
		a.present("", "")
		a.Closed()
	})},
	{Name: "with another xid", Run: one(func(s *Script, a *Client) {
		// The operation matters, not the xid. The reply always has the xid of
		// the request.
		a.Call(Auth("digest", "u:secret"))
		a.Ok(Create(s.Path("n"), nil, digestACL(jute.PermAll, "u:secret"), 0))
		a.Ok(GetData(s.Path("n"), false))
		a.CallAs(jute.XidAuth, GetData(s.Path("n"), false))
	})},
	{Name: "another type", Run: one(func(s *Script, a *Client) {
		r := Auth("digest", "u:secret")
		r.Body[3] = 9
		a.CallAs(jute.XidAuth, r)
		a.Ok(Create(s.Path("n"), nil, digestACL(jute.PermAll, "u:secret"), 0))
		a.Ok(GetData(s.Path("n"), false))
	})},
	{Name: "cut short", Run: func(s *Script) {
		r := Auth("digest", "u:secret")
		for i, n := range []int{len(r.Body) - 1, 8, 4, 0} {
			a := s.Connect(fmt.Sprintf("a%d", i))
			short := r
			short.Body, short.Text = r.Body[:n], fmt.Sprintf("auth of %d bytes", n)
			a.SendAs(jute.XidAuth, short)
			a.Closed()
		}
	}},
	// A credential that the provider cannot parse is refused like a wrong one
	// (ZooKeeperServer.processPacket).
	{Name: "with nulls", Run: two(func(s *Script, a, b *Client) {
		null := func(b []byte) []byte { return jute.AppendInt32(b, -1) }
		a.SendAs(jute.XidAuth, Request{Op: jute.OpAuth, Text: "auth with a null scheme",
			Body: jute.AppendString(null(jute.AppendInt32(nil, 0)), "u:secret")})
		a.Closed()
		b.SendAs(jute.XidAuth, Request{Op: jute.OpAuth, Text: "auth with a null credential",
			Body: null(jute.AppendString(jute.AppendInt32(nil, 0), "digest"))})
		b.Closed()
	})},
	{Name: "sent together with later requests", Run: two(func(s *Script, a, b *Client) {
		// A credential is in effect for later requests on its connection.
		a.Ok(Create(s.Path("n"), nil, digestACL(jute.PermAll, "u:secret"), 0))
		b.SendAs(jute.XidAuth, Auth("digest", "u:secret"))
		b.Send(GetData(s.Path("n"), false))
		b.Receive()
		s.Equal(int32(0), b.Receive().Err, "the credential is in effect")
	})},
}
