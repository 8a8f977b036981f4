package conformance

import (
	"fmt"
	"regexp"

	"github.com/zkrecipes/zkrecipes/internal/digestmd5"
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// SASLUsers are the users of the servers for SASLCases, with their passwords.
var SASLUsers = map[string]string{"alice": "secret", "bob": "other", "super": "almighty"}

// Sasl sends a token.
func Sasl(text string, token []byte) Request {
	return Request{Op: jute.OpSasl, Text: "sasl " + text, Body: jute.AppendBuffer(nil, token)}
}

// secretsOfToken matches what differs in each exchange.
var secretsOfToken = regexp.MustCompile(`(nonce="|rspauth=)[^",]*`)

// sendToken sends a token, and notes the server's without what is random.
func (c *Client) sendToken(text string, token []byte) Reply {
	c.s.t.Helper()
	before := len(c.s.lines)
	r := c.Call(Sasl(text, token))
	c.s.lines = c.s.lines[:before]
	c.s.Note("%s > sasl %s", c.name, text)
	c.s.Note("%s < err=%d zxid=%s closed=%v token=%q null=%v", c.name, r.Err, c.s.zxid(r.Zxid), r.Closed,
		secretsOfToken.ReplaceAll(r.Data, []byte("${1}...")), r.Data == nil)
	return r
}

// logIn goes through the exchange and returns the last reply, in which the server accepts the
// client or not.
func (c *Client) logIn(user, password string) Reply {
	c.s.t.Helper()
	d := digestmd5.NewClient(user, password)
	r := c.sendToken("begin", nil)
	c.s.Equal(int32(0), r.Err, "a challenge")
	token, _, err := d.Step(r.Data)
	c.s.Fail(err, "challenge")
	r = c.sendToken(fmt.Sprintf("response of %s", user), token)
	if r.Err == 0 && !r.Closed {
		_, done, err := d.Step(r.Data)
		c.s.Fail(err, "the server's proof")
		c.s.Equal(true, done, "done")
	}
	return r
}

func saslACL(id string) []jute.ACL { return All("sasl", id) }

// SASLCases are for servers with SASLUsers that serve other clients, too.
var SASLCases = []Case{
	{Name: "sasl/identity", Run: three(func(s *Script, a, b, c *Client) {
		s.Equal(int32(0), a.logIn("alice", "secret").Err, "accepted")
		a.Ok(Create(n, []byte("x"), saslACL("alice"), 0), GetData(n, false), GetACL(n))
		a.Ok(Create("/case/auth", nil, Presented, 0), GetACL("/case/auth"))
		a.Ok(WhoAmI())
		b.Fails(jute.ErrNoAuth, GetData(n, false))
		b.Ok(GetChildren(root, false))
		b.logIn("bob", "other")
		b.Fails(jute.ErrNoAuth, GetData(n, false))
		// The provider lets the user super do everything (SASLAuthenticationProvider.matches).
		c.logIn("super", "almighty")
		c.Ok(GetData(n, false))
		// The identity is that of the connection.
		a.Drop()
		again := s.Resume("a again", a)
		again.Fails(jute.ErrNoAuth, GetData(n, false))
		again.logIn("alice", "secret")
		again.Ok(GetData(n, false))
	})},
	{Name: "sasl/refused", Run: func(s *Script) {
		for i, who := range [][2]string{{"alice", "wrong"}, {"mallory", "unknown"}} {
			a := s.Connect(fmt.Sprintf("a%d", i))
			s.Equal(jute.ErrAuthFailed, a.logIn(who[0], who[1]).Err, "refused")
			a.Closed()
			s.Resume("again", a).Ok(Exists(root, false))
		}
	}},
	{Name: "sasl/tokens out of turn", Run: func(s *Script) {
		a, b, c, d := s.Connect("a"), s.Connect("b"), s.Connect("c"), s.Connect("d")
		a.sendToken("at once, which is ignored", []byte("x"))
		b.sendToken("begin", nil)
		b.sendToken("begin again", nil)
		b.Closed()
		c.sendToken("begin", nil)
		c.sendToken("garbage", []byte("garbage"))
		c.Closed()
		d.logIn("alice", "secret")
		d.sendToken("after the end", nil)
		d.Closed()
	}},
	{Name: "sasl/requests between the steps", Run: one(func(s *Script, a *Client) {
		r := a.sendToken("begin", nil)
		a.Ok(Exists(root, false))
		a.Fails(jute.ErrNoNode, GetData(n, false))
		token, _, err := digestmd5.NewClient("alice", "secret").Step(r.Data)
		s.Fail(err, "challenge")
		a.sendToken("response", token)
		a.Ok(Create(n, nil, saslACL("alice"), 0))
	})},
	{Name: "sasl/ids in ACLs", Run: one(func(s *Script, a *Client) {
		for _, id := range []string{"alice", "", "a/b", "a/b/c", "a@R", "a/b@R", "a/b/c@R", "a@b@c", "@", "a:b", "ключ"} {
			a.Call(Create("/case/n-", nil, saslACL(id), jute.FlagSequential))
		}
	})},
	{Name: "sasl/as a credential", Run: one(func(s *Script, a *Client) {
		s.Equal(jute.ErrAuthFailed, a.present("sasl", "alice").Err, "refused")
		a.Closed()
	})},
}

// RequiredSASLCases are for servers with SASLUsers that require SASL.
var RequiredSASLCases = []Case{
	{Name: "requiredSASL/a request without", Run: func(s *Script) {
		for i, r := range []Request{Exists("/", false), Plain(n), Sync("/"), Multi(Check("/", -1)), Close(), Ping()} {
			a := s.Handshake(fmt.Sprintf("a%d", i), ConnectRequest{Timeout: 1 << 30})
			a.Send(r)
			s.Equal(jute.ErrSASL, a.Receive().Err, r.Text)
			a.Closed()
		}
	}},
	{Name: "requiredSASL/a credential is not enough", Run: func(s *Script) {
		a := s.Handshake("a", ConnectRequest{Timeout: 1 << 30})
		a.present("digest", "u:secret")
		a.Fails(jute.ErrSASL, Exists("/", false))
		a.Closed()
	}},
	{Name: "requiredSASL/with", Run: func(s *Script) {
		h := ConnectRequest{Timeout: 1 << 30}
		a, b, c := s.Handshake("a", h), s.Handshake("b", h), s.Handshake("c", h)
		a.logIn("alice", "secret")
		a.Ok(Plain(root), Delete(root, -1))
		s.Equal(jute.ErrSASL, b.logIn("alice", "wrong").Err, "refused")
		b.Closed()
		c.sendToken("begin", nil)
		c.Fails(jute.ErrSASL, Exists("/", false))
		c.Closed()
	}},
}
