package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var deleteCases = []Case{
	{Name: "delete", Run: func(s *Script) {
		a := s.Connect("a")
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Ok(Create(s.Path("n/m"), nil, Open, 0))
		r := a.Fails(jute.ErrNotEmpty, Delete(s.Path("n"), -1))
		s.Equal(int32(0), r.Stat.Version, "nothing follows an error")
		r = a.Ok(Delete(s.Path("n/m"), 0))
		st := a.Ok(Exists(s.Path("n"), false)).Stat
		s.Equal(r.Zxid, st.Pzxid, "pzxid is that of the deletion")
		// The tree counts creates. What is shown is twice that, less the
		// children there are: creates and deletes (DataNode.copyStat).
		s.Equal(int32(2), st.Cversion, "a create and a delete")
		s.Equal(int32(0), st.NumChildren, "children")
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), 1))
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), -2))
		a.Ok(SetData(s.Path("n"), []byte("1"), 0))
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), 0))
		a.Ok(Delete(s.Path("n"), 1))
		a.Fails(jute.ErrNoNode, Delete(s.Path("n"), -1))
		a.Fails(jute.ErrNoNode, Delete(s.Path("n/m"), -1))
	}},
	{Name: "the order of errors", Run: func(s *Script) {
		a := s.Connect("a")
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Ok(Create(s.Path("n/m"), nil, Open, 0))
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), 5))
		a.Ok(SetACL(s.Path("n"), ReadOnly, -1))
		a.Fails(jute.ErrNoAuth, Delete(s.Path("n/m"), 5))
		a.Fails(jute.ErrNoAuth, Delete(s.Path("n/missing"), -1))
	}},
	{Name: "paths", Run: func(s *Script) {
		a := s.Connect("a")
		for _, path := range []string{
			"", "x", "/", "//", s.Path("missing"), s.Path("n/"), s.Path("a\x00b"), s.Path(".."),
			"/zookeeper", "/zookeeper/config", "/zookeeper/quota",
		} {
			a.Call(Delete(path, -1))
		}
		a.Fails(jute.ErrBadArguments, Delete("/", -1))
		a.Fails(jute.ErrBadArguments, Delete("/zookeeper", -1))
		a.Fails(jute.ErrBadArguments, Delete("/zookeeper/config", -1))
		a.Fails(jute.ErrBadArguments, Delete("/zookeeper/quota", -1))
	}},
	// deleteContainer is what the leader's ContainerManager submits to itself,
	// with the path for a record; a client's frame is taken for a path as a
	// whole, header and all.
	{Name: "deleteContainer by a client", Run: func(s *Script) {
		a := s.Connect("a")
		a.Ok(CreateContainer(s.Path("box"), nil, Open, jute.FlagContainer))
		a.Call(DeleteContainer(s.Path("box")))
		a.Call(Request{Op: jute.OpDeleteContainer, Text: "deleteContainer without a length", Body: []byte(s.Path("box"))})
		a.Ok(Exists(s.Path("box"), false))
		a.Ok(Delete(s.Path("box"), -1))
	}},
}
