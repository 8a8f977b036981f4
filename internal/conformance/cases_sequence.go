package conformance

import (
	"fmt"
	"math"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var sequenceCases = []Case{
	{Name: "counts creates", Run: one(func(s *Script, a *Client) {
		next := func(want string) {
			s.t.Helper()
			s.Equal(n+"/n-"+want, a.Ok(Sequential(n+"/n-")).Path, "number")
		}
		a.Ok(Plain(n))
		next("0000000000")
		next("0000000001")
		// Plain creates count too.
		a.Ok(Plain(m))
		next("0000000003")
		// Deletes neither decrease the counter nor use a number.
		a.Ok(Delete(n+"/n-0000000003", -1), Delete(m, -1))
		next("0000000004")
		// A failed create uses no number.
		a.Fails(jute.ErrNodeExists, Plain(n+"/n-0000000000"))
		a.Fails(jute.ErrInvalidACL, Create(n+"/n-", nil, nil, jute.FlagSequential))
		a.Fails(jute.ErrBadVersion, Multi(Sequential(n+"/n-"), Check(n, 7)))
		next("0000000005")
		// Neither changes of the parent's data nor grandchildren count.
		a.Ok(SetData(n, []byte("x"), -1), Plain(n+"/n-0000000000/below"))
		next("0000000006")
		a.Ok(GetChildren2(n, false))
	})},
	{Name: "starts again if the parent is created again", Run: one(func(s *Script, a *Client) {
		for range 2 {
			a.Ok(Plain(n), EphemeralSequential(n+"/n-"), EphemeralSequential(n+"/n-"))
			a.Ok(Delete(n+"/n-0000000000", -1), Delete(n+"/n-0000000001", -1), Delete(n, -1))
		}
	})},
	{Name: "collides with an existing name", Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n), Plain(n+"/n-0000000001"))
		a.Fails(jute.ErrNodeExists, Sequential(n+"/n-"), Sequential(n+"/n-"))
		a.Ok(Sequential(n+"/m-"), Sequential(n+"/n-"))
	})},
	// The counter stops at its maximum. DataTree.createNode sets a znode's
	// cversion to that of the transaction only if that is higher, and
	// 2147483647 + 1 is -2147483648. So the tree stays at 2147483647, and
	// every create that the server prepares from the tree gets that number
	// again. But creates that are in flight together, and those of one multi,
	// are prepared from each other and continue to count, with negative
	// numbers. The parent's pzxid does not advance either, because it is set
	// together with cversion. Deletes still advance it.
	{Name: "at its end", CounterNearEnd: true, Run: one(func(s *Script, a *Client) {
		a.Ok(Plain(n))
		a.End()
		s.Fail(s.server.CounterNearEnd(s.root+"/n", math.MaxInt32-2), "set the counter near its end")
		a = s.Connect("a again")
		unique := func(u string) Request { return Sequential(n + "/" + u + "-") }
		plain := unique("n")
		s.Equal(n+"/n-2147483645", a.Ok(plain).Path, "near the end")
		s.Equal(n+"/n-2147483646", a.Ok(plain).Path, "the last but one")
		s.Equal(n+"/n-2147483647", a.Ok(plain).Path, "the last")
		a.Ok(Exists(n, false))
		a.Fails(jute.ErrNodeExists, plain)
		s.Equal(n+"/a-2147483647", a.Ok(unique("a")).Path, "the same number again")
		s.Equal(n+"/b-2147483647", a.Ok(unique("b")).Path, "and again")
		a.Ok(Create2(n+"/c-", nil, Open, jute.FlagEphemeralSequential), Exists(n, false))
		// The second and third create of a multi count on from the first.
		r := a.Ok(Multi(unique("d"), unique("e"), unique("f"), SetData(n, nil, -1)))
		s.Equal([]string{n + "/d-2147483647", n + "/e--2147483648", n + "/f--2147483647"}, r.Created, "names")
		a.Ok(Exists(n, false))
		s.Equal(n+"/g-2147483647", a.Ok(unique("g")).Path, "and the same number again")
		// It depends on the server's speed which of these creates are in flight
		// together, so their numbers are not compared.
		before := len(s.lines)
		for i := range 20 {
			a.Send(unique(fmt.Sprintf("h%d", i)))
		}
		var made []string
		for range 20 {
			made = append(made, a.Receive().Path)
		}
		for _, path := range made {
			_, number, _ := strings.Cut(strings.TrimPrefix(path, n), "-")
			s.Equal(true, number == "2147483647" || strings.HasPrefix(number, "-"), path)
			a.Ok(Delete(path, -1))
		}
		s.lines = s.lines[:before]
		a.Ok(GetChildren2(n, false))
		for _, child := range a.Ok(GetChildren(n, false)).Children {
			a.Ok(Delete(n+"/"+child, -1))
		}
		a.Ok(Exists(n, false))
		s.Equal(n+"/n-2147483647", a.Ok(plain).Path, "an empty parent does not reset it")
		a.Ok(Delete(n+"/n-2147483647", -1), Delete(n, -1), Plain(n))
		s.Equal(n+"/n-0000000000", a.Ok(plain).Path, "a new parent does")
	})},
}
