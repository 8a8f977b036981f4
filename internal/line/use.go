package line

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Unused is ErrUnused for an error that says that there is no znode.
func Unused(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %w", ErrUnused, err)
	}
	return err
}

// CheckUnused returns ErrUnused, or ErrPathInUse if the path, which has no data, is a queue's.
func (l *Line) CheckUnused(ctx context.Context, s *Session) error {
	return cmp.Or(l.CheckNoQueue(ctx, s), ErrUnused)
}

// CheckSized returns nil if the path has the size of a semaphore or barrier, and else ErrUnused
// or ErrPathInUse.
func (l *Line) CheckSized(ctx context.Context, s *Session, unit string) error {
	data, stat, err := s.Get(ctx, l.Abs())
	if err != nil {
		return Unused(err)
	}
	n, err := l.SizeIn(data, stat, unit)
	if err == nil && n == 0 {
		err = l.CheckUnused(ctx, s)
	}
	return err
}

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
