//go:build race

package zkconn_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// bareRaces requires that the race detector finds a race in this function while f runs.
func bareRaces(t *testing.T, in string, f func() string) {
	t.Helper()
	t.Setenv("GORACE", "halt_on_error=1")
	output, err := bareChild(t, f)
	require.Error(t, err)
	require.Contains(t, output, "DATA RACE")
	require.Contains(t, output, in)
}

// Close makes a caller return, which then reads the struct into which the reply to its
// request is still being decoded.
func TestBareConnCreateContainerRacesAgainstClose(t *testing.T) {
	bareRaces(t, "zk.(*Conn).CreateContainer", func() string { // otherwise: zkconn.Session.Close need not wait for calls under way
		p := harness.NewProxy(t, harness.Server())
		conn := harness.RawTo(t, []string{p.Addr()})
		answer := p.On("createContainer", 1, harness.HoldReply)
		path := fmt.Sprint("/container-", time.Now().UnixNano())
		go conn.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		p.Await(answer)
		go conn.Close()
		harness.Eventually(t, "Close has begun", func() bool { return p.CountOf("closeSession") == 1 })
		answer.Release()
		harness.Eventually(t, "ended", func() bool { return conn.State() == zk.StateDisconnected })
		return "no race"
	})
}

// go-zookeeper stores the zxid of a reply without a lock and concurrently reads it for
// setWatches. Whether the race detector catches this is a matter of luck. Many watches
// and many connections make it likely.
func TestBareConnRacesRepliesAgainstSetWatches(t *testing.T) {
	bareRaces(t, "zk.(*Conn).sendSetWatches", func() string { // otherwise: wire.Conn need neither have a gate nor hide zxids
		conn, taps := bareOnServer(t)
		var wg sync.WaitGroup
		for i := range 600 {
			wg.Go(func() { conn.ExistsW(fmt.Sprintf("/none-of-this-name-%0900d", i)) })
		}
		wg.Wait()
		for n := 2; n < 200; n++ {
			taps.Hold()
			taps.Newest().Close()
			harness.Eventually(t, "dialling", func() bool { return len(taps.Asked()) == n })
			for range 16 { // the capacity of its channel
				wg.Go(func() { conn.Get("/") })
			}
			harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(conn) == 16 })
			taps.Release()
			wg.Wait()
		}
		return "no race"
	})
}
