package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var multiCases = []Case{
	{Name: "empty", Run: one(func(s *Script, a *Client) {
		a.Ok(Multi())
		a.Ok(Exists(s.Path(""), false))
		a.Ok(MultiRead())
	})},
	{Name: "of all kinds", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		r := a.Ok(Multi(
			Check(s.Path("n"), 0),
			Create(s.Path("n/a"), []byte("a"), Open, 0),
			Create2(s.Path("n/b"), []byte("b"), Open, jute.FlagEphemeral),
			CreateContainer(s.Path("n/c"), []byte("c"), Open, jute.FlagContainer),
			Create(s.Path("n/s-"), nil, Open, jute.FlagEphemeralSequential),
			SetData(s.Path("n"), []byte("data"), 0),
			Delete(s.Path("n/a"), 0),
		))
		s.Equal([]int32{0, 0, 0, 0, 0, 0, 0}, r.Results, "all succeed")
		st := a.Ok(GetChildren2(s.Path("n"), false)).Stat
		s.Equal(r.Zxid, st.Mzxid, "one transaction")
		s.Equal(r.Zxid, st.Pzxid, "one transaction")
		a.Ok(Exists(s.Path("n/b"), false))
		a.Ok(Delete(s.Path("n/c"), -1))
	})},
	// The results before the failed operation are 0, and those after it
	// RuntimeInconsistency. The header of the reply has no error
	// (FinalRequestProcessor).
	{Name: "the first fails", Run: one(func(s *Script, a *Client) {
		r := a.Call(Multi(Check(s.Path("missing"), 0), Create(s.Path("n"), nil, Open, 0), Check(s.Path(""), 77)))
		s.Equal([]int32{jute.ErrNoNode, jute.ErrRuntimeInconsistency, jute.ErrRuntimeInconsistency}, r.Results, "results")
		a.Fails(jute.ErrNoNode, Exists(s.Path("n"), false))
		a.Ok(Exists(s.Path(""), false))
	})},
	{Name: "one in the middle fails", Run: one(func(s *Script, a *Client) {
		before := a.Ok(Exists(s.Path(""), false)).Stat
		r := a.Call(Multi(Create(s.Path("n"), nil, Open, 0), Create(s.Path("n"), nil, Open, 0), Delete(s.Path("n"), -1)))
		s.Equal([]int32{0, jute.ErrNodeExists, jute.ErrRuntimeInconsistency}, r.Results, "results")
		s.Equal(before, a.Ok(Exists(s.Path(""), false)).Stat, "nothing was changed")
	})},
	{Name: "the last fails", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		r := a.Call(Multi(SetData(s.Path("n"), nil, 0), SetData(s.Path("n"), nil, 1), SetData(s.Path("n"), nil, 1)))
		s.Equal([]int32{0, 0, jute.ErrBadVersion}, r.Results, "results")
		a.Ok(Exists(s.Path("n"), false))
		// A failed multi has no effect on later requests.
		a.Ok(SetData(s.Path("n"), nil, 0))
	})},
	{Name: "each error", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Ok(Create(s.Path("n/child"), nil, Open, 0))
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		a.Ok(Create(s.Path("closed"), nil, Anyone(0), 0))
		for _, op := range []Request{
			Create(s.Path("n"), nil, Open, 0),
			Create(s.Path("missing/n"), nil, Open, 0),
			Create(s.Path("e/n"), nil, Open, 0),
			Create(s.Path("m"), nil, nil, 0),
			Create(s.Path("closed/n"), nil, Open, 0),
			Create(s.Path("m/"), nil, Open, 0),
			Create2(s.Path("n"), nil, Open, 0),
			CreateContainer(s.Path("n"), nil, Open, jute.FlagContainer),
			Delete(s.Path("n"), -1),
			Delete(s.Path("n/child"), 3),
			Delete(s.Path("missing"), -1),
			Delete(s.Path("closed/n"), -1),
			Delete("/", -1),
			SetData(s.Path("n"), nil, 3),
			SetData(s.Path("missing"), nil, -1),
			SetData(s.Path("closed"), nil, -1),
			SetData("", nil, -1),
			Check(s.Path("n"), 3),
			Check(s.Path("missing"), -1),
			Check(s.Path("closed"), -1),
			CreateTTL(s.Path("n"), nil, Open, jute.FlagTTL, 1000),
		} {
			a.Call(Multi(op))
		}
	})},
	// Since 3.9 the exceptions of CreateOptions use no zxid, and those of the
	// decoding do.
	{Name: "malformed creates", Run: one(func(s *Script, a *Client) {
		for _, op := range []func(string, []byte, []jute.ACL, int32) Request{Create, Create2, CreateContainer} {
			for _, flags := range []int32{0, jute.FlagTTL, 7} {
				a.Call(Multi(op(s.Path("n"), nil, nil, flags), Check(s.Path(""), -1)))
				a.Call(Multi(Check(s.Path(""), -1), op(s.Path("m"), nil, []jute.ACL{}, flags)))
			}
		}
		a.Ok(GetChildren2(s.Path(""), false))
	})},
	{Name: "operations see the effects of earlier ones", Run: one(func(s *Script, a *Client) {
		n := s.Path("n")
		r := a.Ok(Multi(
			Create(n, []byte("1"), Open, 0),
			Check(n, 0),
			SetData(n, []byte("two"), 0),
			Check(n, 1),
			Create(n+"/child", nil, Open, 0),
			Delete(n+"/child", 0),
			Delete(n, 1),
			Create(n, []byte("again"), Open, 0),
			Check(n, 0),
		))
		s.Equal(9, len(r.Results), "results")
		st := a.Ok(GetData(n, false)).Stat
		s.Equal(r.Zxid, st.Czxid, "created by the same transaction")
		s.Equal(int32(0), st.Cversion, "created again")
		a.Ok(GetChildren2(s.Path(""), false))
		r = a.Call(Multi(Create(n+"/child", nil, Open, 0), Delete(n, -1)))
		s.Equal([]int32{0, jute.ErrNotEmpty}, r.Results, "results")
		r = a.Call(Multi(Create(s.Path("e"), nil, Open, jute.FlagEphemeral), Create(s.Path("e/x"), nil, Open, 0)))
		s.Equal([]int32{0, jute.ErrNoChildrenForEphemerals}, r.Results, "results")
		r = a.Call(Multi(Delete(n, -1), Check(n, -1)))
		s.Equal([]int32{0, jute.ErrNoNode}, r.Results, "results")
	})},
	// Before 3.9 Op.Create considers only the flags, whichever of the three
	// operations was sent. With the flags of a container it is a createContainer,
	// otherwise a create, whose result has no Stat. Since 3.9 the operation decides
	// (ZOOKEEPER-4026).
	{Name: "create, create2 and createContainer", Run: one(func(s *Script, a *Client) {
		for _, op := range []func(string, []byte, []jute.ACL, int32) Request{Create, Create2, CreateContainer} {
			for flags := range int32(5) {
				n := s.Path("n")
				r := a.Ok(Multi(op(n, nil, Open, flags)))
				s.Equal(1, len(r.Created), "a path")
				a.Ok(Exists(r.Created[0], false))
				a.Ok(Delete(r.Created[0], -1))
			}
		}
	})},
	// The library's join relies on this: the Stat of the setData is the line's
	// after the preceding create.
	{Name: "create, then setData of the parent", Run: one(func(s *Script, a *Client) {
		line := s.Path("line")
		a.Ok(CreateContainer(line, nil, Open, jute.FlagContainer))
		join := Multi(
			Create(line+"/n-", nil, Open, jute.FlagEphemeralSequential),
			SetData(line, []byte("marker"), -1))
		for n := range int32(3) {
			r := a.Ok(join)
			children := a.Ok(GetChildren2(line, false))
			s.Equal(n+1, r.Stat.NumChildren, "the count of children includes the new one")
			s.Equal(n+1, r.Stat.Cversion, "cversion includes the create")
			s.Equal(r.Zxid, r.Stat.Mzxid, "mzxid is the new one's czxid")
			s.Equal(children.Stat, r.Stat, "the Stat is that after the transaction")
		}
		st := a.Ok(Exists(line+"/n-0000000002", false)).Stat
		s.Equal(a.Ok(Exists(line, false)).Stat.Mzxid, st.Czxid, "mzxid is the new one's czxid")
		for _, child := range a.Ok(GetChildren(line, false)).Children {
			if child != "n-0000000002" {
				a.Ok(Delete(line+"/"+child, -1))
			}
		}
		a.Ok(Multi(Delete(line+"/n-0000000002", -1), Delete(line, -1)))
	})},
	// The Stat is that when setData is applied. It does not include later
	// operations of the transaction.
	{Name: "setData, then create", Run: one(func(s *Script, a *Client) {
		r := a.Ok(Multi(SetData(s.Path(""), []byte("x"), -1), Create2(s.Path("n"), nil, Open, 0), Create2(s.Path("n/m"), nil, Open, 0)))
		s.Equal(int32(2), int32(len(r.Results)-1), "results")
		a.Ok(Exists(s.Path(""), false))
		a.Ok(Exists(s.Path("n"), false))
	})},
	{Name: "an operation can guess a sequential name", Run: one(func(s *Script, a *Client) {
		n := Create(s.Path("n-"), nil, Open, jute.FlagSequential)
		r := a.Call(Multi(n, Delete(s.Path("n-0000000007"), -1)))
		s.Equal([]int32{0, jute.ErrNoNode}, r.Results, "results")
		a.Ok(Multi(n, Delete(s.Path("n-0000000000"), -1)))
		a.Ok(Multi(n, Create(s.Path("n-0000000001/child"), nil, Open, 0)))
		a.Ok(Exists(s.Path("n-0000000001"), false))
	})},
	{Name: "operations that it must not contain", Run: func(s *Script) {
		// MultiOperationRecord cannot read these, nor both kinds in one.
		for i, op := range []Request{
			Exists(s.Path(""), false), Sync(s.Path("")), SetACL(s.Path(""), Open, -1),
			Ping(), Multi(), Close(), DeleteContainer(s.Path("")), {Op: 999, Text: "op 999"},
			// It can read these, but they belong in a multiRead.
			GetData(s.Path(""), false), GetChildren(s.Path(""), false),
		} {
			a := s.Connect(string(rune('a' + i)))
			a.Try(Multi(op))
			a.Try(Multi(Create(s.Path("n"), nil, Open, 0), op))
			a.Try(Exists(s.Path("n"), false))
		}
	}},
	{Name: "that changes a znode twice", Run: one(func(s *Script, a *Client) {
		n := s.Path("n")
		a.Ok(Create(n, nil, Open, 0))
		// Each result has the Stat after its operation.
		a.Ok(Multi(SetData(n, []byte("1"), 0), SetData(n, []byte("22"), 1), Create(n+"/m", nil, Open, 0), SetData(n, []byte("333"), -1)))
		a.Ok(GetData(n, false))
	})},
	{Name: "that fails between others in flight", Run: one(func(s *Script, a *Client) {
		// The server rolls back the changes of the failed multi, but not those
		// of earlier requests (PrepRequestProcessor.rollbackPendingChanges).
		n := Create(s.Path("n-"), nil, Open, jute.FlagSequential)
		a.Send(n)
		a.Send(Multi(n, n, Check(s.Path(""), 7)))
		a.Send(n)
		a.Send(SetData(s.Path(""), nil, 0))
		a.Send(Multi(SetData(s.Path(""), nil, 1), n, Delete(s.Path("missing"), -1)))
		a.Send(SetData(s.Path(""), nil, 1))
		a.Send(n)
		a.Send(Delete(s.Path("n-0000000000"), -1))
		a.Send(Create(s.Path("n-0000000000"), nil, Open, 0))
		a.Try(GetChildren2(s.Path(""), false))
	})},
	{Name: "cut short", Run: one(func(s *Script, a *Client) {
		r := Multi(Create(s.Path("n"), nil, Open, 0))
		r.Body = r.Body[:len(r.Body)-9]
		r.Text += " without an end"
		a.Try(r)
		a.Try(Exists(s.Path("n"), false))
	})},
	{Name: "of ephemerals", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Multi(Create(s.Path("x"), nil, Open, 1), Create(s.Path("y"), nil, Open, 1), Delete(s.Path("x"), -1)))
		b.Ok(Multi(Delete(s.Path("y"), -1), Create(s.Path("y"), nil, Open, 1)))
		b.Ok(Exists(s.Path("y"), false))
		a.End()
		b.Ok(GetChildren2(s.Path(""), false))
		b.Ok(GetEphemerals(s.Path("")))
	})},
	{Name: "of versions at their limit", Run: one(func(s *Script, a *Client) {
		r := a.Call(Multi(Check(s.Path(""), math.MaxInt32)))
		s.Equal([]int32{jute.ErrBadVersion}, r.Results, "results")
		r = a.Call(Multi(Check(s.Path(""), -2)))
		s.Equal([]int32{jute.ErrBadVersion}, r.Results, "results")
	})},
	{Name: "multiRead", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), []byte("data"), Open, 0))
		a.Ok(Create(s.Path("closed"), nil, Anyone(0), 0))
		// Each read has its own result, whether or not others fail.
		a.Ok(MultiRead(
			GetData(s.Path("n"), false), GetChildren(s.Path(""), false), GetData(s.Path("missing"), false),
			GetChildren(s.Path("missing"), false), GetData(s.Path("closed"), false), GetChildren(s.Path("n"), false)))
		// It sets no watches: MultiOperationRecord reads the flag and ignores it.
		a.Ok(MultiRead(GetData(s.Path("n"), true), GetChildren(s.Path("n"), true)))
		a.Ok(Create(s.Path("n/child"), nil, Open, 0))
		a.Ok(SetData(s.Path("n"), nil, -1))
		a.Try(MultiRead(Exists(s.Path("n"), false)))
		a.Try(MultiRead(Create(s.Path("m"), nil, Open, 0)))
		a.Ok(GetChildren(s.Path(""), false))
	})},
}
