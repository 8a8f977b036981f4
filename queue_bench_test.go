package zkrecipes

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// BenchmarkBoundedPut shows what a Put with a bound costs in front of a backlog, with
// the processor time of the whole process: the client's and, in memory, the server's.
func BenchmarkBoundedPut(b *testing.B) {
	for _, backlog := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(backlog), func(b *testing.B) {
			ctx := harness.Within(b, 10*time.Minute)
			q := NewQueue(dial(b, nil), harness.NewPath(b), &QueueOptions{MaxLen: 1 << 30})
			free := NewQueue(clientOf(q.itemQueue.Client), q.itemQueue.Path, nil)
			for range backlog / 100 {
				_, err := free.PutAll(ctx, make([][]byte, 100)...)
				require.NoError(b, err)
			}
			putOn(b, q, "first use")
			began := processorTime(b)
			b.ResetTimer()
			for range b.N {
				putOn(b, q, "x")
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
