package zkrecipes

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	c := dial(t, nil)
	path := newPath(t)
	m := NewMutex(c, path)
	ctx := within(t, 20*time.Second)
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	t.Log(l.Token(), time.Until(l.ValidUntil()))
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
	require.ErrorIs(t, l.Err(), ErrReleased)
	n := 0
	var wg sync.WaitGroup
	began := time.Now()
	for range 8 {
		cc := dial(t, nil)
		wg.Go(func() {
			m := NewMutex(cc, path)
			for range 50 {
				if err := m.Do(ctx, func(ctx context.Context, l *Lease) error { n++; return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 400, n)
	t.Log(time.Since(began))
}
