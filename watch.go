package zkrecipes

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// Node is what Client.Watch yields: a znode, or none.
type Node struct {
	Data []byte
	Stat *zk.Stat // nil: there is no znode
}

// None reports whether there is no znode.
func (n Node) None() bool { return n.Stat == nil }

// Children is what Client.WatchChildren yields: the children of a znode, or that there is no
// znode.
type Children struct {
	Names []string // in lexical order
	Stat  *zk.Stat // of the znode; nil: there is none
}

// None reports whether there is no znode.
func (c Children) None() bool { return c.Stat == nil }

// Watch yields what a znode is, and then what it has become after each change of its data,
// its creation and its deletion. That there is no znode is a state like others: see Node.None.
// The Stat is that of the moment of the last such change or later. Changes of children, or
// of the ACL, yield nothing.
//
// The first state is no older than the call. From then on Watch never yields a state that is
// older than one before, although the Client's server may lag behind the others. The last
// state is yielded in the end. States between may be skipped: a slow reader gets the latest
// one. Watch goes on through disconnections, during which nothing is yielded, and in the next
// session. What is yielded belongs to the caller.
//
// Watch ends with an error that is yielded with the zero Node:
//   - the error of ctx, once that has ended.
//   - ErrClosed, if the Client was closed. A Shutdown does not end it before.
//   - ErrInvalidPath, zk.ErrNoAuth or another error of the servers, if it cannot go on. Servers
//     may send a client no event about a znode that it may not read. Then a znode that is
//     created so is none until the next session.
//   - an error that says so, if what the servers report is older than what was yielded, for as
//     long as a session timeout. The ensemble was probably restored from a backup.
//
// path is under Options.Prefix, and "/" is the prefix itself.
//
// Cost: two or three requests when it begins, and in each new session. One request for each
// change that is yielded, and one more if the znode is created again at once. No request
// while nothing changes. The server keeps one watch for each path and session, which all
// calls share. ZooKeeper's client cannot take it back: it stays until the znode changes, or
// the session ends.
func (c *Client) Watch(ctx context.Context, path string) iter.Seq2[Node, error] {
	return watchPath(ctx, c, path, false, func(s watch.State) Node {
		return Node{slices.Clone(s.Data), ownStat(s)}
	})
}

// WatchChildren is like Watch for the names of a znode's children: it yields what they are
// after each creation and deletion of a child, and of the znode. Changes of the children's
// data, and of their own children, yield nothing.
//
// The cost is that of Watch, where a request is a listing. With n children that come one by
// one, each reader may get n listings of up to n names.
func (c *Client) WatchChildren(ctx context.Context, path string) iter.Seq2[Children, error] {
	return watchPath(ctx, c, path, true, func(s watch.State) Children {
		return Children{ownNames(s.Children), ownStat(s)}
	})
}

// ownStat returns a copy of the Stat, which is shared.
func ownStat(s watch.State) *zk.Stat {
	if s.Stat == nil {
		return nil
	}
	stat := *s.Stat
	return &stat
}

// watchPath yields the states of a znode as own makes them.
func watchPath[A any](ctx context.Context, c *Client, path string, children bool, own func(watch.State) A) iter.Seq2[A, error] {
	return sequence(func(tell func(A) error) error {
		f := &watch.Follower{Children: children, Tell: func(s watch.State) error { return tell(own(s)) }}
		return c.inSessions(ctx, "watch", path, func(ctx context.Context, s *session.Session, abs string) error {
			f.Path = abs
			return f.Follow(ctx, s.Session)
		})
	})
}

var errEndedByCaller = errors.New("the caller ended the iteration")

// sequence yields what each tells, and at last the error with which it ends.
func sequence[A any](each func(tell func(A) error) error) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		ended := false
		err := each(func(a A) error {
			if ended = !yield(a, nil); ended {
				return errEndedByCaller
			}
			return nil
		})
		if !ended {
			var none A
			yield(none, err)
		}
	}
}
