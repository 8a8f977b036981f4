package zkconn_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A server, or what poses as one, that sends lengths and counts that are wrong.

// malformed is a way to break the record of a reply. It returns nil where the record
// is too short for that.
type malformed struct {
	name string
	edit func(record []byte) []byte
}

// lengthAt sets the length or the count at this offset.
func lengthAt(offset int, n uint32) malformed {
	return malformed{fmt.Sprintf("%#x at %d", n, offset), func(record []byte) []byte {
		if len(record) < offset+4 {
			return nil
		}
		binary.BigEndian.PutUint32(record[offset:], n)
		return record
	}}
}

// cutAt leaves n bytes of the record.
func cutAt(n int) malformed {
	return malformed{fmt.Sprintf("cut at %d", n), func(record []byte) []byte {
		if len(record) <= n {
			return nil
		}
		return record[:n]
	}}
}

// hostileReplies returns ways to break the replies to each kind of request.
func hostileReplies() map[string][]malformed {
	hostile := map[string][]malformed{}
	for op, offsets := range map[string][]int{ // where lengths and counts are
		"connect": {16}, "event": {8}, "getData": {0}, "getChildren2": {0, 4}, recipetest.OpMakeContainer: {0, 9},
		"multi(create,setData)": {0, 9}, "multi(setData,delete)": {0}, "create2": {0},
	} {
		for _, at := range offsets {
			for _, n := range []uint32{math.MaxUint32 - 1, math.MaxInt32} {
				hostile[op] = append(hostile[op], lengthAt(at, n))
			}
		}
		for _, n := range []int{0, 9, 60} {
			hostile[op] = append(hostile[op], cutAt(n))
		}
	}
	hostile["getChildren2"] = append(hostile["getChildren2"], lengthAt(0, math.MaxUint32))
	return hostile
}

// A malformed reply costs no memory, and what it answered is found out: the lock is
// taken, or Lock returns an error and leaves nothing.
func TestAMalformedReplyCostsNoMemoryAndLeavesNothing(t *testing.T) {
	for op, ways := range hostileReplies() {
		t.Run(op, func(t *testing.T) {
			broken := 0
			for _, way := range ways {
				for nth := range int32(2) {
					broken += lockAmongMalformed(t, op, way, nth)
				}
			}
			require.NotZero(t, broken)
		})
	}
}

// lockAmongMalformed uses a gate and locks while the nth reply to op is broken. It
// returns how many were.
func lockAmongMalformed(t *testing.T, op string, way malformed, nth int32) int {
	var seen, broken atomic.Int32
	edit := func(got string, record []byte) []byte {
		if got != op || seen.Add(1)-1 != nth {
			return record
		}
		if edited := way.edit(record); edited != nil {
			broken.Add(1)
			return edited
		}
		return record
	}
	about := fmt.Sprintf("%s: %s in reply %d", op, way.name, nth)
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		other := recipetest.Held(t, zkrecipes.NewMutex(w.Client(nil), w.Path).Lock)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := w.Stranger(&zkrecipes.Options{Dialer: harness.EditReplies(w.Srv.DialContext, edit)})
		ctx := harness.Within(t, time.Minute)
		zkrecipes.NewGate(c, "/gate").IsOpen(ctx)
		zkrecipes.NewGate(c, "/gate").Wait(ctx)
		zkrecipes.NewGate(c, "/gate").Shut(ctx)
		zkrecipes.NewMutex(c, "/fresh").Do(ctx, recipetest.Nothing)
		a := w.LockLater(c)
		require.NoError(t, other.Release(), about)
		if l, err := a.Wait(); err == nil {
			require.NoError(t, l.Release(), about)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), about)
		require.Empty(t, w.Line(), about)
		require.NoError(t, c.Close(), about)
	})
	return int(broken.Load())
}
