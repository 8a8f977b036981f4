package zkrecipes

import (
	"context"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A quick look with the clock; to be read as ratios within one run.

func BenchmarkFree(b *testing.B) {
	path := newPath(b)
	b.Run("raw create and delete", func(b *testing.B) {
		conn := raw(b)
		makeParents(b, conn, path+"-raw")
		for b.Loop() {
			name, err := conn.Create(path+"-raw/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			if err == nil {
				err = conn.Delete(name, -1)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Mutex", func(b *testing.B) {
		m := NewMutex(dial(b, nil), path)
		for b.Loop() {
			l, err := m.Lock(b.Context())
			if err == nil {
				err = l.Release()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkContended200(b *testing.B) {
	const sessions = 200
	contend := func(b *testing.B, cycle func(i int) error) {
		turns := make(chan struct{}, b.N)
		for range b.N {
			turns <- struct{}{}
		}
		close(turns)
		b.ResetTimer()
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
		b.StopTimer()
	}
	b.Run("zk.Lock", func(b *testing.B) {
		path := newPath(b)
		var locks [sessions]*zk.Lock
		for i := range locks {
			locks[i] = zk.NewLock(raw(b), path, zk.WorldACL(zk.PermAll))
		}
		contend(b, func(i int) error {
			if err := locks[i].Lock(); err != nil {
				return err
			}
			return locks[i].Unlock()
		})
	})
	b.Run("Mutex", func(b *testing.B) {
		path := newPath(b)
		var locks [sessions]*Mutex
		for i := range locks {
			locks[i] = NewMutex(dial(b, nil), path)
		}
		contend(b, func(i int) error {
			l, err := locks[i].Lock(context.Background())
			if err != nil {
				return err
			}
			return l.Release()
		})
	})
}

// makeParents creates persistent znodes down to path.
func makeParents(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	if p := parent(path); p != "" {
		makeParents(t, conn, p)
	}
	if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != zk.ErrNodeExists {
		require.NoError(t, err)
	}
}
