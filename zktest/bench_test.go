package zktest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkCreate measures sequential creates over loopback with 64 requests in
// flight on one connection of go-zookeeper.
func BenchmarkCreate(b *testing.B) {
	srv := NewServer(b)
	c := connect(b, srv, 10*time.Second)
	create(b, c, "/a", 0)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := i; n < b.N; n += 64 {
				if _, err := c.Create(fmt.Sprintf("/a/%d", n), nil, 0, worldACL); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

// The server is meant to create 20,000 znodes a second on two cores. The bound
// here is one that a busy machine meets under the race detector.
func TestManyCreatesInFlightAreFast(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	create(t, c, "/a", 0)
	const n = 10000
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for k := i; k < n; k += 64 {
				if _, err := c.Create(fmt.Sprintf("/a/%d", k), nil, 0, worldACL); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	t.Logf("%.0f creates/s", n/took.Seconds())
	require.Less(t, took, 20*time.Second)
}
