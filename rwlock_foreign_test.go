package zkrecipes

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Other libraries' readers and writers in the line.

// foreignRWLocks are like foreignLocks, for read/write locks.
var foreignRWLocks = []struct {
	name   string
	prefix string
	reads  bool
	waits  func(own string, children []string) string
}{
	{"Curator's reader", "_c_" + curatorUUID(1) + "-__READ__", true, curatorReaderWaits},
	{"Curator's writer", "_c_" + curatorUUID(2) + "-__WRIT__", false, curatorWriterWaits},
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
		for _, side := range sides[1:] {
			if side.name == "writer behind a reader" {
				continue
			}
			t.Run(f.name+" and our "+side.name, func(t *testing.T) {
				r := newRWRig(t, nil)
				join := func() string { return r.byHand(f.prefix)[len(r.path)+1:] }
				waits := func(own string) string { return f.waits(own, harness.Children(t, r.raw, r.path)) }
				lock := side.ours(r.c, r.path).Lock

				first := join()
				require.Empty(t, waits(first), "it holds")
				ours := r.joins(2, lock)
				own := r.inLine()[1].Name
				second := join()
				if f.reads && side.name == "reader" {
					l := ours.Get()
					require.Empty(t, waits(second), "readers share the lock")
					require.NoError(t, r.raw.Delete(r.path+"/"+first, -1))
					require.NoError(t, r.raw.Delete(r.path+"/"+second, -1))
					require.NoError(t, l.Release())
					return
				}
				require.True(t, ours.Waiting())
				require.NotEmpty(t, waits(second), "it waits for ours")
				require.NoError(t, r.raw.Delete(r.path+"/"+first, -1))
				l := ours.Get()
				require.Equal(t, own, waits(second), "it waits for ours to be released")
				last := r.joins(3, lock)
				require.NoError(t, l.Release())
				require.Empty(t, waits(second), "it holds now")
				require.True(t, last.Waiting())
				require.NoError(t, r.raw.Delete(r.path+"/"+second, -1))
				require.NoError(t, last.Get().Release())
				r.queued(0)
			})
		}
	}
}

// To downgrade, Curator creates a second place for the reader, with its own UUID and
// the writer's number. Then it deletes the writer's place.
func TestRealB26CuratorsDowngradeAdmitsOurReadersAndHoldsUpOurWriters(t *testing.T) {
	for name, uuid := range map[string]string{"sorted before": curatorUUID(0), "sorted after": curatorUUID(9)} {
		t.Run(name, func(t *testing.T) {
			r := newRWRig(t, nil)
			write := r.byHand("_c_" + curatorUUID(5) + "-__WRIT__")
			number := write[strings.Index(write, "__WRIT__")+8:]
			reader := r.joins(2, r.another().RLock)
			r.p.Reset()
			writer := r.joins(3, r.w.Lock)
			r.asleep(1)
			read, err := r.raw.Create(r.path+"/_c_"+uuid+"-__READ__"+number, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			late := r.joins(5, r.another().RLock)
			for _, try := range []locker{r.w, reading{r.w}} {
				_, err = try.TryLock(r.ctx)
				require.ErrorIs(t, err, ErrLocked)
			}
			cs, err := r.w.Contenders(r.ctx)
			require.NoError(t, err)
			for i, held := range []bool{true, true, false, false, false} {
				require.Equal(t, held, cs[i].Held, "%d: %s", i, cs[i].Place)
			}
			require.True(t, reader.Waiting())

			require.NoError(t, r.raw.Delete(write, -1))
			l := reader.Get() // together with Curator's reader
			require.True(t, writer.Waiting())
			require.True(t, late.Waiting())
			require.NoError(t, l.Release())
			require.True(t, writer.Waiting(), "Curator's reader still holds")
			r.p.Reset()
			require.NoError(t, r.raw.Delete(read, -1))
			require.NoError(t, writer.Get().Release())
			require.NoError(t, late.Get().Release())
			r.queued(0)
		})
	}
}

func TestRealB26CuratorReadsBesideOurDowngradedWriter(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	reader := r.byHand("_c_" + curatorUUID(1) + "-__READ__")[len(r.path)+1:]
	writer := r.byHand("_c_" + curatorUUID(2) + "-__WRIT__")[len(r.path)+1:]
	line := func() []string { return harness.Children(t, r.raw, r.path) }
	require.Equal(t, l.handle.Grant.Place().Name, curatorReaderWaits(reader, line()))
	require.Equal(t, reader, curatorWriterWaits(writer, line()))
	require.NoError(t, r.w.Downgrade(r.ctx, l))
	require.Empty(t, curatorReaderWaits(reader, line()), "it reads beside ours")
	require.NoError(t, r.raw.Delete(r.path+"/"+reader, -1))
	require.Equal(t, l.handle.Grant.Place().Name, curatorWriterWaits(writer, line()))
	require.NoError(t, l.Release())
	require.Empty(t, curatorWriterWaits(writer, line()))
}

// Data set on a foreign place does not signal its release.
func TestB27DataSetOnAForeignPlaceOfEitherSideIsNoSignal(t *testing.T) {
	r := newRWRig(t, nil)
	for _, f := range foreignRWLocks {
		ahead := r.byHand(f.prefix)
		r.p.Reset()
		a := r.joins(2, r.w.Lock)
		r.asleep(1)
		r.p.Reset()
		_, err := r.raw.Set(ahead, []byte("released"), -1)
		require.NoError(t, err)
		harness.Eventually(t, "looked again", func() bool { return r.p.CountOf("getData") == 1 && idle(r.c) })
		require.True(t, a.Waiting())
		require.NoError(t, r.raw.Delete(ahead, -1))
		require.NoError(t, a.Get().Release())
	}
}
