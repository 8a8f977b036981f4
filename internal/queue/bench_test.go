package queue_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// BenchmarkBoundedPut shows what a Put with a bound costs in front of a backlog, with
// the processor time of the whole process: the client's and, in memory, the server's.
func BenchmarkBoundedPut(b *testing.B) {
	for _, backlog := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(backlog), func(b *testing.B) {
			ctx := harness.Within(b, 10*time.Minute)
			q := zkrecipes.NewQueue(recipetest.Dial(b, nil), harness.NewPath(b), &zkrecipes.QueueOptions{MaxLen: 1 << 30})
			free := zkrecipes.NewQueue(clientOf(q), recipetest.QueueOf(q).Path, nil)
			for range backlog / 100 {
				_, err := free.PutAll(ctx, make([][]byte, 100)...)
				require.NoError(b, err)
			}
			recipetest.PutOn(b, q, "first use")
			began := processorTime(b)
			b.ResetTimer()
			for range b.N {
				recipetest.PutOn(b, q, "x")
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
