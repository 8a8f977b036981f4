package conformance

import (
	"fmt"
	"math"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var systemCases = []Case{
	{Name: "znodes of the server", Run: one(func(s *Script, a *Client) {
		s.Equal(true, slices.Contains(a.Quietly(GetChildren("/", false)).Children, "zookeeper"), "the root has it")
		// Its children were not created by transactions, so cversion does not
		// count them.
		for _, path := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			a.Ok(Exists(path, true), GetData(path, true), GetChildren2(path, false), GetACL(path))
			a.Fails(jute.ErrNodeExists, Plain(path))
		}
		// The library sends this to learn whether the server enforces ACLs.
		a.Fails(jute.ErrNoAuth, SetData("/zookeeper/config", nil, math.MaxInt32))
		a.Fails(jute.ErrNoAuth, SetData("/zookeeper/config", nil, -1), SetACL("/zookeeper/config", Open, -1), Plain("/zookeeper/config/n"))
		a.Ok(Plain("/zookeeper/n"), Exists("/zookeeper/n", false), Delete("/zookeeper/n", -1))
	})},
	// If Request.isValid rejects an operation, the server replies Unimplemented
	// and closes the connection.
	{Name: "unknown operations", Run: one(func(s *Script, a *Client) {
		for _, op := range []int32{10, 23, 99, 108, 1000, -2, -9, -12, math.MaxInt32, math.MinInt32, jute.OpNotification, jute.OpError} {
			r := a.Fails(jute.ErrUnimplemented, Request{Op: op, Text: fmt.Sprintf("op %d", op)})
			s.Equal(int64(-1), r.Zxid, "zxid")
			a.Closed()
			a = s.Resume("a", a)
		}
	})},
	{Name: "createSession by a client", Run: one(func(s *Script, a *Client) {
		// Servers send it to each other, so Request.isValid accepts it.
		a.Try(Request{Op: jute.OpCreateSession, Text: "createSession"})
	})},
	{Name: "reconfig", Run: one(func(s *Script, a *Client) {
		b := jute.AppendString(jute.AppendString(jute.AppendString(nil, ""), ""), "server.1=x:1:2;3")
		a.Fails(jute.ErrReconfigDisabled, Request{Op: jute.OpReconfig, Text: "reconfig", Body: jute.AppendInt64(b, -1)})
	})},
	{Name: "sasl", Run: one(func(s *Script, a *Client) {
		a.Try(Request{Op: jute.OpSasl, Text: "sasl", Body: jute.AppendBuffer(nil, []byte("token"))})
	})},
	{Name: "whoAmI", Run: one(func(s *Script, a *Client) {
		a.Try(WhoAmI())
		if a.dead {
			return
		}
		a.present("digest", "u:secret")
		a.Try(WhoAmI())
	})},
	{Name: "ping", Run: one(func(s *Script, a *Client) {
		a.Drain()
		// The reply has xid -2, whatever the xid of the request.
		a.sent[jute.XidPing] = Ping()
		a.Send(Ping())
		a.Receive()
		r := Ping()
		r.Body, r.Text = []byte{1, 2, 3}, "ping with a record"
		a.CallAs(jute.XidPing, r)
	})},
	{Name: "xids", Run: one(func(s *Script, a *Client) {
		// The server returns them without checking their order.
		for _, xid := range []int32{0, 5, 5, 3, -3, -5, math.MinInt32, math.MaxInt32,
			jute.XidEvent, jute.XidPing, jute.XidAuth, jute.XidSetWatches} {
			a.CallAs(xid, Exists(root, false))
		}
	})},
	{Name: "replies come in the order of the requests", Run: one(func(s *Script, a *Client) {
		for range 3 {
			a.SendTogether(Sequential("/case/n-"), Exists("/case/n-0000000000", false), SetData("/case/missing", nil, -1),
				Sync(root), GetChildren(root, false))
		}
		a.Drain()
	})},
}
