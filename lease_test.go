package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestB15InstantsAreMonotonic(t *testing.T) {
	// A jump of the wall clock has no effect on a time with a monotonic reading, and
	// time.Time's String shows whether there is one.
	r := newRig(t, nil)
	l := r.lock()
	require.Contains(t, l.ValidUntil().String(), " m=+")
	s, _ := r.c.client.Session()
	r.p.Drop()
	harness.Eventually(t, "down", func() bool {
		require.Contains(t, s.Inspect().UpSince.String(), " m=+")
		up, _ := s.Connected()
		return !up
	})
	require.NoError(t, l.Release())
}

func TestB69ReadsAnsweredAfterTheEndOfTheLeaseReturnItsError(t *testing.T) {
	ends := []struct {
		name string
		end  func(w *world, c *Client, l *Lease)
		want error
	}{
		{"released", func(w *world, c *Client, l *Lease) { go l.Release() }, ErrReleased},
		{"evicted", func(w *world, c *Client, l *Lease) {
			require.NoError(w.t, w.bare().Delete(l.Check().Path, -1))
		}, ErrLost},
		{"session expired", func(w *world, c *Client, l *Lease) { w.srv.Expire(sessionID(c)) }, ErrLost},
		{"client closed", func(w *world, c *Client, l *Lease) { go c.Close() }, ErrClosed},
	}
	reads := []struct {
		op   string
		read func(context.Context, *Lease) (data int, stat *zk.Stat, err error)
	}{
		{"getData", func(ctx context.Context, l *Lease) (int, *zk.Stat, error) {
			data, stat, err := l.Get(ctx, "/data")
			return len(data), stat, err
		}},
		{"getChildren2", func(ctx context.Context, l *Lease) (int, *zk.Stat, error) {
			names, stat, err := l.Children(ctx, "/data")
			return len(names), stat, err
		}},
	}
	type answer struct {
		data int
		stat *zk.Stat
	}
	for _, end := range ends {
		for _, read := range reads {
			t.Run(read.op+", "+end.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					harness.MakeParents(t, w.bare(), "/data/child")
					_, err := w.insider().Set("/data", []byte("old"), -1)
					require.NoError(t, err)
					c := w.client(nil)
					l := lockOn(t, NewMutex(c, w.path))
					time.Sleep(2 * time.Second) // its place is watched by now
					w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: read.op, Path: "/data", For: time.Second})
					a := harness.Go(t, func(ctx context.Context) (answer, error) {
						data, stat, err := read.read(ctx, l)
						return answer{data, stat}, err
					})
					synctest.Wait()
					end.end(w, c, l)
					got, err := a.Wait()
					require.ErrorIs(t, err, end.want)
					require.Zero(t, got)
				})
			})
		}
	}
}
