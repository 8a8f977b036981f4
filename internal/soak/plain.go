package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/soak/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// plain is clients without the library. They measure when the ensemble carries out
// writes, and look what stands in it.
type plain struct {
	court   *court
	pinned  []*zk.Conn // one to each server
	servers []string   // their addresses
	any     *zk.Conn   // to all of them, as a user would have

	mu      sync.Mutex
	wrote   map[string]time.Time // the last write, by the address of the server
	seen    map[string]struct{}  // znodes of acks that are about to be deleted
	longest time.Duration        // without a write of the one to all servers
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func newPlain(ctx context.Context, c *court, e *zkserver.Ensemble, o options) (*plain, error) {
	p := &plain{court: c, seen: map[string]struct{}{}, wrote: map[string]time.Time{}}
	connect := func(servers ...string) (*zk.Conn, error) {
		conn, _, err := zk.Connect(servers, o.timeout, zk.WithLogger(quiet{}), zk.WithLogInfo(false),
			zk.WithEventCallback(func(zk.Event) {}))
		return conn, err
	}
	for _, n := range e.Nodes {
		conn, err := connect(n.Addr())
		if err != nil {
			return nil, err
		}
		p.pinned, p.servers = append(p.pinned, conn), append(p.servers, n.Addr())
	}
	var err error
	if p.any, err = connect(e.Addrs()...); err != nil {
		return nil, err
	}
	for _, path := range permanent() {
		if _, err := p.any.Create(root+path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			return nil, err
		}
	}
	if o.curatorLines {
		for _, key := range curatorLines(o.load) {
			if _, err := p.any.CreateContainer(root+key, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
				return nil, err
			}
		}
	}
	return p, p.fill(ctx, o.znodes)
}

// fill creates n other znodes. A server writes those below otherPath to its snapshot before
// those below root, by the order of their names' hashes. So places come and go between its
// list of the ACLs, which is first, and their own turn.
func (p *plain) fill(ctx context.Context, n int) error {
	if _, err := p.any.Create(otherPath, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return err
	}
	const batch = 1000
	for first := 0; first < n && ctx.Err() == nil; first += batch {
		var ops []any
		for i := first; i < min(n, first+batch); i++ {
			ops = append(ops, &zk.CreateRequest{
				Path: fmt.Sprintf("%s/%06d", otherPath, i), Data: make([]byte, 100), Acl: zk.WorldACL(zk.PermAll),
			})
		}
		if _, err := p.any.Multi(ops...); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// run writes and looks until ctx ends.
func (p *plain) run(ctx context.Context) {
	for i, conn := range p.pinned {
		go p.write(ctx, conn, func() { // a call may outlast ctx, and ends with the process
			p.court.take(judge.Event{Kind: judge.Wrote})
			p.mu.Lock()
			defer p.mu.Unlock()
			p.wrote[p.servers[i]] = time.Now()
		})
	}
	last := time.Now()
	go p.write(ctx, p.any, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.longest = max(p.longest, time.Since(last))
		last = time.Now()
	})
	for ctx.Err() == nil {
		p.collect()
		pause(ctx, 300*time.Millisecond)
	}
}

func (p *plain) write(ctx context.Context, conn *zk.Conn, done func()) {
	for ctx.Err() == nil {
		if _, err := conn.Set(root+plainPath, nil, -1); err == nil {
			done()
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// collect reports the znodes that acks have made, and deletes them.
func (p *plain) collect() {
	names, _, err := p.any.Children(root + donePath)
	if err != nil {
		return
	}
	there := map[string]struct{}{}
	for _, name := range names {
		there[name] = struct{}{}
		if _, again := p.seen[name]; !again {
			item := name[:strings.LastIndexByte(name, '-')]
			p.court.take(judge.Event{Kind: judge.Effect, Recipe: judge.RecipeTake, Key: donePath, Item: item})
		}
		p.any.Delete(root+donePath+"/"+name, -1)
	}
	p.seen = there // their sequence numbers make the names unique
}

// drained reports whether no item and no ack is left.
func (p *plain) drained() bool {
	for _, z := range p.tree() {
		if strings.HasPrefix(z.Path, root+donePath+"/") || strings.Count(z.Path, "/") == 5 && strings.Contains(z.Path, "/s/") {
			return false
		}
	}
	return true
}

// tree returns all znodes of the run.
func (p *plain) tree() []judge.Znode {
	for {
		p.any.Sync(root)
		var found []judge.Znode
		if err := p.walk(root, &found); err == nil {
			return found
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *plain) walk(path string, found *[]judge.Znode) error {
	names, stat, err := p.any.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	*found = append(*found, judge.Znode{Path: path, Ephemeral: stat.EphemeralOwner != 0})
	for _, name := range names {
		if err := p.walk(path+"/"+name, found); err != nil {
			return err
		}
	}
	return nil
}

// versions returns the versions of what locks protect.
func (p *plain) versions(keys ...string) map[string]int32 {
	versions := map[string]int32{}
	for _, key := range keys {
		for {
			if _, stat, err := p.any.Get(root + dataOf(key)); err == nil {
				versions[key] = stat.Version
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return versions
}

// writes waits until the server has carried out a write from now on.
func (p *plain) writes(ctx context.Context, server string) error {
	for began := time.Now(); ; {
		p.mu.Lock()
		wrote := p.wrote[server]
		p.mu.Unlock()
		if wrote.After(began) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no plain client's write since %v", wrote)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (p *plain) gap() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}
