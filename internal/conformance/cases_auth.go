package conformance

import (
	"cmp"
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

func digestACL(credential string) []jute.ACL { return All("digest", digest(credential)) }

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
	{Name: "digest", Run: three(func(s *Script, a, b, c *Client) {
		s.Equal(int32(0), a.present("digest", "u:secret").Err, "accepted")
		a.Ok(Create(n, []byte("x"), digestACL("u:secret"), 0), GetData(n, false))
		b.Fails(jute.ErrNoAuth, GetData(n, false))
		// The server accepts any credential and compares it only with ACLs.
		b.present("digest", "u:wrong")
		b.Fails(jute.ErrNoAuth, GetData(n, false), SetData(n, nil, -1))
		b.present("digest", "u:secret")
		b.Ok(GetData(n, false))
		// Credentials add up. They belong to the connection, not to the
		// session.
		a.present("digest", "other:one")
		a.Ok(GetData(n, false))
		a.Drop()
		again := s.Resume("a again", a)
		again.Fails(jute.ErrNoAuth, GetData(n, false))
		again.present("digest", "u:secret")
		again.Ok(GetData(n, false))
		for _, credential := range []string{"u:secret:with colon", "without colon", "", ":"} {
			c.present("digest", credential)
		}
		c.Fails(jute.ErrNoAuth, GetData(n, false))
	})},
	{Name: "an ACL of scheme auth grants to each presented credential once", Run: one(func(s *Script, a *Client) {
		for _, credential := range []string{"u:secret", "v:other", "u:secret"} {
			a.present("digest", credential)
		}
		// Sort the entries: they come from a hash set.
		has := func(want []jute.ACL) {
			s.t.Helper()
			acl := a.Quietly(GetACL(n)).ACL
			slices.SortFunc(acl, func(x, y jute.ACL) int { return cmp.Compare(x.ID, y.ID) })
			s.Equal(want, acl, "the ACL")
			s.Note("ACL %s", describeACL(acl))
		}
		a.Ok(Create(n, nil, All("auth", "is ignored"), 0))
		has(append(digestACL("u:secret"), digestACL("v:other")...))
		a.Ok(SetACL(n, append(Anyone(1), Grant(1|16, "auth", "")...), -1))
		has(slices.Concat(Anyone(1), Grant(1|16, "digest", digest("u:secret")), Grant(1|16, "digest", digest("v:other"))))
	})},
	{Name: "super", Run: two(func(s *Script, a, b *Client) {
		// The user whose digest is in the server's configuration may do
		// anything (ZooKeeperServer.checkACL).
		a.present("digest", "u:secret")
		a.Ok(Create(n, nil, Grant(jute.PermRead, "digest", digest("u:secret")), 0))
		b.Fails(jute.ErrNoAuth, SetData(n, nil, -1))
		b.present("digest", SuperCredential)
		b.Ok(SetData(n, nil, -1), GetACL(n))
		b.Fails(jute.ErrBadVersion, SetData("/zookeeper/config", nil, math.MaxInt32))
		b.Ok(Create(m, nil, Presented, 0), GetACL(m), SetACL(n, Open, -1), GetEphemerals("/"))
	})},
	{Name: "ip", Run: one(func(s *Script, a *Client) {
		// Each connection has the identity of its address from the start. The
		// server ignores the credential.
		a.present("ip", "")
		a.present("ip", "10.1.2.3")
		a.Ok(Create(n, nil, All("ip", "10.1.2.3"), 0))
		a.Fails(jute.ErrNoAuth, GetData(n, false))
		a.Ok(Create("/case/zero", nil, All("ip", "0.0.0.000/00"), 0), GetData("/case/zero", false))
		a.Fails(jute.ErrInvalidACL, Create("/case/auth", nil, Presented, 0))
	})},
	{Name: "a scheme without a provider", Run: func(s *Script) {
		for i, scheme := range []string{"nonsense", "world", ""} {
			a := s.Connect(fmt.Sprintf("a%d", i))
			s.Equal(jute.ErrAuthFailed, a.present(scheme, "anyone").Err, "refused")
			a.Closed()
			s.Resume("again", a).Ok(Exists(root, false)) // the session is still alive
		}
	}},
	{Name: "with another xid and type", Run: one(func(s *Script, a *Client) {
		// The operation matters, not the xid. The reply always has the xid of
		// the request.
		r := Auth("digest", "u:secret")
		r.Body[3] = 9
		a.Call(r)
		a.Ok(Create(n, nil, digestACL("u:secret"), 0), GetData(n, false))
		a.CallAs(jute.XidAuth, GetData(n, false))
	})},
	// A credential that the provider cannot parse is refused like a wrong one
	// (ZooKeeperServer.processPacket).
	{Name: "cut short or with nulls", Run: func(s *Script) {
		whole, null := Auth("digest", "u:secret").Body, jute.AppendInt32(nil, -1)
		kind, scheme := whole[:4], jute.AppendString(nil, "digest")
		for i, body := range [][]byte{
			whole[:len(whole)-1], whole[:8], kind, nil,
			slices.Concat(kind, null, jute.AppendString(nil, "u:secret")), slices.Concat(kind, scheme, null),
		} {
			a := s.Connect(fmt.Sprintf("a%d", i))
			a.SendAs(jute.XidAuth, Request{Op: jute.OpAuth, Text: fmt.Sprintf("auth %q", body), Body: body})
			a.Closed()
		}
	}},
	{Name: "sent together with later requests", Run: two(func(s *Script, a, b *Client) {
		// A credential is in effect for later requests on its connection.
		a.Ok(Create(n, nil, digestACL("u:secret"), 0))
		b.SendAs(jute.XidAuth, Auth("digest", "u:secret"))
		b.Send(GetData(n, false))
		b.Receive()
		s.Equal(int32(0), b.Receive().Err, "the credential is in effect")
	})},
}
