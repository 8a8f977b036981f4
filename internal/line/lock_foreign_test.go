package line_test

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Other libraries' locks in the line.

// foreignLocks are the places that other libraries create. waits is the library's
// rule: from the line's children it finds the place that its own place waits for, ""
// if there is none.
var foreignLocks = []struct {
	library string
	prefix  string
	waits   func(own string, children []string) string
}{
	{"Curator", "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", curatorWaits},
	{"go-zookeeper", "_c_0123456789abcdeffedcba9876543210-lock-", goZookeeperWaits},
	{"kazoo", "fedcba98765432100123456789abcdef__lock__", kazooWaits("__lock__", "__lock__", "__rlock__", "lock-")},
	{"kazoo's reader", "0f1e2d3c4b5a69788796a5b4c3d2e1f0__rlock__", kazooWaits("__rlock__", "__lock__", "lock-")},
}

// Curator (StandardLockInternalsDriver) sorts all children, as strings, by what
// follows the last "lock-". It waits for the child before its own.
func curatorWaits(own string, children []string) string {
	number := func(name string) string { return name[strings.LastIndex(name, "lock-")+len("lock-"):] }
	sorted := slices.SortedFunc(slices.Values(children), func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	if i := slices.Index(sorted, own); i > 0 {
		return sorted[i-1]
	}
	return ""
}

// go-zookeeper's Lock waits for the child with the next lower number. It fails on a
// child in which it finds no number.
func goZookeeperWaits(own string, children []string) string {
	number := func(name string) int {
		parts := strings.Split(name, "lock-")
		if len(parts) == 1 {
			parts = strings.Split(name, "__")
		}
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			panic(err)
		}
		return n
	}
	best := ""
	for _, name := range children {
		if number(name) < number(own) && (best == "" || number(name) > number(best)) {
			best = name
		}
	}
	return best
}

// kazoo's locks look only at children that end in ten digits after one of the names
// that they exclude, or after one of extra_lock_patterns. They wait for the last of
// those whose digits, as strings, are below their own.
func kazooWaits(name string, excluded ...string) func(string, []string) string {
	contender := regexp.MustCompile("(?:" + strings.Join(excluded, "|") + `)(-?\d{10})$`)
	return func(own string, children []string) string {
		after := own[strings.Index(own, name)+len(name):]
		best, digits := "", ""
		for _, child := range children {
			m := contender.FindStringSubmatch(child)
			if m != nil && m[1] < after && m[1] > digits {
				best, digits = child, m[1]
			}
		}
		return best
	}
}

// Our place waits for a foreign one that is ahead. By its library's rule a foreign
// place waits for ours.
func TestRealB26ForeignPlacesExcludeBothWays(t *testing.T) {
	t.Parallel()
	for _, f := range foreignLocks {
		t.Run(f.library, func(t *testing.T) {
			path, conn := harness.NewPath(t), harness.Raw(t)
			clients := []*zkrecipes.Client{recipetest.Dial(t, nil), recipetest.Dial(t, nil)}
			require.NoError(t, zkrecipes.NewMutex(clients[0], path).Do(t.Context(), recipetest.Nothing))
			join := func() string {
				name, err := conn.Create(path+"/"+f.prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				return name[len(path)+1:]
			}
			waits := func(own string) string { return f.waits(own, harness.Children(t, conn, path)) }

			// The line: theirs, ours, theirs, ours.
			first := join()
			ours := recipetest.LockLater(t, zkrecipes.NewMutex(clients[0], path))
			recipetest.Sleeps(t, clients[0], 2)
			second := join()
			last := recipetest.LockLater(t, zkrecipes.NewMutex(clients[1], path))
			recipetest.Sleeps(t, clients[1], 2)
			line := recipetest.Places(t, harness.Servers(), path)
			require.Len(t, line, 4)
			require.Empty(t, waits(first), "it holds")
			require.Equal(t, line[1], waits(second), "it waits for ours")
			require.True(t, ours.Waiting())
			require.True(t, last.Waiting())

			require.NoError(t, conn.Delete(path+"/"+first, -1))
			l := ours.Get()
			require.Equal(t, line[1], waits(second), "it waits for ours to be released")
			require.True(t, last.Waiting())
			require.NoError(t, l.Release())
			require.Empty(t, waits(second), "it holds now")
			require.True(t, last.Waiting())

			require.NoError(t, conn.Delete(path+"/"+second, -1))
			require.NoError(t, last.Get().Release())
			require.Empty(t, harness.Children(t, conn, path))
		})
	}
}

// go-zookeeper's own Lock and ours, on one path, under contention.
func TestRealB26GoZookeepersLockAndOursExcludeEachOther(t *testing.T) {
	const each, rounds = 3, 20
	ctx, path := harness.Within(t, 30*time.Second), harness.NewPath(t)
	var inside atomic.Int32
	sum := 0
	critical := func() {
		if !inside.CompareAndSwap(0, 1) {
			t.Error("two hold the lock")
		}
		sum++
		inside.Store(0)
	}
	var wg sync.WaitGroup
	for range each {
		c, conn := recipetest.Dial(t, nil), harness.Raw(t)
		wg.Go(func() {
			for range rounds {
				err := zkrecipes.NewMutex(c, path).Do(ctx, func(context.Context, *zkrecipes.Lease) error { critical(); return nil })
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
				if err := lock.Lock(); err != nil {
					t.Error("go-zookeeper's lock:", err)
					return
				}
				critical()
				if err := lock.Unlock(); err != nil {
					t.Error("go-zookeeper's unlock:", err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2*each*rounds, sum)
	require.Empty(t, harness.Children(t, harness.Raw(t), path))
}
