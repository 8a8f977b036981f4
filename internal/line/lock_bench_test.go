package line_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Benchmarks that compare two sides. Machines are noisy, so both sides take turns in
// blocks within one run, and the result is the ratio of their times.

// alternate runs blocks of cycles of each side in turn. It reports the time of a
// cycle of each, and the ratio of theirs to ours.
func alternate(b *testing.B, block int, theirs, ours func(cycles int)) {
	theirs(block)
	ours(block) // warm up both
	var them, us time.Duration
	for b.Loop() {
		began := time.Now()
		theirs(block)
		between := time.Now()
		ours(block)
		them += between.Sub(began)
		us += time.Since(between)
	}
	cycles := float64(b.N * block)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(them.Microseconds())/cycles, "theirs-µs/cycle")
	b.ReportMetric(float64(us.Microseconds())/cycles, "ours-µs/cycle")
	b.ReportMetric(float64(them)/float64(us), "theirs/ours")
}

// A free lock compared with the least it needs: one create and one delete.
func BenchmarkFreeBesideRawCreateAndDelete(b *testing.B) {
	path := harness.NewPath(b)
	conn := harness.Raw(b)
	harness.MakeParents(b, conn, path+"-raw")
	m := zkrecipes.NewMutex(recipetest.Dial(b, nil), path)
	alternate(b, 200, func(cycles int) {
		for range cycles {
			name, err := conn.Create(path+"-raw/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			if err == nil {
				err = conn.Delete(name, -1)
			}
			require.NoError(b, err)
		}
	}, func(cycles int) {
		for range cycles {
			l, err := m.Lock(b.Context())
			if err == nil {
				err = l.Release()
			}
			require.NoError(b, err)
		}
	})
}

// A free lock compared with one that its process keeps.
func BenchmarkFreeBesideKept(b *testing.B) {
	c, path := recipetest.Dial(b, nil), harness.NewPath(b)
	cycles := func(m *zkrecipes.Mutex) func(int) {
		return func(n int) {
			for range n {
				l, err := m.Lock(b.Context())
				if err == nil {
					err = l.Release()
				}
				require.NoError(b, err)
			}
		}
	}
	alternate(b, 200, cycles(zkrecipes.NewMutex(c, path)), cycles(zkrecipes.NewMutex(c, path+"-kept", zkrecipes.KeepFor(time.Minute))))
}

// 200 sessions contend for one lock, compared with go-zookeeper's own Lock.
func BenchmarkContendedBesideGoZookeeper(b *testing.B) {
	const sessions = 200
	path := harness.NewPath(b)
	var theirs [sessions]*zk.Lock
	var ours [sessions]*zkrecipes.Mutex
	for i := range sessions {
		theirs[i] = zk.NewLock(harness.Raw(b), path+"-theirs", zk.WorldACL(zk.PermAll))
		ours[i] = zkrecipes.NewMutex(recipetest.Dial(b, nil), path)
	}
	contend := func(cycles int, cycle func(i int) error) {
		turns := make(chan struct{}, cycles)
		for range cycles {
			turns <- struct{}{}
		}
		close(turns)
		var wg sync.WaitGroup
		for i := range sessions {
			wg.Go(func() {
				for range turns {
					if err := cycle(i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	alternate(b, 1000, func(cycles int) {
		contend(cycles, func(i int) error {
			if err := theirs[i].Lock(); err != nil {
				return err
			}
			return theirs[i].Unlock()
		})
	}, func(cycles int) {
		contend(cycles, func(i int) error {
			l, err := ours[i].Lock(context.Background())
			if err != nil {
				return err
			}
			return l.Release()
		})
	})
}
