package line_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Somebody's lasting place can have children. Their coming and going uses up the child watch on
// it.
func TestAPredecessorsChildrenKeepNobodyWaiting(t *testing.T) {
	for name, opts := range map[string][]zktest.Option{"3.8": {zktest.Emulate(zktest.ZooKeeper38)}, "3.9": nil} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c, conn := w.Client(nil), w.Bare()
				waitsFor := func() {
					place, err := conn.Create(w.Path+"/lock-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					waits := w.LockLater(c)
					require.True(t, waits.Waiting())
					for range 2 {
						_, err = conn.Set(place, []byte("note"), -1)
						require.NoError(t, err)
						_, err = conn.Create(place+"/child", nil, 0, zk.WorldACL(zk.PermAll))
						require.NoError(t, err)
						require.NoError(t, conn.Delete(place+"/child", -1))
						synctest.Wait()
						require.True(t, waits.Waiting())
					}
					require.NoError(t, conn.Delete(place, -1))
					time.Sleep(time.Minute)
					synctest.Wait()
					require.False(t, waits.Waiting(), "nobody stands before it")
					require.NoError(t, waits.Get().Release())
				}
				waitsFor()
				waitsFor() // the client knows the servers
			}, opts...)
		})
	}
}
