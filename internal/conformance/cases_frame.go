package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// raw returns a case that sends bytes instead of a ConnectRequest.
func raw(name string, bytes []byte) Case {
	return Case{Name: name, Run: func(s *Script) {
		a := s.Dial("a")
		a.Raw(bytes)
		a.Closed()
	}}
}

// broken is like raw, on a connection that has a session.
func broken(name string, bytes []byte) Case {
	return Case{Name: name, Run: one(func(s *Script, a *Client) {
		a.Raw(bytes)
		a.Closed()
	})}
}

// tryAll tries requests, each of which may end the connection.
func (s *Script) tryAll(a *Client, requests ...Request) {
	s.t.Helper()
	for _, r := range requests {
		a.Try(r)
		if a.dead {
			a = s.Resume("a", a)
		}
	}
}

var frameCases = []Case{
	raw("garbage instead of a ConnectRequest", jute.Frame([]byte("garbage"))),
	raw("a request before the ConnectRequest", Exists("/", false).Frame(1)),
	raw("a first frame of length zero", jute.Frame(nil)),
	raw("a first frame of a negative length", jute.AppendInt32(nil, -1)),
	raw("a first frame that is too long", jute.AppendInt32(nil, jute.MaxFrame+1)),
	raw("a first frame that is much too long", jute.AppendInt32(nil, 1<<31-1)),
	raw("HTTP", []byte("GET / HTTP/1.1\r\n\r\n")),
	raw("a hostile length of a password", jute.Frame(append(make([]byte, 24), 0x7f, 0xff, 0xff, 0xff, 0))),
	broken("of length zero", jute.Frame(nil)),
	broken("of a negative length", jute.AppendInt32(nil, -5)),
	broken("one byte too long", jute.AppendInt32(nil, jute.MaxFrame+1)),
	broken("with half a header", jute.Frame([]byte{0, 0, 0, 1, 0, 0})),
	{Name: "that comes in pieces", Run: one(func(s *Script, a *Client) {
		frames := append(a.frameOf(8, Exists(root, false)), a.frameOf(9, Exists(root, false))...)
		half := len(frames) / 2
		for i := range half {
			a.Raw(frames[i : i+1])
		}
		s.Equal(int32(8), a.Receive().Xid, "the first")
		next := a.frameOf(10, Exists(root, false))
		a.Raw(append(frames[half:], next[:7]...))
		s.Equal(int32(9), a.Receive().Xid, "it need not wait for the rest of the next")
		a.Raw(next[7:])
		s.Equal(int32(10), a.Receive().Xid, "the last")
	})},
	// The records are too short or too long for their operation.
	{Name: "with a record of the wrong length", Run: one(func(s *Script, a *Client) {
		var all []Request
		for _, op := range []Request{
			Plain(n), Create2(n, nil, Open, 0), Delete(n, -1),
			SetData(n, nil, -1), SetACL(n, Open, -1), Exists(n, false),
			GetData(n, false), GetChildren(n, false), GetChildren2(n, false),
			GetACL(n), Sync(n), SetWatches(0, "nothing", Watches{}), AddWatch(n, 0),
			CheckWatches(n, 1), RemoveWatches(n, 1),
		} {
			short, long := op, op
			short.Body, short.Text = op.Body[:len(op.Body)-1], op.Text+", one byte short"
			long.Body, long.Text = append(op.Body[:len(op.Body):len(op.Body)], 1, 2, 3), op.Text+", three bytes too long"
			all = append(all, short, long)
		}
		s.tryAll(a, all...)
	})},
	{Name: "with hostile lengths", Run: one(func(s *Script, a *Client) {
		var all []Request
		for _, length := range []int32{1<<31 - 1, 1 << 20, -1, -2, -1 << 31} {
			for _, op := range []int32{jute.OpCreate, jute.OpExists, jute.OpSetWatches, jute.OpMulti} {
				r := Request{Op: op, Text: jute.OpName(op) + " of a hostile length", Body: jute.AppendInt32(nil, length)}
				if op == jute.OpSetWatches {
					r.Body = jute.AppendInt32(make([]byte, 8), length)
				}
				all = append(all, r)
			}
		}
		s.tryAll(a, all...)
	})},
}
