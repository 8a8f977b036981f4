package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var containerCases = []Case{
	// At its next check the ContainerManager deletes a container that has no
	// children but had one before. By default it keeps a container that never had
	// any.
	{Name: "is reaped after its last child is deleted", Exclusive: true, Run: func(s *Script) {
		a := s.Connect("a")
		outer, inner := s.Path("outer"), s.Path("outer/inner")
		a.Ok(CreateContainer(s.Path("unused"), nil, Open, jute.FlagContainer))
		a.Ok(CreateContainer(outer, nil, Open, jute.FlagContainer))
		a.Ok(CreateContainer(inner, nil, Open, jute.FlagContainer))
		a.Ok(Create(inner+"/n", nil, Open, jute.FlagEphemeral))
		a.Ok(AddWatch(s.Path(""), jute.WatchPersistentRecursive))
		a.Ok(Delete(inner+"/n", -1))
		for range 2 {
			a.Receive()
		}
		a.Fails(jute.ErrNoNode, Exists(outer, false))
		a.Ok(Exists(s.Path("unused"), false))
		a.Ok(GetChildren2(s.Path(""), false))
		a.Ok(Delete(s.Path("unused"), -1))
	}},
}
