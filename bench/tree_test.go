package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

//go:embed peers/CuratorTree.java
var curatorTree []byte

// Copies of one tree by Client.WatchTree and by Curator's TreeCache are equal to it after each second
// without changes. The log has what they cost.
func TestWatchTreeAndCuratorsTreeCacheSeeTheSameTree(t *testing.T) {
	sizes := []int{2_000, 50_000}
	if os.Getenv("ZK_HARNESS") == "zktest" { // with the race detector, which makes it slow
		sizes = sizes[:1]
	}
	for _, znodes := range sizes {
		t.Run(fmt.Sprint(znodes), func(t *testing.T) { compareTrees(t, znodes) })
	}
}

func compareTrees(t *testing.T, znodes int) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	lab := testLab(t, ctx)
	command, err := javaCommand(ctx, t.TempDir(), "CuratorTree", curatorTree)
	require.NoError(t, err)
	conn := harness.RawTo(t, lab.servers[:1])
	root := fmt.Sprintf("/bench-tree-%d", time.Now().UnixNano())
	paths := grow(t, conn, root, znodes)

	theirs, ours := &tally{}, &tally{}
	proxy, err := newProxy(lab.servers[0], theirs)
	require.NoError(t, err)
	t.Cleanup(proxy.close)
	java, about, err := startWorker(ctx, append(command, proxy.addr()))
	require.NoError(t, err)
	t.Cleanup(java.end)
	t.Logf("Curator %s, %s, %d znodes of 100 bytes", about, lab.kind, znodes)
	client := recipetest.DialTo(t, lab.servers[:1], &zkrecipes.Options{Dialer: ours.DialContext})

	cost := func(name string, side *tally, memory func() int, do func()) {
		before, used, began := side.read(), memory(), time.Now()
		do()
		took, c := time.Since(began), side.read().minus(before)
		t.Logf("%s: %d requests, %.1f MB received, %.1f MB more memory, %v", name, c.Requests, float64(c.Received)/1e6, float64(memory()-used)/1e6, took.Round(time.Millisecond))
	}
	javaMemory := func() int {
		answer, err := java.ask(ctx, "memory")
		require.NoError(t, err)
		n, err := strconv.Atoi(answer)
		require.NoError(t, err)
		return n
	}
	cost("TreeCache begins", theirs, javaMemory, func() {
		_, err := java.ask(ctx, "open %s", root)
		require.NoError(t, err)
	})
	tree := &treeCopy{nodes: map[string]zkrecipes.Node{}}
	cost("WatchTree begins", ours, heap, func() { tree.follow(t, ctx, client, root) })

	r := rand.New(rand.NewPCG(1, uint64(znodes)))
	changes := 0
	theirsBefore, oursBefore := theirs.read(), ours.read()
	for range 8 {
		for range 200 {
			changes += alter(r, conn, root, paths)
		}
		time.Sleep(time.Second)
		want := treeSum(t, conn, root)
		assert.EventuallyWithT(t, func(c *assert.CollectT) { // at once, on a machine that is not busy
			got, err := java.ask(ctx, "sum")
			require.NoError(c, err)
			require.Equal(c, want, got, "Curator")
			require.Equal(c, want, tree.sum(), "WatchTree")
		}, time.Minute, 100*time.Millisecond)
	}
	for name, c := range map[string]counts{"TreeCache": theirs.read().minus(theirsBefore), "WatchTree": ours.read().minus(oursBefore)} {
		t.Logf("%s: %d requests for %d changes, %.2f MB received", name, c.Requests, changes, float64(c.Received)/1e6)
	}
}

// grow creates that many znodes and returns their paths.
func grow(t *testing.T, conn *zk.Conn, root string, znodes int) (paths []string) {
	t.Helper()
	acl := zk.WorldACL(zk.PermAll)
	ops := []any{&zk.CreateRequest{Path: root, Acl: acl}}
	flush := func() {
		_, err := conn.Multi(ops...)
		require.NoError(t, err)
		ops = nil
	}
	for i := range znodes - 1 {
		path := fmt.Sprintf("%s/%d", root, i)
		if i >= 50 {
			path = fmt.Sprintf("%s/%d/%d", root, i%50, i)
		}
		ops = append(ops, &zk.CreateRequest{Path: path, Data: fmt.Appendf(nil, "%100d", i), Acl: acl})
		paths = append(paths, path)
		if len(ops) >= 500 {
			flush()
		}
	}
	flush()
	return paths
}

// alter makes a random change and returns 1, or 0 if it cannot be made.
func alter(r *rand.Rand, conn *zk.Conn, root string, paths []string) int {
	path := paths[r.IntN(len(paths))]
	var err error
	switch r.IntN(4) {
	case 0:
		_, err = conn.Create(fmt.Sprintf("%s/%d/new-%d", root, r.IntN(50), r.IntN(300)), []byte("new"), 0, zk.WorldACL(zk.PermAll))
	case 1:
		err = conn.Delete(fmt.Sprintf("%s/%d/new-%d", root, r.IntN(50), r.IntN(300)), -1)
	default:
		_, err = conn.Set(path, fmt.Appendf(nil, "%100d", r.Int64()), -1)
	}
	if err != nil {
		return 0
	}
	return 1
}

// treeSum returns the number of znodes and the sum of their checksums, as CuratorTree does.
func treeSum(t *testing.T, conn *zk.Conn, root string) string {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	n, sum := 0, int64(0)
	limit := make(chan struct{}, 16)
	var visit func(path string)
	visit = func(path string) {
		limit <- struct{}{}
		data, stat, err := conn.Get(path)
		var names []string
		if err == nil && stat.NumChildren > 0 {
			names, _, err = conn.Children(path)
		}
		<-limit
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		n++
		sum += checksum(path, data)
		for _, name := range names {
			all.Go(func() { visit(path + "/" + name) })
		}
	}
	all.Go(func() { visit(root) })
	all.Wait()
	return fmt.Sprint(n, " ", sum)
}

func checksum(path string, data []byte) int64 {
	return int64(crc32.ChecksumIEEE(append([]byte(path+"="), data...)))
}

// treeCopy is a copy of a tree, made of what WatchTree yields.
type treeCopy struct {
	mu    sync.Mutex
	nodes map[string]zkrecipes.Node
}

// follow returns when the copy is complete.
func (c *treeCopy) follow(t *testing.T, ctx context.Context, client *zkrecipes.Client, root string) {
	ctx, cancel := context.WithCancel(ctx)
	complete, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		first := true
		for changed, err := range client.WatchTree(ctx, root, nil) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			c.mu.Lock()
			maps.Copy(c.nodes, changed)
			maps.DeleteFunc(c.nodes, func(_ string, n zkrecipes.Node) bool { return n.None() })
			c.mu.Unlock()
			if first {
				close(complete)
			}
			first = false
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-complete:
	case <-done:
	}
}

func (c *treeCopy) sum() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := int64(0)
	for path, n := range c.nodes {
		sum += checksum(path, n.Data)
	}
	return fmt.Sprint(len(c.nodes), " ", sum)
}

// heap returns how many bytes are in use after a collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
