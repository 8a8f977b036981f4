package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// plain is clients without the library. They measure when the ensemble carries out
// writes, and look what stands in it.
type plain struct {
	court   *court
	servers []string
	seen    map[string]struct{} // names of the znodes of acks

	mu    sync.Mutex
	conns map[string]*zk.Conn  // one to each server; "" is to all of them, as a user would have
	wrote map[string]time.Time // the last write, by the address of the server
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func newPlain(ctx context.Context, c *court, e *zkserver.Ensemble, o options) (*plain, error) {
	p := &plain{
		court: c, servers: e.Addrs(),
		seen: map[string]struct{}{}, conns: map[string]*zk.Conn{}, wrote: map[string]time.Time{},
	}
	if err := p.connect(); err != nil {
		return nil, err
	}
	for _, path := range permanent() {
		if err := p.create(ctx, &zk.CreateRequest{Path: root + path, Acl: zk.WorldACL(zk.PermAll)}); err != nil {
			return nil, err
		}
	}
	if o.losses > 0 {
		return p, nil
	}
	return p, p.fill(ctx)
}

// connect makes all connections anew, in new sessions, which every server accepts.
func (p *plain) connect() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, server := range append([]string{""}, p.servers...) {
		if old := p.conns[server]; old != nil {
			go old.Close() // which can take a second
		}
		to := []string{server}
		if server == "" {
			to = p.servers
		}
		conn, _, err := zk.Connect(to, timeout, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
		if err != nil {
			return err
		}
		p.conns[server] = conn
	}
	return nil
}

func (p *plain) to(server string) *zk.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[server]
}

func (p *plain) any() *zk.Conn { return p.to("") }

// fill creates other znodes, which make a server's snapshots slow. A server writes those below
// otherPath to its snapshot before those below root, by the order of their names' hashes. So places
// come and go between its list of the ACLs, which is first, and their own turn.
func (p *plain) fill(ctx context.Context) error {
	if err := p.create(ctx, &zk.CreateRequest{Path: otherPath, Acl: zk.WorldACL(zk.PermAll)}); err != nil {
		return err
	}
	const n, batch = 40_000, 1000
	for first := 0; first < n && ctx.Err() == nil; first += batch {
		var ops []any
		for i := first; i < first+batch; i++ {
			ops = append(ops, &zk.CreateRequest{
				Path: fmt.Sprintf("%s/%06d", otherPath, i), Data: make([]byte, 100), Acl: zk.WorldACL(zk.PermAll),
			})
		}
		if err := p.create(ctx, ops...); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// create creates znodes in one transaction. On a busy machine it may take several tries.
func (p *plain) create(ctx context.Context, ops ...any) error {
	for again := false; ; again = true {
		_, err := p.any().Multi(ops...)
		switch {
		case err == nil, again && errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) || ctx.Err() != nil:
			return err
		}
		pause(ctx, time.Second)
	}
}

// run writes and looks until ctx ends.
func (p *plain) run(ctx context.Context) {
	for _, server := range p.servers {
		go p.write(ctx, server, func() { // a call may outlast ctx, and ends with the process
			p.court.take(judge.Event{Kind: judge.Wrote})
			p.mu.Lock()
			defer p.mu.Unlock()
			p.wrote[server] = time.Now()
		})
	}
	for ctx.Err() == nil {
		p.collect()
		pause(ctx, 300*time.Millisecond)
	}
}

func (p *plain) write(ctx context.Context, server string, done func()) {
	for ctx.Err() == nil {
		if _, err := p.to(server).Set(root+plainPath, nil, -1); err == nil {
			done()
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// collect reports the znodes that acks have made, and deletes them. One that is there again has
// come back with what the ensemble has lost.
func (p *plain) collect() {
	names, _, err := p.any().Children(root + donePath)
	if err != nil {
		return
	}
	for _, name := range names {
		if _, again := p.seen[name]; !again {
			p.seen[name] = struct{}{}
			item, token := parseDone(name)
			p.court.take(judge.Event{Kind: judge.Effect, Recipe: judge.RecipeTake, Key: donePath, Item: item, Token: token})
		}
	}
	for _, name := range names { // which takes a while, if the servers fail
		p.any().Delete(root+donePath+"/"+name, -1)
	}
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
		p.any().Sync(root)
		var found []judge.Znode
		if err := p.walk(root, &found); err == nil {
			return found
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *plain) walk(path string, found *[]judge.Znode) error {
	names, stat, err := p.any().Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	z := judge.Znode{Path: path, Ephemeral: stat.EphemeralOwner != 0}
	if z.Ephemeral {
		data, _, err := p.any().Get(path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		z.Owner, z.Data = fmt.Sprintf("%#x", uint64(stat.EphemeralOwner)), string(data)
	}
	*found = append(*found, z)
	slices.SortFunc(names, func(a, b string) int { // places by their numbers
		return cmp.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):])
	})
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
		_, versions[key] = p.get(dataOf(key))
	}
	return versions
}

// get returns a znode's data and version. If there is none, these are nil and 0.
func (p *plain) get(key string) (data []byte, version int32) {
	for {
		data, stat, err := p.any().Get(root + key)
		switch {
		case err == nil:
			return data, stat.Version
		case errors.Is(err, zk.ErrNoNode):
			return nil, 0
		}
		time.Sleep(100 * time.Millisecond)
	}
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
