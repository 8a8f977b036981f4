package zkconn_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What plain go-zookeeper v1.0.4 does with watches. See bare_test.go.

func TestBareConnDropsEvents(t *testing.T) {
	const n = 20
	bareInBubble(t, func(t *testing.T, b *bare) {
		for i := range n {
			node := fmt.Sprintf("/%d", i)
			_, _, watch, err := b.conn.ExistsW(node)
			require.NoError(t, err)
			_, err = b.look.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			require.Equal(t, zk.EventNodeCreated, (<-watch).Type)
		}
		require.Less(t, len(b.events), n, bareBetter("wire.Session reads events from the frames"))
	})
}

// bareWatches counts the channels in go-zookeeper's table.
func bareWatches(conn *zk.Conn) (n int) {
	for it := reflect.ValueOf(conn).Elem().FieldByName("watchers").MapRange(); it.Next(); {
		n += it.Value().Len()
	}
	return n
}

func TestBareConnAddsAWatchForEveryRequest(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		for range 50 {
			b.watch()
		}
		require.Equal(t, 50, bareWatches(b.conn), bareBetter("one watch for all waiters on a path"))
		_, _, _, err := b.conn.GetW("/none")
		require.Equal(t, zk.ErrNoNode, err)
		require.Equal(t, 50, bareWatches(b.conn), "a failed GetW adds no watch")
		there, _, _, err := b.conn.ExistsW("/none")
		require.NoError(t, err)
		require.False(t, there)
		require.Equal(t, 51, bareWatches(b.conn), bareBetter("watches are set with GetW, not ExistsW"))
	})
}

// The reply to a request that was sent before setWatches advances the zxid. If the
// connection is lost before the reply to setWatches, the next setWatches carry a zxid
// that already includes the change, so the server sends no event for it.
func TestBareConnLosesAChangeWhenARequestOvertakesSetWatches(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		watch := b.watch()
		b.cut()
		b.change()
		overtakes := harness.Go(t, func(ctx context.Context) ([]byte, error) {
			data, _, err := b.conn.Get(bareNode)
			return data, err
		})
		synctest.Wait()
		b.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", For: time.Second}) // see TestBareConnRacesRepliesAgainstSetWatches
		b.onWrite("setWatches", func([]byte) (bool, error) { return false, nil })
		b.taps.Release()
		require.Equal(t, "changed", string(overtakes.Get()))
		require.Equal(t, []string{"connect", "getData", "setWatches"}, b.taps.Newest().Sent(), bareBetter("the gate in wire.Conn"))

		b.taps.OnWrite(nil)
		b.reconnect()
		require.Equal(t, []string{"connect", "setWatches"}, b.taps.Newest().Sent())
		require.False(t, bareFired(watch), bareBetter("the gate in wire.Conn, and its own zxid"))
		require.NoError(t, b.look.Delete(bareNode, -1))
		require.Equal(t, zk.EventNodeDeleted, (<-watch).Type, "the watch is armed, but the change was lost")
	})
}

// The reply to one setWatches advances the zxid of the next.
func TestBareConnLosesWatchesWhenDroppedBetweenChunks(t *testing.T) {
	const chunks = 4
	bareInBubble(t, func(t *testing.T, b *bare) {
		nodes, chunk := createNodes(t, b.look, bareNode, 900, chunks)
		var watches []<-chan zk.Event
		for _, node := range nodes {
			_, _, watch, err := b.conn.GetW(node)
			require.NoError(t, err)
			watches = append(watches, watch)
		}
		b.cut()
		recipetest.ChangeNodes(t, b.look, nodes)
		b.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "setWatches", Skip: 1})
		b.taps.Release()
		synctest.Wait()
		require.Equal(t, slices.Concat([]string{"connect"}, slices.Repeat([]string{"setWatches"}, chunks-1)), b.taps.Newest().Sent())
		fired := 0
		for _, watch := range watches {
			if bareFired(watch) {
				fired++
			}
		}
		require.Equal(t, chunk, fired, bareBetter("wire.Conn hides zxids from go-zookeeper and fills in its own"))
	})
}

func TestBareConnAdvancesNoZxidByEvents(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		watch := b.watch()
		stat := b.change()
		require.Equal(t, zk.EventNodeDataChanged, (<-watch).Type)
		b.reconnect()
		require.Less(t, b.taps.Newest().LastSeen, stat.Mzxid, bareBetter("the sync that wire.Conn sends while a lease is held"))
	})
}
