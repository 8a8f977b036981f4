package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestB15InstantsAreMonotonic(t *testing.T) {
	// A jump of the wall clock has no effect on a time with a monotonic reading, and
	// time.Time's String shows whether there is one.
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	require.Contains(t, l.ValidUntil().String(), " m=+")
	s, _ := recipetest.Core(r.C).Session()
	r.P.Drop()
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
		end  func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease)
		want error
	}{
		{"released", func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) { go l.Release() }, zkrecipes.ErrReleased},
		{"evicted", func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) {
			require.NoError(w.T, w.Bare().Delete(l.Check().Path, -1))
		}, zkrecipes.ErrLost},
		{"session expired", func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) {
			w.Srv.Expire(recipetest.SessionID(c))
		}, zkrecipes.ErrLost},
		{"client closed", func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) { go c.Close() }, zkrecipes.ErrClosed},
	}
	reads := []struct {
		op   string
		read func(context.Context, *zkrecipes.Lease) (data int, stat *zk.Stat, err error)
	}{
		{"getData", func(ctx context.Context, l *zkrecipes.Lease) (int, *zk.Stat, error) {
			data, stat, err := l.Get(ctx, "/data")
			return len(data), stat, err
		}},
		{"getChildren2", func(ctx context.Context, l *zkrecipes.Lease) (int, *zk.Stat, error) {
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
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					harness.MakeParents(t, w.Bare(), "/data/child")
					_, err := w.Insider().Set("/data", []byte("old"), -1)
					require.NoError(t, err)
					c := w.Client(nil)
					l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
					time.Sleep(2 * time.Second) // its place is watched by now
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: read.op, Path: "/data", For: time.Second})
					a := harness.Go(t, func(ctx context.Context) (answer, error) {
						data, stat, err := read.read(ctx, l)
						return answer{data: data, stat: stat}, err
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
