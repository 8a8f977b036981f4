package conformance

import (
	"math"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var multiCases = []Case{
	{Name: "empty", Run: one(func(s *Script, a *Client) {
		a.Ok(Multi(), Exists(root, false), MultiRead())
	})},
	{Name: "of all kinds", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n))
		r := a.Multi(make([]int32, 7),
			Check(n, 0),
			Create(n+"/a", []byte("a"), Open, 0),
			Create2(n+"/b", []byte("b"), Open, jute.FlagEphemeral),
			CreateContainer(n+"/c", []byte("c"), Open, jute.FlagContainer),
			EphemeralSequential(n+"/s-"),
			SetData(n, []byte("data"), 0),
			Delete(n+"/a", 0),
		)
		st := a.Ok(GetChildren2(n, false)).Stat
		s.Equal([]int64{r.Zxid, r.Zxid}, []int64{st.Mzxid, st.Pzxid}, "one transaction")
		a.Ok(Exists(n+"/b", false), Delete(n+"/c", -1))
	})},
	// The results before the failed operation are 0, and those after it
	// RuntimeInconsistency. The header of the reply has no error
	// (FinalRequestProcessor).
	{Name: "the first, the second or the last fails", Run: one(func(s *Script, a *Client) {
		before := a.Ok(Exists(root, false)).Stat
		a.Multi([]int32{jute.ErrNoNode, jute.ErrRuntimeInconsistency, jute.ErrRuntimeInconsistency},
			Check("/case/missing", 0), Plain(n), Check(root, 77))
		a.Multi([]int32{0, jute.ErrNodeExists, jute.ErrRuntimeInconsistency}, Plain(n), Plain(n), Delete(n, -1))
		s.Equal(before, a.Ok(Exists(root, false)).Stat, "nothing was changed")
		a.Ok(Plain(n))
		a.Multi([]int32{0, 0, jute.ErrBadVersion}, SetData(n, nil, 0), SetData(n, nil, 1), SetData(n, nil, 1))
		// A failed multi has no effect on later requests.
		a.Ok(Exists(n, false), SetData(n, nil, 0))
	})},
	{Name: "each error", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Plain(m), Ephemeral("/case/e"), Create("/case/closed", nil, Anyone(0), 0))
		for _, op := range []Request{
			Plain(n), Plain("/case/missing/n"), Plain("/case/e/n"), Create("/case/new", nil, nil, 0), Plain("/case/closed/n"),
			Plain("/case/new/"), Create2(n, nil, Open, 0), Container(n), CreateTTL(n, nil, Open, jute.FlagTTL, 1000),
			Delete(n, -1), Delete(m, 3), Delete("/case/missing", -1), Delete("/case/closed/n", -1), Delete("/", -1),
			SetData(n, nil, 3), SetData("/case/missing", nil, -1), SetData("/case/closed", nil, -1), SetData("", nil, -1),
			Check(n, 3), Check(n, math.MaxInt32), Check(n, -2), Check("/case/missing", -1), Check("/case/closed", -1),
		} {
			a.Call(Multi(op))
		}
	})},
	// Since 3.9 the exceptions of CreateOptions use no zxid, and those of the
	// decoding do.
	{Name: "malformed creates", Run: one(func(s *Script, a *Client) {
		for _, create := range creates {
			for _, flags := range []int32{0, jute.FlagTTL, 7} {
				a.Call(Multi(create(n, nil, nil, flags), Check(root, -1)))
				a.Call(Multi(Check(root, -1), create("/case/m", nil, []jute.ACL{}, flags)))
			}
		}
		a.Ok(GetChildren2(root, false))
	})},
	{Name: "operations see the effects of earlier ones", Run: one(func(s *Script, a *Client) {
		r := a.Multi(make([]int32, 9),
			Create(n, []byte("1"), Open, 0),
			Check(n, 0),
			SetData(n, []byte("two"), 0),
			Check(n, 1),
			Plain(m),
			Delete(m, 0),
			Delete(n, 1),
			Create(n, []byte("again"), Open, 0),
			Check(n, 0),
		)
		st := a.Ok(GetData(n, false)).Stat
		s.Equal(r.Zxid, st.Czxid, "created by the same transaction")
		s.Equal(int32(0), st.Cversion, "created again")
		a.Ok(GetChildren2(root, false))
		a.Multi([]int32{0, jute.ErrNotEmpty}, Plain(m), Delete(n, -1))
		a.Multi([]int32{0, jute.ErrNoChildrenForEphemerals}, Ephemeral("/case/e"), Plain("/case/e/x"))
		a.Multi([]int32{0, jute.ErrNoNode}, Delete(n, -1), Check(n, -1))
	})},
	// Before 3.9 Op.Create considers only the flags, whichever of the three
	// operations was sent. With the flags of a container it is a createContainer,
	// otherwise a create, whose result has no Stat. Since 3.9 the operation decides
	// (ZOOKEEPER-4026).
	{Name: "create, create2 and createContainer", Run: one(func(s *Script, a *Client) {
		for i, create := range creates {
			for flags := range int32(5) {
				r := a.Ok(Multi(create(n, nil, Open, flags)))
				s.Equal(1, len(r.Created), "a path")
				hasStat := flags == jute.FlagContainer || s.Since(zktest.ZooKeeper39) && i > 0
				s.Equal(hasStat, r.Stat != jute.Stat{}, "a Stat")
				a.Ok(Exists(r.Created[0], false), Delete(r.Created[0], -1))
			}
		}
	})},
	// The library's join relies on this: the Stat of the setData is the line's
	// after the preceding create.
	{Name: "create, then setData of the parent", Run: one(func(s *Script, a *Client) {
		a.Ok(Container(n))
		for i := range int32(3) {
			r := a.Ok(Multi(EphemeralSequential(n+"/n-"), SetData(n, []byte("marker"), -1)))
			s.Equal([]int32{i + 1, i + 1}, []int32{r.Stat.NumChildren, r.Stat.Cversion}, "children and cversion include the create")
			s.Equal(a.Ok(GetChildren2(n, false)).Stat, r.Stat, "the Stat is that after the transaction")
			s.Equal(a.Ok(Exists(r.Created[0], false)).Stat.Czxid, r.Stat.Mzxid, "mzxid is the new one's czxid")
		}
		a.Ok(Delete(n+"/n-0000000000", -1), Delete(n+"/n-0000000001", -1))
		a.Ok(Multi(Delete(n+"/n-0000000002", -1), Delete(n, -1)))
	})},
	// The Stat is that when setData is applied. It does not include later
	// operations of the transaction.
	{Name: "setData, then create", Run: one(func(s *Script, a *Client) {
		a.Multi(make([]int32, 5), SetData(root, []byte("x"), -1), Create2(n, nil, Open, 0), SetData(n, []byte("1"), 0),
			Create2(m, nil, Open, 0), SetData(n, []byte("22"), 1))
		a.Ok(Exists(root, false), GetData(n, false))
	})},
	{Name: "sequential names, which later operations can guess", Run: one(func(s *Script, a *Client) {
		next := Sequential("/case/n-")
		a.Multi([]int32{0, jute.ErrNoNode}, next, Delete("/case/n-0000000007", -1))
		r := a.Ok(Multi(next, next, Delete("/case/n-0000000000", -1), next, Plain("/case/n-0000000002/child")))
		s.Equal([]string{"/case/n-0000000000", "/case/n-0000000001", "/case/n-0000000002", "/case/n-0000000002/child"}, r.Created, "names")
		a.Ok(GetChildren2(root, false), Exists("/case/n-0000000002", false))
	})},
	{Name: "operations that it must not contain", Run: func(s *Script) {
		// MultiOperationRecord cannot read these, nor both kinds in one.
		for i, op := range []Request{
			Exists(root, false), Sync(root), SetACL(root, Open, -1),
			Ping(), Multi(), Close(), DeleteContainer(root), {Op: 999, Text: "op 999"},
			// It can read these, but they belong in a multiRead.
			GetData(root, false), GetChildren(root, false),
		} {
			a := s.Connect(string(rune('a' + i)))
			a.Try(Multi(op))
			a.Try(Multi(Plain(n), op))
			a.Try(Exists(n, false))
		}
	}},
	{Name: "that fails between others in flight", Run: one(func(s *Script, a *Client) {
		// The server rolls back the changes of the failed multi, but not those
		// of earlier requests (PrepRequestProcessor.rollbackPendingChanges).
		next := Sequential("/case/n-")
		a.SendTogether(
			next, Multi(next, next, Check(root, 7)), next,
			SetData(root, nil, 0), Multi(SetData(root, nil, 1), next, Delete("/case/missing", -1)), SetData(root, nil, 1),
			next, Delete("/case/n-0000000000", -1), Plain("/case/n-0000000000"),
		)
		a.Try(GetChildren2(root, false))
	})},
	{Name: "cut short", Run: one(func(s *Script, a *Client) {
		r := Multi(Plain(n))
		r.Body = r.Body[:len(r.Body)-9]
		r.Text += " without an end"
		a.Try(r)
		a.Try(Exists(n, false))
	})},
	{Name: "of ephemerals", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Multi(Ephemeral("/case/x"), Ephemeral("/case/y"), Delete("/case/x", -1)))
		b.Ok(Multi(Delete("/case/y", -1), Ephemeral("/case/y")), Exists("/case/y", false))
		a.End()
		b.Ok(GetChildren2(root, false), GetEphemerals(root))
	})},
	{Name: "multiRead", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(n, []byte("data"), Open, 0), Create("/case/closed", nil, Anyone(0), 0))
		// Each read has its own result, whether or not others fail.
		a.Ok(MultiRead(
			GetData(n, false), GetChildren(root, false), GetData("/case/missing", false),
			GetChildren("/case/missing", false), GetData("/case/closed", false), GetChildren(n, false)))
		// It sets no watches: MultiOperationRecord reads the flag and ignores it.
		a.Ok(MultiRead(GetData(n, true), GetChildren(n, true)), Plain(m), SetData(n, nil, -1))
		a.Try(MultiRead(Exists(n, false)))
		a.Try(MultiRead(Plain("/case/m")))
		a.Ok(GetChildren(root, false))
	})},
}
