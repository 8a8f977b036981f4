package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var containerCases = []Case{
	// At its next check the ContainerManager deletes a container that has no
	// children but had one before. By default it keeps a container that never had
	// any.
	{Name: "is reaped after its last child is deleted", Exclusive: true, Run: one(func(s *Script, a *Client) {
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
	})},
	// The library creates containers like this, so that none stays that is never used.
	{Name: "is reaped if it had a child only within the transaction that created it", Exclusive: true, Run: one(func(s *Script, a *Client) {
		unused, box := s.Path("unused"), s.Path("box")
		a.Ok(AddWatch(s.Path(""), jute.WatchPersistentRecursive))
		r := a.Ok(Multi(hadChild(unused)...))
		s.Equal([]int32{0, 0, 0}, r.Results, "all succeed")
		a.Receive() // it is reaped
		a.Fails(jute.ErrNoNode, Exists(unused, false))
		// A sequential child has the next number.
		a.Ok(Multi(append(hadChild(box), Create(box+"/n-", nil, Open, jute.FlagSequential))...))
		a.Ok(Delete(box+"/n-0000000001", -1))
		a.Receive()
		a.Fails(jute.ErrNoNode, Exists(box, false))
	})},
}

// hadChild creates a container, and a child for a moment.
func hadChild(path string) []Request {
	return []Request{
		CreateContainer(path, []byte("data"), Open, jute.FlagContainer),
		Create(path+"/x", nil, Open, 0),
		Delete(path+"/x", -1),
	}
}
