package costs

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// config makes the znode /config, and n clients watch it.
func (w *world) config(n int) *recipetest.WatchWorld {
	x := &recipetest.WatchWorld{World: w.World, Operator: w.Bare()}
	x.Creates("/config", "1")
	for range n {
		recipetest.WatchesAt(w.t, w.client(), "/config")
	}
	return x
}

// children is config for clients that watch the children.
func (w *world) children(n int) *recipetest.WatchWorld {
	x := w.config(0)
	for range n {
		recipetest.ListsOf(w.t, w.client(), "/config")
	}
	return x
}

// newSession is the use that ends c's session, and waits for what c does in the next one.
func (w *world) newSession() func() {
	time.Sleep(settled)
	return func() {
		require.True(w.t, w.Srv.Expire(recipetest.SessionID(w.c)))
		time.Sleep(2 * recipetest.LongSession)
	}
}

var watchRows = []row{
	{"Client.Get", func(w *world) func() { return func() { _, _, err := w.c.Get(w.ctx(), w.Path); w.ok(err) } }},
	{"Client.Children", func(w *world) func() { return func() { _, _, err := w.c.Children(w.ctx(), w.Path); w.ok(err) } }},
	{"Client.Exists", func(w *world) func() { return func() { _, err := w.c.Exists(w.ctx(), w.Path); w.ok(err) } }},
	{"Watch: to begin", func(w *world) func() {
		w.config(0)
		return func() { recipetest.WatchesAt(w.t, w.c, "/config") }
	}},
	{"Watch: to begin, there is no znode", func(w *world) func() {
		return func() { recipetest.WatchesAt(w.t, w.c, "/config") }
	}},
	{"Watch: ten of one client begin", func(w *world) func() {
		w.config(0)
		return func() {
			for range 10 {
				recipetest.WatchesAt(w.t, w.c, "/config")
			}
		}
	}},
	{"Watch: in a new session", func(w *world) func() {
		w.config(0)
		recipetest.WatchesAt(w.t, w.c, "/config")
		return w.newSession()
	}},
	{"Watch by three clients: the znode is created, by a create", func(w *world) func() {
		x := w.config(3)
		x.Deletes("/config")
		return func() { x.Creates("/config", "1") }
	}},
	{"Watch by three clients: the data changes, by a setData", func(w *world) func() {
		x := w.config(3)
		return func() { x.Sets("/config", "2") }
	}},
	{"Watch by three clients: the znode is deleted, by a delete", func(w *world) func() {
		x := w.config(3)
		return func() { x.Deletes("/config") }
	}},
	{"Watch by three clients: for an hour", func(w *world) func() {
		w.config(3)
		return w.idle(time.Hour)
	}},
	{"Watch by three loops of one client: the data changes, by a setData", func(w *world) func() {
		x := w.config(0)
		for range 3 {
			recipetest.WatchesAt(w.t, w.c, "/config")
		}
		return func() { x.Sets("/config", "2") }
	}},
	{"WatchChildren: to begin", func(w *world) func() {
		w.config(0)
		return func() { recipetest.ListsOf(w.t, w.c, "/config") }
	}},
	{"WatchChildren: to begin, there is no znode", func(w *world) func() {
		return func() { recipetest.ListsOf(w.t, w.c, "/config") }
	}},
	{"WatchChildren: the znode is created, by a create", func(w *world) func() {
		x := w.children(1)
		x.Deletes("/config")
		return func() { x.Creates("/config", "1") }
	}},
	{"WatchChildren: the data changes, by a setData", func(w *world) func() {
		x := w.children(1)
		return func() { x.Sets("/config", "2") }
	}},
	{"WatchChildren: a child is created, by a create", func(w *world) func() {
		x := w.children(1)
		return func() { x.Creates("/config/a", "") }
	}},
	{"WatchChildren: a child is deleted, by a delete", func(w *world) func() {
		x := w.children(1)
		x.Creates("/config/a", "")
		return func() { x.Deletes("/config/a") }
	}},
	{"WatchChildren: the znode is deleted, by a delete", func(w *world) func() {
		x := w.children(1)
		return func() { x.Deletes("/config") }
	}},
}

// group has n members of one client.
func (w *world) group(n int) (x *recipetest.WatchWorld, members []*zkrecipes.Membership) {
	x = &recipetest.WatchWorld{World: w.World, Operator: w.Bare()}
	x.Path = "/g"
	for i := range n {
		members = append(members, x.Joins(w.other, recipetest.Names(n)[i], ""))
	}
	return x, members
}

var groupRows = []row{
	{"Join", func(w *world) func() {
		x, _ := w.group(1)
		return func() { x.Joins(w.c, "x", "") }
	}},
	{"Join, the path does not exist", func(w *world) func() {
		x, _ := w.group(0)
		return func() { x.Joins(w.c, "x", "") }
	}},
	{"Join: in a new session", func(w *world) func() {
		x, _ := w.group(1)
		x.Joins(w.c, "x", "")
		return w.newSession()
	}},
	{"Membership.Update", func(w *world) func() {
		_, ms := w.group(1)
		return func() { w.ok(ms[0].Update(w.ctx(), nil)) }
	}},
	{"Membership.Leave", func(w *world) func() {
		_, ms := w.group(1)
		return func() { w.ok(ms[0].Leave()) }
	}},
	{"Members, of three", func(w *world) func() {
		w.group(3)
		return func() { _, err := zkrecipes.NewGroup(w.c, "/g").Members(w.ctx()); w.ok(err) }
	}},
	{"Watch: to begin, three members", func(w *world) func() {
		x, _ := w.group(3)
		return func() { x.Sees(w.c); recipetest.Settle() }
	}},
	{"Watch: to begin, the path does not exist", func(w *world) func() {
		x, _ := w.group(0)
		return func() { x.Sees(w.c); recipetest.Settle() }
	}},
	{"Watch by two clients, 20 members: one more joins", func(w *world) func() {
		x, _ := w.group(20)
		x.Sees(w.client())
		x.Sees(w.client())
		return func() { x.Joins(w.c, "x", ""); recipetest.Settle() }
	}},
	{"Watch by two clients, 20 members: one is updated", func(w *world) func() {
		x, ms := w.group(20)
		x.Sees(w.client())
		x.Sees(w.client())
		return func() { w.ok(ms[3].Update(w.ctx(), []byte("new"))); recipetest.Settle() }
	}},
	{"Watch by two clients, 20 members: one leaves", func(w *world) func() {
		x, ms := w.group(20)
		x.Sees(w.client())
		x.Sees(w.client())
		return func() { w.ok(ms[3].Leave()); recipetest.Settle() }
	}},
	{"Watch by three loops of one client, 20 members: one more joins", func(w *world) func() {
		x, _ := w.group(20)
		for range 3 {
			x.Sees(w.other)
		}
		return func() { x.Joins(w.c, "x", ""); recipetest.Settle() }
	}},
	{"Watch: for an hour", func(w *world) func() {
		x, _ := w.group(3)
		x.Sees(w.c)
		recipetest.Settle()
		return w.idle(time.Hour)
	}},
}
