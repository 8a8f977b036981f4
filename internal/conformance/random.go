package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Random returns a case with a number of random steps. A few clients change, read
// and watch a few znodes, and drop, move and close their sessions. The steps
// depend on the seed and not on the replies. So two servers get the same requests
// as long as their replies are the same.
//
// It creates no children in containers, because the server's clock determines
// when it deletes the container.
func Random(seed uint64, steps int) Case {
	return Case{Name: fmt.Sprintf("seed %d", seed), Run: func(s *Script) {
		r := &random{s: s, Rand: rand.New(rand.NewPCG(seed, 0)), zxids: []int64{0}}
		for _, name := range []string{"a", "b", "c"} {
			r.clients = append(r.clients, s.Connect(name))
		}
		r.clients[0].Ok(Plain(root+"/n"), Plain(root+"/n/a"), Plain(root+"/m"))
		for range steps {
			r.step()
			if s.t.Failed() {
				return
			}
		}
		r.drain(false)
	}}
}

type random struct {
	*rand.Rand
	s       *Script
	clients []*Client
	zxids   []int64 // zxids of headers
}

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

func (r *random) path() string {
	return root + "/" + pick(r, "n", "n", "n/a", "n/a", "n/b", "n/a/x", "m", "m/a", "m/s-0000000001")
}

func (r *random) version() int32 { return pick[int32](r, -1, -1, -1, 0, 1, 2) }

func (r *random) data() []byte { return pick(r, nil, []byte{}, []byte("x"), []byte("longer")) }

func (r *random) acl() []jute.ACL {
	return pick(r, Open, Open, Open, Open, Open, Open, ReadOnly, WriteOnly, Anyone(jute.PermWrite|jute.PermAdmin),
		digestACL("u:secret"), Presented)
}

func (r *random) paths() []string {
	var all []string
	for range r.IntN(3) {
		all = append(all, r.path())
	}
	return all
}

// change returns an operation that may also be part of a multi.
func (r *random) change() Request {
	flags := int32(r.IntN(4))
	path := r.path()
	if flags&jute.FlagSequential != 0 {
		path += pick(r, "/s-", "s-")
	}
	return pick(r,
		Create(path, r.data(), r.acl(), flags),
		Create(root+"/"+pick(r, "n", "m"), r.data(), Open, 0),
		Create(r.path(), r.data(), Open, 0),
		Create2(path, r.data(), r.acl(), flags),
		Delete(r.path(), r.version()),
		SetData(r.path(), r.data(), r.version()),
		SetData(r.path(), r.data(), -1),
	)
}

func (r *random) read() Request {
	if r.IntN(5) == 0 {
		return GetACL(r.path())
	}
	return pick(r, reads...)(r.path(), r.IntN(4) > 0)
}

func (r *random) multi() Request {
	var ops []Request
	for range pick(r, 0, 1, 2, 2, 2, 3, 4) {
		if r.IntN(6) == 0 {
			ops = append(ops, Check(r.path(), r.version()))
		} else {
			ops = append(ops, r.change())
		}
	}
	return Multi(ops...)
}

func (r *random) request() Request {
	at := r.IntN(len(r.zxids))
	w := Watches{Data: r.paths(), Exist: r.paths(), Child: r.paths(), Persistent: r.paths(), Recursive: r.paths()}
	kind := pick(r, jute.WatcherChildren, jute.WatcherData, jute.WatcherAny, jute.WatcherPersistent, jute.WatcherPersistentRecursive)
	rare := pick(r,
		SetACL(r.path(), r.acl(), r.version()),
		AddWatch(r.path(), pick(r, jute.WatchPersistent, jute.WatchPersistentRecursive)),
		RemoveWatches(r.path(), kind), CheckWatches(r.path(), kind),
		SetWatches(r.zxids[at], fmt.Sprintf("the header %d", at), w),
		SetWatches2(r.zxids[at], fmt.Sprintf("the header %d", at), w),
		MultiRead(GetData(r.path(), false), GetChildren(r.path(), false)),
		Sync(r.path()), GetEphemerals(r.path()), GetAllChildrenNumber(r.path()),
		Auth("digest", "u:secret"),
	)
	return pick(r, r.change(), r.change(), r.change(), r.read(), r.read(), r.read(), r.multi(), rare)
}

func (r *random) step() {
	i := r.IntN(len(r.clients))
	c := r.clients[i]
	switch n := r.IntN(100); {
	case n < 80:
		r.addZxid(c.Call(r.request()))
	case n < 90: // several requests in flight
		var sent []int32
		for range 2 + r.IntN(3) {
			request := r.request()
			for request.Op == jute.OpAuth { // its reply may overtake others
				request = r.request()
			}
			sent = append(sent, c.Send(request))
		}
		for _, xid := range sent {
			r.addZxid(c.awaitReply(xid))
		}
	case n < 96:
		r.drain(false)
	case n < 98: // the session moves, or its connection is lost
		r.drain(false)
		if r.IntN(2) == 0 {
			c.Drop()
		}
		r.clients[i] = r.s.Resume(c.name, c)
	default:
		r.drain(false)
		c.End()
		r.drain(true)
		r.clients[i] = r.s.Connect(c.name)
	}
}

func (r *random) addZxid(reply Reply) {
	if reply.Zxid >= 0 {
		r.zxids = append(r.zxids, reply.Zxid)
	}
}

// drain reads everything that was sent to the clients. After the end of a session
// the order of the events is that of a hash set of ephemerals (DataTree), so
// drain sorts them.
func (r *random) drain(sorted bool) {
	for _, c := range r.clients {
		if c.over {
			continue
		}
		before := len(r.s.lines)
		c.Drain()
		if sorted {
			slices.Sort(r.s.lines[before:])
		}
	}
}
