package line_test

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Other libraries' places in the line.

// foreignPlaces are the places that other libraries create, with the letters of the kinds of
// our locks (kindsOfLock) beside which they stand. waits is the library's rule: from the
// line's children it finds the place that its own place waits for, "" if there is none.
var foreignPlaces = []struct {
	library string
	prefix  string
	beside  string
	reads   bool
	waits   func(own string, children []string) string
}{
	{"Curator", "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", "m", false, curatorWaits},
	{"go-zookeeper", "_c_0123456789abcdeffedcba9876543210-lock-", "m", false, goZookeeperWaits},
	{"kazoo", "fedcba98765432100123456789abcdef__lock__", "m", false, kazooWaits("__lock__", "__lock__", "__rlock__", "lock-")},
	{"kazoo's reader beside mutexes", "0f1e2d3c4b5a69788796a5b4c3d2e1f0__rlock__", "m", false, kazooWaits("__rlock__", "__lock__", "lock-")},
	{"Curator's reader", "_c_" + recipetest.CuratorUUID(1) + "-__READ__", "wr", true, curatorReaderWaits},
	{"Curator's writer", "_c_" + recipetest.CuratorUUID(2) + "-__WRIT__", "wr", false, curatorWaits},
	{"kazoo's reader", "0f1e2d3c4b5a69788796a5b4c3d2e1f0__rlock__", "wr", true, kazooWaits("__rlock__", "__lock__", "__WRIT__")},
	{"kazoo's writer", "fedcba98765432100123456789abcdef__lock__", "wr", false, kazooWaits("__lock__", "__lock__", "__rlock__", "__READ__", "__WRIT__")},
}

// Curator (StandardLockInternalsDriver, InterProcessReadWriteLock) sorts all children, as
// strings, by what follows the last name of a kind.
func curatorSorted(children []string) []string {
	number := func(name string) string {
		for _, kind := range []string{"lock-", "__READ__", "__WRIT__"} {
			if i := strings.LastIndex(name, kind); i >= 0 {
				name = name[i+len(kind):]
			}
		}
		return name
	}
	return slices.SortedStableFunc(slices.Values(children), func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// Curator's mutex and its writer wait for the child before their own.
func curatorWaits(own string, children []string) string {
	sorted := curatorSorted(children)
	if i := slices.Index(sorted, own); i > 0 {
		return sorted[i-1]
	}
	return ""
}

// Curator's reader waits for the first writer ahead of it, if there is one.
func curatorReaderWaits(own string, children []string) string {
	sorted := curatorSorted(children)
	ahead := sorted[:slices.Index(sorted, own)]
	if i := slices.IndexFunc(ahead, func(name string) bool { return strings.Contains(name, "__WRIT__") }); i >= 0 {
		return ahead[i]
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

// Our place waits for a foreign one that is ahead, unless both are readers. By its
// library's rule a foreign place does the same.
func TestRealForeignPlacesExcludeBothWays(t *testing.T) {
	t.Parallel()
	for _, f := range foreignPlaces {
		for _, kind := range f.beside {
			t.Run(f.library+" and our "+string(kind), func(t *testing.T) {
				r := &recipetest.Rig{T: t, Path: harness.NewPath(t), Raw: harness.Raw(t)}
				c, other := recipetest.Dial(t, nil), recipetest.Dial(t, nil)
				lock := kindsOfLock[kind]
				require.NoError(t, lock(c, r.Path).Do(t.Context(), recipetest.Nothing))
				join := func() string {
					place, err := r.Raw.Create(r.Path+"/"+f.prefix, []byte("by hand"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					return place[len(r.Path)+1:]
				}
				waits := func(own string) string { return f.waits(own, harness.Children(t, r.Raw, r.Path)) }
				goes := func(place string) { require.NoError(t, r.Raw.Delete(r.Path+"/"+place, -1)) }

				// The line: theirs, ours, theirs, ours.
				first := join()
				ours := recipetest.Later(t, lock(c, r.Path).Lock)
				r.Queued(2)
				own := recipetest.Places(t, harness.Servers(), r.Path)[1]
				second := join()
				require.Empty(t, waits(first), "it holds")
				if f.reads && kind == 'r' {
					l := ours.Get()
					require.Empty(t, waits(second), "readers share the lock")
					require.NoError(t, l.Release())
					return
				}
				last := recipetest.Later(t, lock(other, r.Path).Lock)
				r.Queued(4)
				require.NotEmpty(t, waits(second), "it waits for ours")
				require.True(t, ours.Waiting())
				goes(first)
				l := ours.Get()
				require.Equal(t, own, waits(second), "it waits for ours to be released")
				require.True(t, last.Waiting())
				require.NoError(t, l.Release())
				require.Empty(t, waits(second), "it holds now")
				require.True(t, last.Waiting())
				goes(second)
				require.NoError(t, last.Get().Release())
				r.Queued(0)
			})
		}
	}
}

// Go-zookeeper's own Lock and ours, on one path, under contention.
func TestGoZookeepersLockAndOursExcludeEachOther(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		held := 0 // which the locks guard, and the race detector checks it
		works := func(lock, unlock func() error) *harness.Call[struct{}] {
			return harness.GoErr(t, func(context.Context) error {
				for range 20 {
					if err := lock(); err != nil {
						return err
					}
					if held++; held != 1 {
						return errors.New("two hold")
					}
					time.Sleep(time.Millisecond)
					held--
					if err := unlock(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		var calls []*harness.Call[struct{}]
		for range 3 {
			theirs, ours := zk.NewLock(w.Bare(), w.Path, zk.WorldACL(zk.PermAll)), zkrecipes.NewMutex(w.Stranger(nil), w.Path)
			var l *zkrecipes.Lease
			lock := func() (err error) { l, err = ours.Lock(t.Context()); return err }
			calls = append(calls, works(theirs.Lock, theirs.Unlock), works(lock, func() error { return l.Release() }))
		}
		for _, call := range calls {
			call.Get()
		}
		require.Empty(t, w.Srv.Children(w.Path))
	})
}

// To downgrade, Curator creates a second place for the reader, with its own UUID and
// the writer's number. Then it deletes the writer's place.
func TestCuratorsDowngradeAdmitsOurReadersAndHoldsUpOurWriters(t *testing.T) {
	for name, uuid := range map[string]string{"sorted before": recipetest.CuratorUUID(0), "sorted after": recipetest.CuratorUUID(9)} {
		t.Run(name, func(t *testing.T) {
			recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
				raw, write := w.Bare(), w.CuratorPlace("__WRIT__")
				number := write[strings.Index(write, "__WRIT__")+8:]
				reader, writer := w.MustWait(w.TheirLock.RLock), w.MustWait(w.OurLock.Lock)
				read, err := raw.Create(w.Path+"/_c_"+uuid+"-__READ__"+number, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				late := w.MustWait(w.TheirLock.RLock)
				for _, try := range []func(context.Context) (*zkrecipes.Lease, error){w.OurLock.TryLock, w.OurLock.TryRLock} {
					_, err = try(t.Context())
					require.ErrorIs(t, err, zkrecipes.ErrLocked)
				}
				cs, err := w.OurLock.Contenders(t.Context())
				require.NoError(t, err)
				for i, held := range []bool{true, true, false, false, false} {
					require.Equal(t, held, cs[i].Held, "%d: %s", i, cs[i].Place)
				}
				require.NoError(t, raw.Delete(write, -1))
				l := reader.Get() // together with Curator's reader
				require.NoError(t, l.Release())
				synctest.Wait()
				require.True(t, writer.Waiting(), "Curator's reader still holds")
				require.NoError(t, raw.Delete(read, -1))
				w.LastReleased(late, writer.Get())
			})
		})
	}
}

func TestCuratorReadsBesideOurDowngradedWriter(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		reader, writer := w.CuratorPlace("__READ__")[len(w.Path)+1:], w.CuratorPlace("__WRIT__")[len(w.Path)+1:]
		own := func() string { return l.Check().Path[len(w.Path)+1:] }
		require.Equal(t, own(), curatorReaderWaits(reader, w.Srv.Children(w.Path)))
		require.Equal(t, reader, curatorWaits(writer, w.Srv.Children(w.Path)))
		require.NoError(t, l.Downgrade(t.Context()))
		require.Empty(t, curatorReaderWaits(reader, w.Srv.Children(w.Path)), "it reads beside ours")
		require.NoError(t, w.Bare().Delete(w.Path+"/"+reader, -1))
		require.Equal(t, own(), curatorWaits(writer, w.Srv.Children(w.Path)))
		require.NoError(t, l.Release())
		require.Empty(t, curatorWaits(writer, w.Srv.Children(w.Path)))
	})
}

// foreignNames are names that no place has.
var foreignNames = []string{
	"x", "_c_x", "_c_", "lock-", "lock-1", "lock-00000000x1", "lock-12345678901234567890", "-", "__READ", "zürich-ключ-鍵",
	"lock-０１２３４５６７８９", "_c_" + strings.Repeat("0", 400), "LOCK-0000000001", "0000000001", "lock-+000000001", "ready",
	"__lock__", "__rlock__abc", "lock-0000000001-more", "lock-9999999999",
}

func TestForeignChildrenOfALineAreIgnored(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other, raw := w.Client(nil), w.Client(nil), w.Bare()
		holder := w.Holds(c)
		for _, name := range foreignNames {
			_, err := raw.Create(w.Path+"/"+name, []byte("x"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, name)
		}
		a := w.RivalWaits(other)
		_, err := w.Theirs(other, w.Path).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		cs, err := w.Ours(c, w.Path).Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 2)
		require.NoError(t, holder.Release())
		require.NoError(t, a.Get().Release())
		l, err := w.Ours(c, w.Path).TryLock(t.Context()) // free, as no child is a place
		require.NoError(t, err)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.Len(t, w.Srv.Children(w.Path), len(foreignNames))
	})
}

// Whoever sets the data of a place, Curator's Revoker for example, does not look like a holder that
// releases it: that is one transaction that sets data and deletes.
func TestASetOfAHoldersDataWakesNobodyButTheHolder(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		conn, c, other := w.Bare(), w.Client(nil), w.Client(nil)
		holder, a := w.Excludes(other), w.Waits(c)
		time.Sleep(5 * time.Second) // the holder watches its own place
		for range 3 {
			requests := w.Requests(func() {
				_, err := conn.Set(holder.Check().Path, []byte("__REVOKE__"), -1)
				require.NoError(t, err)
			})
			require.Equal(t, 2, recipetest.Sum(requests))
			require.Equal(t, 1, requests["getData"], "the holder watches its place again")
		}
		require.True(t, a.Waiting())
		w.Stands(holder)
		require.NoError(t, holder.Release())
		w.Stands(a.Get())
	})
}
