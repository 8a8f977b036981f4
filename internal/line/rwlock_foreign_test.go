package line_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Other libraries' readers and writers in the line.

// foreignRWLocks are like foreignLocks, for read/write locks.
var foreignRWLocks = []struct {
	name   string
	prefix string
	reads  bool
	waits  func(own string, children []string) string
}{
	{"Curator's reader", "_c_" + recipetest.CuratorUUID(1) + "-__READ__", true, curatorReaderWaits},
	{"Curator's writer", "_c_" + recipetest.CuratorUUID(2) + "-__WRIT__", false, curatorWriterWaits},
	{"kazoo's reader", "0f1e2d3c4b5a69788796a5b4c3d2e1f0__rlock__", true, kazooWaits("__rlock__", "__lock__", "__WRIT__")},
	{"kazoo's writer", "fedcba98765432100123456789abcdef__lock__", false, kazooWaits("__lock__", "__lock__", "__rlock__", "__READ__", "__WRIT__")},
}

// Curator (InterProcessReadWriteLock) sorts all children by what follows the last
// __READ__ or __WRIT__.
func curatorSorted(children []string) []string {
	number := func(name string) string {
		for _, kind := range []string{"__READ__", "__WRIT__"} {
			if i := strings.LastIndex(name, kind); i >= 0 {
				name = name[i+len(kind):]
			}
		}
		return name
	}
	return slices.SortedStableFunc(slices.Values(children), func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// Curator's reader waits for the first writer ahead of it, if there is one.
func curatorReaderWaits(own string, children []string) string {
	first := ""
	for _, name := range curatorSorted(children) {
		if name == own {
			break
		}
		if first == "" && strings.Contains(name, "__WRIT__") {
			first = name
		}
	}
	return first
}

// Curator's writer waits for the child before its own.
func curatorWriterWaits(own string, children []string) string {
	sorted := curatorSorted(children)
	if i := slices.Index(sorted, own); i > 0 {
		return sorted[i-1]
	}
	return ""
}

// Our place waits for a foreign one that is ahead, unless both are readers. By its
// library's rule a foreign place does the same.
func TestRealB26ForeignReadersAndWritersExcludeBothWays(t *testing.T) {
	for _, f := range foreignRWLocks {
		for _, side := range recipetest.Sides[1:] {
			if side.Name == "writer behind a reader" {
				continue
			}
			t.Run(f.name+" and our "+side.Name, func(t *testing.T) {
				r := recipetest.NewRWRig(t, nil)
				join := func() string { return r.ByHand(f.prefix)[len(r.Path)+1:] }
				waits := func(own string) string { return f.waits(own, harness.Children(t, r.Raw, r.Path)) }
				lock := side.Ours(r.C, r.Path).Lock

				first := join()
				require.Empty(t, waits(first), "it holds")
				ours := r.Joins(2, lock)
				own := r.InLine()[1].Name
				second := join()
				if f.reads && side.Name == "reader" {
					l := ours.Get()
					require.Empty(t, waits(second), "readers share the lock")
					require.NoError(t, r.Raw.Delete(r.Path+"/"+first, -1))
					require.NoError(t, r.Raw.Delete(r.Path+"/"+second, -1))
					require.NoError(t, l.Release())
					return
				}
				require.True(t, ours.Waiting())
				require.NotEmpty(t, waits(second), "it waits for ours")
				require.NoError(t, r.Raw.Delete(r.Path+"/"+first, -1))
				l := ours.Get()
				require.Equal(t, own, waits(second), "it waits for ours to be released")
				last := r.Joins(3, lock)
				require.NoError(t, l.Release())
				require.Empty(t, waits(second), "it holds now")
				require.True(t, last.Waiting())
				require.NoError(t, r.Raw.Delete(r.Path+"/"+second, -1))
				require.NoError(t, last.Get().Release())
				r.Queued(0)
			})
		}
	}
}

// To downgrade, Curator creates a second place for the reader, with its own UUID and
// the writer's number. Then it deletes the writer's place.
func TestRealB26CuratorsDowngradeAdmitsOurReadersAndHoldsUpOurWriters(t *testing.T) {
	for name, uuid := range map[string]string{"sorted before": recipetest.CuratorUUID(0), "sorted after": recipetest.CuratorUUID(9)} {
		t.Run(name, func(t *testing.T) {
			r := recipetest.NewRWRig(t, nil)
			write := r.ByHand("_c_" + recipetest.CuratorUUID(5) + "-__WRIT__")
			number := write[strings.Index(write, "__WRIT__")+8:]
			reader := r.Joins(2, r.Another().RLock)
			r.P.Reset()
			writer := r.Joins(3, r.W.Lock)
			r.Asleep(1)
			read, err := r.Raw.Create(r.Path+"/_c_"+uuid+"-__READ__"+number, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			late := r.Joins(5, r.Another().RLock)
			for _, try := range []recipetest.Locker{r.W, recipetest.Reading{RWLock: r.W}} {
				_, err = try.TryLock(r.Ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
			}
			cs, err := r.W.Contenders(r.Ctx)
			require.NoError(t, err)
			for i, held := range []bool{true, true, false, false, false} {
				require.Equal(t, held, cs[i].Held, "%d: %s", i, cs[i].Place)
			}
			require.True(t, reader.Waiting())

			require.NoError(t, r.Raw.Delete(write, -1))
			l := reader.Get() // together with Curator's reader
			require.True(t, writer.Waiting())
			require.True(t, late.Waiting())
			require.NoError(t, l.Release())
			require.True(t, writer.Waiting(), "Curator's reader still holds")
			r.P.Reset()
			require.NoError(t, r.Raw.Delete(read, -1))
			require.NoError(t, writer.Get().Release())
			require.NoError(t, late.Get().Release())
			r.Queued(0)
		})
	}
}

func TestRealB26CuratorReadsBesideOurDowngradedWriter(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	reader := r.ByHand("_c_" + recipetest.CuratorUUID(1) + "-__READ__")[len(r.Path)+1:]
	writer := r.ByHand("_c_" + recipetest.CuratorUUID(2) + "-__WRIT__")[len(r.Path)+1:]
	line := func() []string { return harness.Children(t, r.Raw, r.Path) }
	require.Equal(t, recipetest.HandleOf(l).Grant.Place().Name, curatorReaderWaits(reader, line()))
	require.Equal(t, reader, curatorWriterWaits(writer, line()))
	require.NoError(t, r.W.Downgrade(r.Ctx, l))
	require.Empty(t, curatorReaderWaits(reader, line()), "it reads beside ours")
	require.NoError(t, r.Raw.Delete(r.Path+"/"+reader, -1))
	require.Equal(t, recipetest.HandleOf(l).Grant.Place().Name, curatorWriterWaits(writer, line()))
	require.NoError(t, l.Release())
	require.Empty(t, curatorWriterWaits(writer, line()))
}

// Data set on a foreign place does not signal its release.
func TestB27DataSetOnAForeignPlaceOfEitherSideIsNoSignal(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	for _, f := range foreignRWLocks {
		ahead := r.ByHand(f.prefix)
		r.P.Reset()
		a := r.Joins(2, r.W.Lock)
		r.Asleep(1)
		r.P.Reset()
		_, err := r.Raw.Set(ahead, []byte("released"), -1)
		require.NoError(t, err)
		harness.Eventually(t, "looked again", func() bool { return r.P.CountOf("getData") == 1 && recipetest.Idle(r.C) })
		require.True(t, a.Waiting())
		require.NoError(t, r.Raw.Delete(ahead, -1))
		require.NoError(t, a.Get().Release())
	}
}
