package conformance

import (
	"strconv"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var childrenCases = []Case{
	{Name: "getChildren and getChildren2", Run: one(func(s *Script, a *Client) {
		s.Equal([]string{}, a.Ok(GetChildren(root, false)).Children, "empty, not null")
		s.Equal([]string{}, a.Ok(GetChildren2(root, false)).Children, "empty, not null")
		a.Ok(Plain(n), Ephemeral("/case/y"), Plain(m))
		s.Equal([]string{"n", "y"}, a.Ok(GetChildren(root, false)).Children, "names")
		s.Equal(int32(2), a.Ok(GetChildren2(root, false)).Stat.NumChildren, "count")
		a.Fails(jute.ErrNoNode, GetChildren("/case/missing", false), GetChildren2("/case/missing", false))
		a.Ok(GetChildren2("/case/y", false))
	})},
	// The numbers of sequential children count only creates: the number is
	// (cversion + numChildren) / 2.
	{Name: "cversion counts creates and deletes of children", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain(n))
		counts := func(cversion, children int32, claim string) {
			s.t.Helper()
			st := a.Ok(GetData(n, false)).Stat
			s.Equal([]int32{cversion, children}, []int32{st.Cversion, st.NumChildren}, claim)
		}
		counts(0, 0, "new")
		a.Ok(Ephemeral(m))
		counts(1, 1, "created")
		a.Ok(Delete(m, -1))
		counts(2, 0, "deleted")
		a.Ok(Ephemeral(m))
		a.Fails(jute.ErrNodeExists, Plain(m))
		a.Fails(jute.ErrNoNode, Delete(n+"/x", -1))
		counts(3, 1, "failed operations do not count")
		a.Ok(SetData(m, []byte("x"), -1), Plain(n+"/c"), Plain(n+"/c/below"))
		counts(4, 2, "neither data nor grandchildren count")
		a.Ok(Multi(Plain(n+"/d"), Delete(n+"/d", -1), Delete(m, -1)))
		counts(7, 1, "each operation of a multi")
		b.Ok(Ephemeral(n+"/of b"), Close())
		counts(9, 1, "the end of a session")
		s.Equal(n+"/s0000000005", a.Ok(Sequential(n+"/s")).Path, "(9 + 1) / 2")
	})},
	{Name: "getAllChildrenNumber and getEphemerals", Run: two(func(s *Script, a, b *Client) {
		a.Ok(Plain("/case/x"), Ephemeral("/case/x/e"), Ephemeral("/case/xe"))
		b.Ok(Ephemeral("/case/x/of b"))
		a.Ok(GetAllChildrenNumber(root), GetAllChildrenNumber("/case/x"), GetAllChildrenNumber("/case/xe"))
		a.Fails(jute.ErrNoNode, GetAllChildrenNumber("/case/missing"))
		for _, prefix := range []string{"/", "", "/case/x/", "/case/x", "/missing"} {
			a.Ok(GetEphemerals(prefix))
		}
		// The server ignores spaces around nothing and around a slash alone (FinalRequestProcessor).
		for prefix, want := range map[string]int{" ": 2, " / ": 2, " /case/x": 0, "/case/x ": 0} {
			s.Equal(want, len(a.Quietly(GetEphemerals(prefix)).Children), prefix)
		}
	})},
	// The order is that of a hash set, in which the table's size and the order of
	// insertion play a part.
	{Name: "order", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n))
		names := []string{"b", "Aa", "BB", "lock-", "ü", "\u2603", "z", "AaAa", "BBBB", "AaBB"}
		child := func(i int) string { return n + "/" + names[i%len(names)] + strconv.Itoa(i/len(names)) }
		for i := range 60 {
			a.Quietly(Plain(child(i)))
			if i%9 == 0 {
				a.Ok(GetChildren(n, false))
			}
		}
		for i := range 50 {
			a.Quietly(Delete(child(i), -1))
			if i%9 == 0 {
				a.Ok(GetChildren2(n, false))
			}
		}
		a.Quietly(Plain(n + "/last"))
		a.Ok(GetChildren(n, false))
		a.Quietly(SetData(n, []byte("x"), -1), Plain(n+"/last/below"))
		a.Ok(GetChildren(n, false))
	})},
}
