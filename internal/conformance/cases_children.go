package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var childrenCases = []Case{
	{Name: "getChildren and getChildren2", Run: func(s *Script) {
		a := s.Connect("a")
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
	}},
	{Name: "getAllChildrenNumber and getEphemerals", Run: func(s *Script) {
		a, b := s.Connect("a"), s.Connect("b")
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
	}},
}
