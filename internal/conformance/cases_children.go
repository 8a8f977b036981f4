package conformance

import (
	"strconv"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var childrenCases = []Case{
	{Name: "getChildren and getChildren2", Run: one(func(s *Script, a *Client) {
		s.Equal([]string{}, a.Ok(GetChildren(s.Path(""), false)).Children, "empty, not null")
		s.Equal([]string{}, a.Ok(GetChildren2(s.Path(""), false)).Children, "empty, not null")
		a.Ok(Create(s.Path("x"), nil, Open, 0))
		a.Ok(Create(s.Path("y"), nil, Open, jute.FlagEphemeral))
		a.Ok(Create(s.Path("x/below"), nil, Open, 0))
		s.Equal([]string{"x", "y"}, a.Ok(GetChildren(s.Path(""), false)).Children, "names")
		s.Equal(int32(2), a.Ok(GetChildren2(s.Path(""), false)).Stat.NumChildren, "count")
		a.Fails(jute.ErrNoNode, GetChildren(s.Path("missing"), false))
		a.Fails(jute.ErrNoNode, GetChildren2(s.Path("missing"), false))
		a.Ok(GetChildren2(s.Path("y"), false))
	})},
	// The numbers of sequential children count only creates: the number is
	// (cversion + numChildren) / 2.
	{Name: "cversion counts creates and deletes of children", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Create(s.Path("p"), nil, Open, 0))
		counts := func(cversion, children int32, claim string) {
			s.t.Helper()
			st := a.Ok(GetData(s.Path("p"), false)).Stat
			s.Equal([]int32{cversion, children}, []int32{st.Cversion, st.NumChildren}, claim)
		}
		counts(0, 0, "new")
		a.Ok(Create(s.Path("p/c"), nil, Open, jute.FlagEphemeral))
		counts(1, 1, "created")
		a.Ok(Delete(s.Path("p/c"), -1))
		counts(2, 0, "deleted")
		a.Ok(Create(s.Path("p/c"), nil, Open, jute.FlagEphemeral))
		a.Fails(jute.ErrNodeExists, Create(s.Path("p/c"), nil, Open, 0))
		a.Fails(jute.ErrNoNode, Delete(s.Path("p/x"), -1))
		counts(3, 1, "failed operations do not count")
		a.Ok(SetData(s.Path("p/c"), []byte("x"), -1))
		a.Ok(Create(s.Path("p/c2"), nil, Open, 0))
		a.Ok(Create(s.Path("p/c2/below"), nil, Open, 0))
		counts(4, 2, "neither data nor grandchildren count")
		a.Ok(Multi(Create(s.Path("p/d"), nil, Open, 0), Delete(s.Path("p/d"), -1), Delete(s.Path("p/c"), -1)))
		counts(7, 1, "each operation of a multi")
		b.Ok(Create(s.Path("p/of b"), nil, Open, jute.FlagEphemeral))
		b.Ok(Close())
		counts(9, 1, "the end of a session")
		s.Equal(s.Path("p/s0000000005"), a.Ok(Create(s.Path("p/s"), nil, Open, jute.FlagSequential)).Path, "(9 + 1) / 2")
	})},
	{Name: "getAllChildrenNumber and getEphemerals", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Create(s.Path("x"), nil, Open, 0))
		a.Ok(Create(s.Path("x/e"), nil, Open, jute.FlagEphemeral))
		a.Ok(Create(s.Path("xe"), nil, Open, jute.FlagEphemeral))
		b.Ok(Create(s.Path("x/of b"), nil, Open, jute.FlagEphemeral))
		a.Ok(GetAllChildrenNumber(s.Path("")))
		a.Ok(GetAllChildrenNumber(s.Path("x")))
		a.Ok(GetAllChildrenNumber(s.Path("xe")))
		a.Fails(jute.ErrNoNode, GetAllChildrenNumber(s.Path("missing")))
		a.Ok(GetEphemerals("/"))
		a.Ok(GetEphemerals(""))
		a.Ok(GetEphemerals(s.Path("x/")))
		a.Ok(GetEphemerals(s.Path("x")))
		a.Ok(GetEphemerals("/missing"))
	})},
	// The order is that of a hash set, in which the table's size and the order of
	// insertion play a part.
	{Name: "order", Run: one(func(s *Script, a *Client) {
		p := s.Path("p")
		a.Ok(Create(p, nil, Open, 0))
		names := []string{"b", "Aa", "BB", "lock-", "ü", "\u2603", "z", "AaAa", "BBBB", "AaBB"}
		for i := range 60 {
			a.Quietly(Create(p+"/"+names[i%len(names)]+strconv.Itoa(i/len(names)), nil, Open, 0))
			if i%9 == 0 {
				a.Ok(GetChildren(p, false))
			}
		}
		for i := range 50 {
			a.Quietly(Delete(p+"/"+names[i%len(names)]+strconv.Itoa(i/len(names)), -1))
			if i%9 == 0 {
				a.Ok(GetChildren2(p, false))
			}
		}
		a.Quietly(Create(p+"/last", nil, Open, 0))
		a.Ok(GetChildren(p, false))
		a.Quietly(SetData(p, []byte("x"), -1))
		a.Quietly(Create(p+"/last/below", nil, Open, 0))
		a.Ok(GetChildren(p, false))
	})},
}
