// Package look finds recipes on the servers, by the znodes that they leave there, and says how
// busy they are. It sets no watch, and only Evict writes.
package look

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Usage is how busy a recipe is. The root says what its fields are.
type Usage struct {
	Recipe string
	Path   string

	Holders, Waiters, Len, Size        int
	HeldSince, WaitingSince, ItemSince time.Time
}

// Limits bound a walk.
type Limits struct {
	Depth  int
	Znodes int // that are looked at, and children that a znode may have to be listed
}

// ErrLeftOut is yielded with the path of a znode that was not looked at.
var ErrLeftOut = errors.New("left out")

type walk struct {
	c      *session.Client
	limits Limits
	root   string
	yield  func(Usage, error) bool

	// chosen is how many znodes are looked at, or will be.
	chosen int
	// left is how many known ones will not, and first one of those.
	left  int
	first string
}

// sight is what was seen at a path.
type sight struct {
	usage Usage
	below []string
	err   error
}

// Walk yields the recipes at the path and below, one level after the other. If it yields an
// error for which IsSkip is true, the walk goes on. Any other error ends it.
func Walk(ctx context.Context, c *session.Client, root string, limits Limits) iter.Seq2[Usage, error] {
	return func(yield func(Usage, error) bool) {
		ctx, done := c.Bind(ctx)
		defer done()
		w := &walk{c: c, limits: limits, root: root, yield: yield, chosen: 1}
		level := []string{root}
		for depth := 0; len(level) > 0; depth++ {
			next, more := w.walkLevel(ctx, level, depth)
			if !more {
				return
			}
			level = next
		}
		if w.left > 0 {
			err := zkconn.Errorf(ErrLeftOut, "%d znodes, and those below them, were left out: they are more than %d levels down, or %d had been looked at",
				w.left, limits.Depth, w.chosen)
			yield(Usage{Path: w.first}, err)
		}
	}
}

// IsSkip reports whether a walk goes on after that error.
func IsSkip(err error) bool {
	return errors.Is(err, ErrLeftOut) || errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zkconn.ErrPathInUse)
}

// atOnce is how many znodes are looked at side by side.
const atOnce = 16

// walkLevel looks at the paths, which are so many levels down, and returns those of the next
// level. more: the walk is not over.
func (w *walk) walkLevel(ctx context.Context, level []string, depth int) (next []string, more bool) {
	for paths := range slices.Chunk(level, atOnce) {
		seen := make([]sight, len(paths))
		zkconn.AtATime(len(paths), func(i int) { seen[i] = w.look(ctx, paths[i]) })
		for i, v := range seen {
			if !w.tell(v) {
				return nil, false
			}
			for _, name := range v.below {
				path := strings.TrimSuffix(paths[i], "/") + "/" + name
				if depth < w.limits.Depth && w.chosen < w.limits.Znodes {
					w.chosen++
					next = append(next, path)
					continue
				}
				if w.left == 0 {
					w.first = path
				}
				w.left++
			}
		}
	}
	return next, true
}

// tell yields what was seen, if that is worth it. It returns false at the end of the walk.
func (w *walk) tell(v sight) (more bool) {
	switch {
	case errors.Is(v.err, zk.ErrNoNode) && v.usage.Path != w.root:
		return true
	case v.err != nil:
		return w.yield(v.usage, v.err) && IsSkip(v.err)
	case v.usage.Recipe == "":
		return true
	}
	return w.yield(v.usage, nil)
}

// look looks at a path in one session after another.
func (w *walk) look(ctx context.Context, path string) sight {
	at := path
	if at == "/" {
		at = ""
	}
	v, err := session.InSessions(ctx, w.c, func(s *session.Session) (sight, error) {
		z := &znode{s: s, ctx: ctx, path: w.c.Abs(at), most: w.limits.Znodes}
		v, err := z.look()
		return v, err
	})
	v.usage.Path, v.err = path, err
	return v
}
