package conformance

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var systemCases = []Case{
	{Name: "zookeeper", Exclusive: true, Run: one(func(s *Script, a *Client) {
		root := a.Quietly(GetChildren("/", false)).Children
		s.Equal(true, slices.Contains(root, "zookeeper"), "the root has it")
		// Its children were not created by transactions, so cversion does not
		// count them.
		a.Ok(Exists("/zookeeper", false))
		a.Ok(GetData("/zookeeper", false))
		a.Ok(GetChildren2("/zookeeper", false))
		a.Ok(GetACL("/zookeeper"))
	})},
	{Name: "zookeeper config", Run: one(func(s *Script, a *Client) {
		a.Ok(GetData("/zookeeper/config", false))
		a.Ok(GetACL("/zookeeper/config"))
		a.Ok(GetChildren2("/zookeeper/config", false))
		// The library sends this to learn whether the server enforces ACLs.
		a.Fails(jute.ErrNoAuth, SetData("/zookeeper/config", nil, math.MaxInt32))
		a.Fails(jute.ErrNoAuth, SetData("/zookeeper/config", nil, -1))
		a.Fails(jute.ErrNoAuth, SetACL("/zookeeper/config", Open, -1))
		a.Fails(jute.ErrNoAuth, Create("/zookeeper/config/n", nil, Open, 0))
		a.Ok(Exists("/zookeeper/config", true))
		a.Ok(GetData("/zookeeper/config", true))
	})},
	{Name: "zookeeper quota", Run: one(func(s *Script, a *Client) {
		a.Ok(Exists("/zookeeper/quota", false))
		a.Ok(GetChildren2("/zookeeper/quota", false))
		a.Ok(GetACL("/zookeeper/quota"))
		a.Fails(jute.ErrNodeExists, Create("/zookeeper/quota", nil, Open, 0))
	})},
	{Name: "znodes below zookeeper", Run: one(func(s *Script, a *Client) {
		name := strings.ReplaceAll(s.Path("")[1:], "/", "-")
		a.Ok(Create("/zookeeper/"+name, nil, Open, 0))
		a.Ok(Exists("/zookeeper/"+name, false))
		a.Ok(Delete("/zookeeper/"+name, -1))
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
		a.Try(Request{Op: jute.OpWhoAmI, Text: "whoAmI"})
		if a.dead {
			return
		}
		a.present("digest", "u:secret")
		a.Try(Request{Op: jute.OpWhoAmI, Text: "whoAmI"})
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
		for _, xid := range []int32{0, 5, 5, 3, -3, -5, -8, math.MinInt32, math.MaxInt32} {
			a.CallAs(xid, Exists(s.Path(""), false))
		}
		a.CallAs(jute.XidEvent, Exists(s.Path(""), false))
		a.CallAs(jute.XidPing, Exists(s.Path(""), false))
		a.CallAs(jute.XidAuth, Exists(s.Path(""), false))
	})},
	{Name: "replies come in the order of the requests", Run: one(func(s *Script, a *Client) {
		for range 3 {
			a.Send(Create(s.Path("n-"), nil, Open, jute.FlagSequential))
			a.Send(Exists(s.Path("n-0000000000"), false))
			a.Send(SetData(s.Path("missing"), nil, -1))
			a.Send(Sync(s.Path("")))
			a.Send(GetChildren(s.Path(""), false))
		}
		a.Drain()
	})},
	{Name: "ruok", Exclusive: true, Run: func(s *Script) {
		s.Equal("imok", s.FourLetterWord("ruok"), "imok")
	}},
	{Name: "srvr", Run: func(s *Script) {
		s.Connect("a")
		answer := s.FourLetterWord("srvr")
		for line := range strings.Lines(answer) {
			key, value, ok := strings.Cut(line, ": ")
			switch {
			case !ok:
				s.Note("no key: %q", line)
			case key == "Mode":
				s.Note("%s %q", key, value)
			case strings.HasPrefix(key, "Zookeeper version"), strings.HasPrefix(key, "Proposal sizes"):
				// Versions differ, and only an ensemble has proposals.
			default:
				s.Note("key %q", key)
			}
		}
	}},
	{Name: "mntr", Exclusive: true, Run: func(s *Script) {
		s.Connect("a")
		values := map[string]string{}
		for line := range strings.Lines(s.FourLetterWord("mntr")) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
			values[key] = value
		}
		// There are hundreds of keys, most of them specific to a version.
		for _, key := range []string{
			"zk_version", "zk_server_state", "zk_num_alive_connections", "zk_outstanding_requests",
			"zk_packets_received", "zk_packets_sent", "zk_znode_count", "zk_watch_count",
			"zk_ephemerals_count", "zk_approximate_data_size", "zk_avg_latency", "zk_max_latency", "zk_min_latency",
		} {
			_, ok := values[key]
			s.Note("%s: %v", key, ok)
			s.Equal(true, ok, key)
		}
		s.Note("state %s", values["zk_server_state"])
	}},
	// The server takes it for the length of a frame, which is too large.
	raw("an unknown word", []byte("what")),
}
