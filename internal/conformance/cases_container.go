package conformance

import (
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var containerCases = []Case{
	// At its next check the ContainerManager deletes a container that has no
	// children but had one before. By default it keeps a container that never had
	// any.
	{Name: "is reaped after its last child is deleted", Run: one(func(s *Script, a *Client) {
		inner := n + "/inner"
		a.Ok(Container("/case/unused"), Container(n), Container(inner), Ephemeral(inner+"/n"))
		a.Ok(AddWatch(root, jute.WatchPersistentRecursive), Delete(inner+"/n", -1))
		a.Receive()
		a.Receive()
		a.Fails(jute.ErrNoNode, Exists(n, false))
		a.Ok(Exists("/case/unused", false), GetChildren2(root, false), Delete("/case/unused", -1))
	})},
	// The library creates containers like this, so that none stays that is never used.
	{Name: "is reaped if it had a child only within the transaction that created it", Run: one(func(s *Script, a *Client) {
		unused, box := "/case/unused", "/case/box"
		a.Ok(AddWatch(root, jute.WatchPersistentRecursive))
		a.Multi([]int32{0, 0, 0}, hadChild(unused)...)
		a.Receive() // it is reaped
		a.Fails(jute.ErrNoNode, Exists(unused, false))
		// A sequential child has the next number.
		a.Ok(Multi(append(hadChild(box), Sequential(box+"/n-"))...), Delete(box+"/n-0000000001", -1))
		a.Receive()
		a.Fails(jute.ErrNoNode, Exists(box, false))
	})},
	// In a multi the flags decide what a createTTL creates, and the time to live is ignored (Op.create).
	{Name: "does not take along a znode that a createTTL without that flag has created", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Multi(CreateTTL(n, nil, Open, 0, 1)))
		b.Ok(Multi(CreateTTL("/case/e", nil, Open, jute.FlagEphemeral, 1)))
		s.Equal(b.ID, a.Ok(Exists("/case/e", false)).Stat.EphemeralOwner, "the owner")
		b.Ok(GetEphemerals(root))
		b.End()
		a.Fails(jute.ErrNoNode, Exists("/case/e", false))
		a.Ok(AddWatch(root, jute.WatchPersistentRecursive), Multi(hadChild("/case/box")...))
		s.Equal([]Event{deleted("/case/box")}, a.Receive().Events, "it is reaped")
		a.Ok(GetData(n, false), Delete(n, -1))
	})},
}

// hadChild creates a container, and a child for a moment.
func hadChild(path string) []Request {
	return []Request{
		CreateContainer(path, []byte("data"), Open, jute.FlagContainer),
		Plain(path + "/x"),
		Delete(path+"/x", -1),
	}
}
