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

var frameCases = []Case{
	raw("garbage instead of a ConnectRequest", jute.Frame([]byte("garbage"))),
	raw("a request before the ConnectRequest", Exists("/", false).frame(1)),
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
		exists := Exists(s.Path(""), false)
		a.sent[9] = exists
		for _, b := range exists.frame(9) {
			a.Raw([]byte{b})
		}
		a.Receive()
	})},
	// The records are too short or too long for their operation.
	{Name: "with a record of the wrong length", Run: one(func(s *Script, a *Client) {
		for _, op := range []Request{
			Create(s.Path("n"), nil, Open, 0), Create2(s.Path("n"), nil, Open, 0), Delete(s.Path("n"), -1),
			SetData(s.Path("n"), nil, -1), SetACL(s.Path("n"), Open, -1), Exists(s.Path("n"), false),
			GetData(s.Path("n"), false), GetChildren(s.Path("n"), false), GetChildren2(s.Path("n"), false),
			GetACL(s.Path("n")), Sync(s.Path("n")), SetWatches(0, "nothing", Watches{}), AddWatch(s.Path("n"), 0),
			CheckWatches(s.Path("n"), 1), RemoveWatches(s.Path("n"), 1),
		} {
			short, long := op, op
			short.Body, short.Text = op.Body[:len(op.Body)-1], op.Text+", one byte short"
			long.Body, long.Text = append(op.Body[:len(op.Body):len(op.Body)], 1, 2, 3), op.Text+", three bytes too long"
			for _, r := range []Request{short, long} {
				a.Try(r)
				if a.dead {
					a = s.Resume("a", a)
				}
			}
		}
	})},
	{Name: "with hostile lengths", Run: one(func(s *Script, a *Client) {
		for _, n := range []int32{1<<31 - 1, 1 << 20, -1, -2, -1 << 31} {
			for _, op := range []int32{jute.OpCreate, jute.OpExists, jute.OpSetWatches, jute.OpMulti} {
				r := Request{Op: op, Text: jute.OpName(op) + " of a hostile length", Body: jute.AppendInt32(nil, n)}
				if op == jute.OpSetWatches {
					r.Body = jute.AppendInt32(make([]byte, 8), n)
				}
				a.Try(r)
				if a.dead {
					a = s.Resume("a", a)
				}
			}
		}
	})},
}
