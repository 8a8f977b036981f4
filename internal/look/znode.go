package look

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The recipes, by the names in the lines' markers. A barrier, a semaphore and a queue have no
// marker at their paths, and a group has none at all.
const (
	mutex     = "mutex"
	rwlock    = "rwlock"
	election  = "election"
	semaphore = "semaphore"
	barriers  = "barrier"
	double    = "double barrier"
	queue     = "queue"
	gate      = "gate"
	counter   = "counter"
	group     = "group"
	shards    = "shards"
	inner     = "inner" // a znode of a recipe whose path is above
)

// znode is one that is looked at.
type znode struct {
	s    *session.Session
	ctx  context.Context
	path string // absolute; empty for "/"
	most int

	data  []byte
	stat  *zk.Stat
	names []string
}

// look reads the znode and what stands there.
func (z *znode) look() (v sight, err error) {
	if z.data, z.stat, err = z.s.Get(z.ctx, cmp.Or(z.path, "/")); err != nil {
		return v, err
	}
	if n := int(z.stat.NumChildren); n > z.most {
		return v, zkconn.Errorf(ErrLeftOut, "it has %d children, and those of more than %d are not listed", n, z.most)
	} else if n > 0 {
		if z.names, err = z.children(""); err != nil {
			return v, err
		}
	}
	v.usage.Recipe, err = z.recipe()
	if err != nil || v.usage.Recipe == inner {
		v.usage.Recipe = ""
		return v, err
	}
	v.below = slices.DeleteFunc(slices.Clone(z.names), func(name string) bool { return z.owns(v.usage.Recipe, name) })
	if count, ok := counters[v.usage.Recipe]; ok {
		err = count(z, &v.usage)
	}
	return v, err
}

// recipe returns which recipe uses the path, and "" if none does, or if it has left nothing
// that tells.
func (z *znode) recipe() (string, error) {
	if m, ok := layout.ParseMark(double, z.data); ok {
		if _, known := counters[m.Recipe]; !known || slices.Contains([]string{semaphore, queue, counter, group}, m.Recipe) {
			return inner, nil
		}
		return m.Recipe, nil
	}
	if !layout.IsKnownLayout(z.data) {
		return "", zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a version with another layout: %.40q", z.data)
	}
	if recipe := z.numbered(); recipe != "" {
		return recipe, nil
	}
	if isQueue, err := z.isQueue(); isQueue || err != nil {
		return queue, err
	}
	if recipe := z.unmarked(); recipe != "" {
		return recipe, nil
	}
	isGroup, err := z.isGroup()
	if !isGroup {
		return "", err
	}
	return group, nil
}

// numbered returns which recipe has the number in the data, by the znodes below it.
func (z *znode) numbered() string {
	switch {
	case !z.isInteger():
	case (z.has("puts") || z.has("counter")) && !z.has(queuelog.RootName[1:]):
		return counter
	case z.size() <= 0:
	case z.has("round"):
		return barriers
	case z.has("line"), z.has("slots"), z.has("resized"):
		return semaphore
	}
	return ""
}

// isQueue reports whether a queue's log stands below the znode.
func (z *znode) isQueue() (bool, error) {
	if !z.has(queuelog.RootName[1:]) {
		return false, nil
	}
	data, _, err := z.s.Get(z.ctx, z.path+queuelog.RootName)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return false, nil
	}
	return layout.IsQueue(data), err
}

// isGroup reports whether the znode has no data, and the first of its children is ephemeral and
// no place.
func (z *znode) isGroup() (bool, error) {
	if len(z.data) > 0 || len(z.names) == 0 || isPlace(z.names[0]) {
		return false, nil
	}
	stats, err := z.stats("", z.names[0])
	if errors.Is(err, zk.ErrNoAuth) {
		return false, nil
	}
	return err == nil && isEphemeral(stats[0]), err
}

func isEphemeral(stat *zk.Stat) bool { return stat != nil && stat.EphemeralOwner != 0 }

// unmarked returns which lock has places below a znode that has no marker.
func (z *znode) unmarked() (recipe string) {
	for _, m := range places(z.names) {
		recipe = cmp.Or(recipe, mutex)
		if layout.IsRWLockKind(m.Kind) || m.Kind.Shared() {
			return rwlock
		}
	}
	return recipe
}

// size returns the number of members or slots that the data say, and 0 if they do not.
func (z *znode) size() int {
	n, err := strconv.Atoi(string(z.data))
	if err != nil {
		return 0
	}
	return n
}

// isInteger reports whether the data are the value of a counter.
func (z *znode) isInteger() bool {
	_, err := strconv.ParseInt(string(z.data), 10, 64)
	return err == nil
}

func (z *znode) has(name string) bool {
	_, ok := slices.BinarySearch(z.names, name)
	return ok
}

// owned are the names of the recipes' own children, beside places.
var owned = map[string][]string{
	mutex:     {line.HeldName},
	election:  {"leader", line.HeldName},
	semaphore: {"line", "slots", "resized"},
	barriers:  {"round"},
	double:    {"ready"},
	queue:     {"line", "room", "puts", "s"},
	counter:   {"line", "puts", "counter"},
	shards:    {"members", "size", "resize", "resized"},
}

// owns reports whether a child of that name is the recipe's. Nobody uses a path below.
func (z *znode) owns(recipe, name string) bool {
	if recipe == "" {
		return z.path == "" && name == "zookeeper" // the servers'
	}
	isShard := recipe == shards && strings.HasPrefix(name, "shard-")
	return recipe == group || isShard || isPlace(name) || slices.Contains(owned[recipe], name)
}

// isPlace reports whether a child of that name stands in the line of a lock, or is a member of a
// barrier.
func isPlace(name string) bool {
	return slices.ContainsFunc([][]layout.Kind{layout.LockKinds, barrier.MemberKinds}, func(kinds []layout.Kind) bool {
		_, ok := layout.ParsePlace(name, kinds)
		return ok
	})
}

// children returns the names of the children of the znode there, sorted.
func (z *znode) children(below string) ([]string, error) {
	names, _, err := z.s.Children(z.ctx, cmp.Or(z.path+below, "/"))
	slices.Sort(names)
	return names, err
}

// some is like children, where there may be no such znode.
func (z *znode) some(below string) ([]string, error) {
	names, err := z.children(below)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// stats returns the Stats of znodes, nil for those that have gone.
func (z *znode) stats(below string, names ...string) ([]*zk.Stat, error) {
	stats, errs := make([]*zk.Stat, len(names)), make([]error, len(names))
	zkconn.AtATime(len(names), func(i int) { stats[i], errs[i] = z.s.Exists(z.ctx, z.path+below+"/"+names[i]) })
	for i, err := range errs {
		switch {
		case errors.Is(err, zk.ErrNoNode):
			stats[i] = nil
		case err != nil:
			return nil, err
		}
	}
	return stats, nil
}

// oldest returns when the oldest of these znodes was created, zero if there is none.
func (z *znode) oldest(below string, names ...string) (t time.Time, err error) {
	stats, err := z.stats(below, names...)
	for _, stat := range stats {
		if stat != nil {
			t = earlier(t, time.UnixMilli(stat.Ctime))
		}
	}
	return t, err
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// places returns the places of locks among children, in the order of the line.
func places(names []string) []layout.PlaceName {
	ms := slices.DeleteFunc(layout.ParsePlaces(names, layout.LockKinds), func(m layout.PlaceName) bool {
		return !m.Kind.Exclusive() && !m.Kind.Shared() // stands in no line of this library's
	})
	slices.SortFunc(ms, layout.PlaceName.Compare)
	return ms
}

// namesOf returns the names of places.
func namesOf(ms []layout.PlaceName) []string {
	names := make([]string, len(ms))
	for i, m := range ms {
		names[i] = strings.Clone(m.Name)
	}
	return names
}
