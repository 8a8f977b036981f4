package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A waiter whose place was deleted together with the whole tree of its recipe joins again.

// treeDeleted reports whether a place was deleted together with the tree of a recipe that joins
// again then. Whether the line stands proves nothing: the servers reap it when its only place was
// deleted. Most tools delete a tree znode by znode, so the rest gets some time to go.
func (p *Place) treeDeleted(ctx context.Context) bool {
	if p == nil || !p.Line.RejoinsIfDeleted {
		return false
	}
	late := time.NewTimer(p.Session.Timeout() / 10)
	defer late.Stop()
	for {
		root, err := p.Session.WatchChildren(ctx, zkconn.Parent(p.Line.Abs()))
		stands := false
		if err == nil {
			stands, err = p.treeStands(ctx, root)
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && !stands:
			p.Line.forget()
			return true
		case err != nil:
			return errors.Is(err, zkconn.ErrSessionOver)
		}
		select {
		case <-root.Fired():
		case <-late.C:
			return false
		case <-p.Session.Over():
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// treeStands reports whether something of the tree with that root is older than the place: the root
// with its data or, where it has none, what stands in it beside the line.
func (p *Place) treeStands(ctx context.Context, root *zkconn.Watch) (bool, error) {
	if p.Czxid != 0 && root.Stat.Czxid > p.Czxid { // another client has made it anew
		return false, nil
	}
	if root.Stat.DataLength > 0 {
		return true, nil
	}
	dir := zkconn.Parent(p.Line.Abs())
	for _, name := range root.Children {
		if dir+"/"+name == p.Line.Abs() {
			continue
		}
		stat, err := p.Session.Exists(ctx, dir+"/"+name)
		switch {
		case err == nil && (p.Czxid == 0 || stat.Czxid < p.Czxid):
			return true, nil
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return false, err
		}
	}
	return false, nil
}
