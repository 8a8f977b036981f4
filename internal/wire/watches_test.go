package wire

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// armedWatches returns the watches that the next connection must arm again.
func (r *rig) armedWatches() []string {
	r.Session.mu.Lock()
	defer r.Session.mu.Unlock()
	var names []string
	for w := range r.watches {
		names = append(names, [...]string{"data ", "exist ", "child "}[w.kind]+w.path)
	}
	slices.Sort(names)
	return names
}

func TestRepliesArmTheWatchesThatGoZookeeperArms(t *testing.T) {
	type setting struct {
		op    int32
		watch bool
		code  int32
		armed string // "" for none
	}
	for _, c := range []setting{
		{jute.OpGetData, true, 0, "data /a"},
		{jute.OpGetData, false, 0, ""},
		{jute.OpGetData, true, jute.ErrNoNode, ""},
		{jute.OpGetData, true, -102, ""}, // NoAuth
		{jute.OpExists, true, 0, "data /a"},
		{jute.OpExists, true, jute.ErrNoNode, "exist /a"},
		{jute.OpExists, true, -102, ""},
		{jute.OpExists, false, 0, ""},
		{jute.OpGetChildren, true, 0, "child /a"},
		{jute.OpGetChildren2, true, 0, "child /a"},
		{jute.OpGetChildren2, true, jute.ErrNoNode, ""},
		{jute.OpGetChildren2, false, 0, ""},
	} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.write(readRequest(1, c.op, "/a", c.watch))
			require.Empty(t, r.armedWatches(), "not answered yet")
			l.answer(reply(1, 1, c.code, record(c.op)...))
			var want []string
			if c.armed != "" {
				want = []string{c.armed}
			}
			require.Equal(t, want, r.armedWatches(), "%+v", c)
			reported := r.reported()
			require.Equal(t, c.armed == "data /a", slices.Contains(reported, "armed /a on 1"), "%+v", c)
			require.Equal(t, c.armed == "child /a", slices.Contains(reported, "armed children of /a on 1"), "%+v", c)
		})
	}
}

func TestEventsDisarmTheWatchesThatGoZookeeperDisarms(t *testing.T) {
	for typ, left := range map[int32][]string{
		jute.EventCreated:         {"child /a", "data /a", "data /b"},
		jute.EventDataChanged:     {"child /a", "data /b"},
		jute.EventChildrenChanged: {"data /a", "data /b", "exist /a"},
		jute.EventDeleted:         {"data /b"},
		-2:                        {"child /a", "data /a", "data /b", "exist /a"},
	} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.setDataWatches("/a", "/b")
			l.write(readRequest(1, jute.OpExists, "/a", true), readRequest(2, jute.OpGetChildren2, "/a", true))
			l.answer(reply(1, 0, jute.ErrNoNode), reply(2, 0, 0, record(jute.OpGetChildren2)...))
			require.Equal(t, []string{"child /a", "data /a", "data /b", "exist /a"}, r.armedWatches())
			l.answer(event(typ, "/a"))
			require.Equal(t, left, r.armedWatches(), "event %d", typ)
		})
	}
}
