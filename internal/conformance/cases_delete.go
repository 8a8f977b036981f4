package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var deleteCases = []Case{
	{Name: "delete", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Plain(m))
		a.Fails(jute.ErrNotEmpty, Delete(n, -1))
		r := a.Ok(Delete(m, 0))
		st := a.Ok(Exists(n, false)).Stat
		s.Equal(r.Zxid, st.Pzxid, "pzxid is the zxid of the deletion")
		// The server counts creates. The Stat shows creates and deletes: twice
		// the creates minus the number of children (DataNode.copyStat).
		s.Equal([]int32{2, 0}, []int32{st.Cversion, st.NumChildren}, "a create and a delete, and the children")
		a.Fails(jute.ErrBadVersion, Delete(n, 1), Delete(n, -2))
		a.Ok(SetData(n, []byte("1"), 0))
		a.Fails(jute.ErrBadVersion, Delete(n, 0))
		a.Ok(Delete(n, 1))
		a.Fails(jute.ErrNoNode, Delete(n, -1), Delete(m, -1))
	})},
	{Name: "znodes of the server", Run: one(func(s *Script, a *Client) {
		for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			a.Fails(jute.ErrBadArguments, Delete(path, -1))
		}
	})},
	// The leader's ContainerManager submits deleteContainer to itself, with the
	// path as the record. Before 3.9 the server takes a client's whole frame, with
	// its header, for the path. Since then it deletes the znode, whatever its ACL,
	// and even if it is no container.
	{Name: "deleteContainer by a client", Run: one(func(s *Script, a *Client) {
		a.Ok(Container("/case/box"))
		a.Call(DeleteContainer("/case/box"))
		a.Call(Request{Op: jute.OpDeleteContainer, Text: "deleteContainer without a length", Body: []byte("/case/box")})
		a.Call(Exists("/case/box", false))
		for _, flags := range []int32{jute.FlagEphemeral, 0} {
			a.Ok(Create(n, nil, Anyone(0), flags))
			a.Call(DeleteContainer(n), Delete(n, -1))
		}
		a.Ok(Plain(n), Plain(m), SetACL(n, Anyone(0), -1))
		for _, path := range []string{n, m, "/case/missing", "/case/missing/n", "/case/n/", "/", "", "x", "/zookeeper"} {
			a.Call(DeleteContainer(path))
		}
		a.Ok(GetChildren2(root, false))
	})},
}
