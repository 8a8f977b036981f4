package zkrecipes

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// ErrTreeTooLarge is returned by [Client.WatchTree] for a tree beyond the bounds of TreeOptions.
var ErrTreeTooLarge = watch.ErrTreeTooLarge

// TreeOptions are the bounds of [Client.WatchTree]. nil is the same as the zero value.
type TreeOptions struct {
	Znodes int   // how many znodes the tree may have; default 100,000
	Bytes  int64 // how many bytes of data they may have together; default 256 MiB
}

func (o *TreeOptions) follower() (*watch.Tree, error) {
	if o == nil {
		o = &TreeOptions{}
	}
	switch {
	case o.Znodes < 0:
		return nil, fmt.Errorf("TreeOptions.Znodes must not be negative: %d", o.Znodes)
	case o.Bytes < 0:
		return nil, fmt.Errorf("TreeOptions.Bytes must not be negative: %d", o.Bytes)
	}
	return &watch.Tree{Znodes: cmp.Or(o.Znodes, 100_000), Bytes: cmp.Or(o.Bytes, 256<<20)}, nil
}

// WatchTree yields all znodes of a tree, by their paths, and then, after each change, the znodes that
// were created, have other data, or were deleted (Node.None). So a copy of the tree is
//
//	nodes := map[string]zkrecipes.Node{}
//	for changed, err := range client.WatchTree(ctx, "/settings", nil) {
//		...
//		maps.Copy(nodes, changed)
//		maps.DeleteFunc(nodes, func(_ string, n zkrecipes.Node) bool { return n.None() })
//	}
//
// If the root does not exist, the first map is empty. After each map, the copy is the tree as it was at
// one moment. If the tree changes all the time, changes are yielded after about a second all the same,
// and the znodes in the copy may be of different moments. A transaction that changes several znodes
// may be yielded in two maps.
//
// The rules are those of [Client.Watch]: no znode is yielded in an older state than before, and
// states between may be skipped. In the next session, WatchTree yields what has changed once it has
// looked at the whole tree. A znode may be yielded as None that was not yielded before. Changes of
// an ACL, or of the numbers in a Stat that count children, yield nothing. The Client keeps no data.
// While the caller is busy with a map, the Client remembers the path of each znode that has
// changed.
//
// WatchTree ends with an error that is yielded with a nil map:
//   - the errors of Watch. zk.ErrNoAuth names the znode that the Client may not read.
//   - ErrTreeTooLarge, if the tree exceeds the options.
//   - an error that says so, if the servers are older than ZooKeeper 3.6.
//   - an error that says so, if the servers are older than 3.9, and the Client watches the root by
//     Watch, WatchChildren or a recipe, too: such servers keep one watch for a path and connection
//     (ZOOKEEPER-4466).
//
// If a znode's ACL changes so that the Client may no longer read it, servers may send no event of it.
// Its copy may be out of date until the Client connects again.
//
// root is under Options.Prefix, and "/" is the prefix itself.
//
// Cost: three requests to begin, one for each znode, and one for each that has children. After a
// disconnection, two requests and one for each znode. Data are sent again only if they have changed.
// One request for each change. The server keeps one watch, on the root. It is removed when the
// iteration ends, by one more request. The Client remembers about 200 bytes for each znode.
func (c *Client) WatchTree(ctx context.Context, root string, opts *TreeOptions) iter.Seq2[map[string]Node, error] {
	return sequence(func(tell func(map[string]Node) error) error {
		t, err := opts.follower()
		if err != nil {
			return fail("watch tree", root, err)
		}
		t.Tell = func(changed map[string]watch.State) error {
			nodes := make(map[string]Node, len(changed))
			for path, s := range changed {
				nodes[cmp.Or(strings.TrimPrefix(path, t.Prefix), "/")] = Node{s.Data, s.Stat}
			}
			return tell(nodes)
		}
		return c.inSessions(ctx, "watch tree", root, func(ctx context.Context, s *session.Session, abs string) error {
			t.Root, t.Prefix = abs, s.Client.Prefix
			return t.Follow(ctx, s.Session)
		})
	})
}
