package conformance

import (
	"fmt"
	"math"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var sequenceCases = []Case{
	{Name: "counts creates", Run: one(func(s *Script, a *Client) {
		next := func(want string) string {
			r := a.Ok(Create(s.Path("p/n-"), nil, Open, jute.FlagSequential))
			s.Equal(s.Path("p/n-"+want), r.Path, "number")
			return r.Path
		}
		a.Ok(Create(s.Path("p"), nil, Open, 0))
		next("0000000000")
		next("0000000001")
		// Plain creates count too.
		a.Ok(Create(s.Path("p/plain"), nil, Open, 0))
		last := next("0000000003")
		// Deletes neither decrease the counter nor use a number.
		a.Ok(Delete(last, -1))
		a.Ok(Delete(s.Path("p/plain"), -1))
		next("0000000004")
		// A failed create uses no number.
		a.Fails(jute.ErrNodeExists, Create(s.Path("p/n-0000000000"), nil, Open, 0))
		a.Fails(jute.ErrInvalidACL, Create(s.Path("p/n-"), nil, nil, jute.FlagSequential))
		a.Fails(jute.ErrBadVersion, Multi(
			Create(s.Path("p/n-"), nil, Open, jute.FlagSequential), Check(s.Path("p"), 7)))
		next("0000000005")
		// Changes of the parent's data do not count.
		a.Ok(SetData(s.Path("p"), []byte("x"), -1))
		next("0000000006")
		// Grandchildren do not count.
		a.Ok(Create(s.Path("p/n-0000000000/below"), nil, Open, 0))
		next("0000000007")
		a.Ok(GetChildren2(s.Path("p"), false))
	})},
	{Name: "starts again if the parent is created again", Run: one(func(s *Script, a *Client) {
		for range 2 {
			a.Ok(Create(s.Path("p"), nil, Open, 0))
			for range 2 {
				a.Ok(Create(s.Path("p/n-"), nil, Open, jute.FlagEphemeralSequential))
			}
			a.Ok(Delete(s.Path("p/n-0000000000"), -1))
			a.Ok(Delete(s.Path("p/n-0000000001"), -1))
			a.Ok(Delete(s.Path("p"), -1))
		}
	})},
	{Name: "collides with an existing name", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("p"), nil, Open, 0))
		a.Ok(Create(s.Path("p/n-0000000001"), nil, Open, 0))
		a.Fails(jute.ErrNodeExists, Create(s.Path("p/n-"), nil, Open, jute.FlagSequential))
		a.Fails(jute.ErrNodeExists, Create(s.Path("p/n-"), nil, Open, jute.FlagSequential))
		a.Ok(Create(s.Path("p/m-"), nil, Open, jute.FlagSequential))
		a.Ok(Create(s.Path("p/n-"), nil, Open, jute.FlagSequential))
	})},
	{Name: "in one multi", Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("p"), nil, Open, 0))
		n := Create(s.Path("p/n-"), nil, Open, jute.FlagSequential)
		a.Ok(Multi(n, n, Delete(s.Path("p/n-0000000000"), -1), n))
		a.Ok(GetChildren2(s.Path("p"), false))
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
		p := s.Path("end")
		a.Ok(Create(p, nil, Open, 0))
		a.End()
		s.Fail(s.server.CounterNearEnd(p, math.MaxInt32-2), "set the counter near its end")
		a = s.Connect("a again")
		plain, unique := Create(p+"/n-", nil, Open, jute.FlagSequential), func(u string) Request {
			return Create(p+"/"+u+"-", nil, Open, jute.FlagSequential)
		}
		s.Equal(p+"/n-2147483645", a.Ok(plain).Path, "near the end")
		s.Equal(p+"/n-2147483646", a.Ok(plain).Path, "the last but one")
		s.Equal(p+"/n-2147483647", a.Ok(plain).Path, "the last")
		a.Ok(Exists(p, false))
		a.Fails(jute.ErrNodeExists, plain)
		s.Equal(p+"/a-2147483647", a.Ok(unique("a")).Path, "the same number again")
		s.Equal(p+"/b-2147483647", a.Ok(unique("b")).Path, "and again")
		a.Ok(Create2(p+"/c-", nil, Open, jute.FlagEphemeralSequential))
		a.Ok(Exists(p, false))
		// The second and third create of a multi count on from the first.
		r := a.Ok(Multi(unique("d"), unique("e"), unique("f"), SetData(p, nil, -1)))
		s.Equal([]string{p + "/d-2147483647", p + "/e--2147483648", p + "/f--2147483647"}, r.Created, "names")
		a.Ok(Exists(p, false))
		s.Equal(p+"/g-2147483647", a.Ok(unique("g")).Path, "and the same number again")
		// It depends on the server's speed which of these creates are in flight
		// together, so their numbers are not compared.
		before := len(s.lines)
		var sent []int32
		for i := range 20 {
			sent = append(sent, a.Send(unique(fmt.Sprintf("h%d", i))))
		}
		var made []string
		for _, xid := range sent {
			made = append(made, a.awaitReply(xid).Path)
		}
		for _, path := range made {
			_, number, _ := strings.Cut(strings.TrimPrefix(path, p), "-")
			s.Equal(true, number == "2147483647" || strings.HasPrefix(number, "-"), path)
			a.Ok(Delete(path, -1))
		}
		s.lines = s.lines[:before]
		a.Ok(GetChildren2(p, false))
		for _, child := range a.Ok(GetChildren(p, false)).Children {
			a.Ok(Delete(p+"/"+child, -1))
		}
		a.Ok(Exists(p, false))
		s.Equal(p+"/n-2147483647", a.Ok(plain).Path, "an empty parent does not reset it")
		a.Ok(Delete(p+"/n-2147483647", -1))
		a.Ok(Delete(p, -1))
		a.Ok(Create(p, nil, Open, 0))
		s.Equal(p+"/n-0000000000", a.Ok(plain).Path, "a new parent does")
	})},
}
