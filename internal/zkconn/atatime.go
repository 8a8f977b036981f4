package zkconn

import "sync"

// AtATime calls f with 0 to n-1, several at a time, and returns when all have returned.
func AtATime(n int, f func(i int)) {
	var wg sync.WaitGroup
	running := make(chan struct{}, 16)
	for i := range n {
		running <- struct{}{}
		wg.Go(func() {
			defer func() { <-running }()
			f(i)
		})
	}
	wg.Wait()
}
