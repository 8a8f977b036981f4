package zktest

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkCreate measures creates over loopback with 64 requests in
// flight on one connection of go-zookeeper. They are meant to be 20,000 a second on two cores.
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
