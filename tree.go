package zkrecipes

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// ErrTreeTooLarge is returned by [Client.WatchTree] for a tree beyond the bounds of TreeOptions.
var ErrTreeTooLarge = watch.ErrTreeTooLarge

// TreeOptions bound [Client.WatchTree]. nil is the same as the zero value.
type TreeOptions struct {
	Znodes int   // how many znodes the tree may have; default 100,000
	Bytes  int64 // how many bytes of data they may have together; default 256 MiB
}

func (o *TreeOptions) follower() (*watch.Tree, error) {
	t := &watch.Tree{Znodes: 100_000, Bytes: 256 << 20}
	switch {
	case o == nil:
		return t, nil
	case o.Znodes < 0:
		return t, fmt.Errorf("TreeOptions.Znodes must not be negative: %d", o.Znodes)
	case o.Bytes < 0:
		return t, fmt.Errorf("TreeOptions.Bytes must not be negative: %d", o.Bytes)
	}
	if o.Znodes > 0 {
		t.Znodes = o.Znodes
	}
	if o.Bytes > 0 {
		t.Bytes = o.Bytes
	}
	return t, nil
}

// WatchTree yields all znodes of a tree, by their paths, and then those that have changed, again
// and again: created, with other data, or, if Node.None, deleted. So a copy of the tree is
//
//	nodes := map[string]zkrecipes.Node{}
//	for changed, err := range client.WatchTree(ctx, "/settings", nil) {
//		...
//		maps.Copy(nodes, changed)
//		maps.DeleteFunc(nodes, func(_ string, n zkrecipes.Node) bool { return n.None() })
//	}
//
// The root need not exist: then the first map is empty. Together, the maps yielded so far are what
// the tree was at one moment, unless it changes all the time: then what has changed is yielded after
// a second, with each znode of a moment of its own. A transaction that changes several znodes may be
// yielded in two maps. As with [Client.Watch], the first state is no older than the call, none is
// older than one before, the last one is yielded in the end, a slow reader skips states between, and
// it goes on through disconnections and sessions. If the servers have lost transactions, it yields
// all of what they have gone back to. A None may be of a znode that was not yielded before. Changes
// of an ACL, or of the numbers in a Stat that count children, yield nothing. What is yielded belongs
// to the caller, and the Client keeps no data.
//
// WatchTree ends with an error that is yielded with a nil map:
//   - those with which Watch ends. zk.ErrNoAuth names the znode that the client may not read.
//   - ErrTreeTooLarge, if there is more than the options allow.
//   - an error that says so, if the servers are older than ZooKeeper 3.6, or if they are older than
//     3.9 and the Client watches the root by Watch, WatchChildren or a recipe, too: such servers
//     keep one watch for a path and connection (ZOOKEEPER-4466).
//
// root is under Options.Prefix, and "/" is the prefix itself.
//
// Cost: to begin, three requests, one for each znode, and one for each that has children; after a
// disconnection, two and one for each znode, whose data are sent only if they have changed. One
// request for each change. The server keeps one watch for the root, which it loses when the
// iteration ends: one more request. The Client remembers about 200 bytes for each znode.
func (c *Client) WatchTree(ctx context.Context, root string, opts *TreeOptions) iter.Seq2[map[string]Node, error] {
	return sequence(func(tell func(map[string]Node) error) error {
		t, err := opts.follower()
		if err != nil {
			return fail("watch tree", root, err)
		}
		t.Prefix = c.core().Prefix
		t.Tell = func(changed map[string]watch.State) error {
			nodes := make(map[string]Node, len(changed))
			for path, s := range changed {
				path = strings.TrimPrefix(path, t.Prefix)
				if path == "" {
					path = "/"
				}
				nodes[path] = Node{s.Data, s.Stat}
			}
			return tell(nodes)
		}
		return c.inSessions(ctx, "watch tree", root, func(ctx context.Context, s *session.Session, abs string) error {
			t.Root = abs
			return t.Follow(ctx, s.Session)
		})
	})
}
