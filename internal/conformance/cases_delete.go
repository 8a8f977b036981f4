package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var deleteCases = []Case{
	{Name: "delete", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Ok(Create(s.Path("n/m"), nil, Open, 0))
		r := a.Fails(jute.ErrNotEmpty, Delete(s.Path("n"), -1))
		s.Equal(int32(0), r.Stat.Version, "an error has no record")
		r = a.Ok(Delete(s.Path("n/m"), 0))
		st := a.Ok(Exists(s.Path("n"), false)).Stat
		s.Equal(r.Zxid, st.Pzxid, "pzxid is the zxid of the deletion")
		// The server counts creates. The Stat shows creates and deletes: twice
		// the creates minus the number of children (DataNode.copyStat).
		s.Equal(int32(2), st.Cversion, "a create and a delete")
		s.Equal(int32(0), st.NumChildren, "children")
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), 1))
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), -2))
		a.Ok(SetData(s.Path("n"), []byte("1"), 0))
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), 0))
		a.Ok(Delete(s.Path("n"), 1))
		a.Fails(jute.ErrNoNode, Delete(s.Path("n"), -1))
		a.Fails(jute.ErrNoNode, Delete(s.Path("n/m"), -1))
	})},
	{Name: "the order of errors", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("n"), nil, Open, 0))
		a.Ok(Create(s.Path("n/m"), nil, Open, 0))
		a.Fails(jute.ErrBadVersion, Delete(s.Path("n"), 5))
		a.Ok(SetACL(s.Path("n"), ReadOnly, -1))
		a.Fails(jute.ErrNoAuth, Delete(s.Path("n/m"), 5))
		a.Fails(jute.ErrNoAuth, Delete(s.Path("n/missing"), -1))
	})},
	{Name: "paths", Run: one(func(s *Script, a *Client) {
		for _, path := range []string{
			"", "x", "//", s.Path("missing"), s.Path("n/"), s.Path("a\x00b"), s.Path(".."),
		} {
			a.Call(Delete(path, -1))
		}
		for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			a.Fails(jute.ErrBadArguments, Delete(path, -1))
		}
	})},
	// The leader's ContainerManager submits deleteContainer to itself, with the
	// path as the record. Before 3.9 the server takes a client's whole frame, with
	// its header, for the path. Since then it deletes the znode, whatever its ACL,
	// and even if it is no container.
	{Name: "deleteContainer by a client", Run: one(func(s *Script, a *Client) {
		a.Ok(CreateContainer(s.Path("box"), nil, Open, jute.FlagContainer))
		a.Call(DeleteContainer(s.Path("box")))
		a.Call(Request{Op: jute.OpDeleteContainer, Text: "deleteContainer without a length", Body: []byte(s.Path("box"))})
		a.Call(Exists(s.Path("box"), false))
		for _, flags := range []int32{jute.FlagEphemeral, 0} {
			a.Ok(Create(s.Path("n"), nil, Anyone(0), flags))
			a.Call(DeleteContainer(s.Path("n")))
			a.Call(Delete(s.Path("n"), -1))
		}
		a.Ok(Create(s.Path("parent"), nil, Open, 0))
		a.Ok(Create(s.Path("parent/n"), nil, Open, 0))
		a.Ok(SetACL(s.Path("parent"), Anyone(0), -1))
		for _, path := range []string{s.Path("parent"), s.Path("parent/n"), s.Path("missing"), s.Path("missing/n"), s.Path("n/"), "/", "", "x", "/zookeeper"} {
			a.Call(DeleteContainer(path))
		}
		a.Ok(GetChildren2(s.Path(""), false))
	})},
}
