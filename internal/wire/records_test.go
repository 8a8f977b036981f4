package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Bytes that no working server sends: go-zookeeper must not see them, and they must
// not cost more memory than there are bytes.

// badLengths are lengths and counts that no record of a few bytes can have.
var badLengths = []uint32{math.MaxUint32 - 1, 1 << 31, math.MaxInt32, 1 << 30, 1000}

// allocated returns how many bytes were allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// go-zookeeper would decode it without a check if it had queued such a request.
func TestAReplyToARequestThatWasNotSentClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.answer(reply(1, 1, 0, 0xff, 0xff, 0xff, 0xff))
		require.ErrorContains(t, l.down(), "reply to request 1, which was not sent")
		require.Empty(t, l.read())
	})
}

func TestAMalformedEventClosesTheConnection(t *testing.T) {
	whole := event(jute.EventDeleted, "/a")[20:]
	broken := [][]byte{nil, whole[:7], whole[:8], whole[:11], whole[:13]}
	for _, n := range append(badLengths, math.MaxUint32) {
		b := slices.Clone(whole)
		binary.BigEndian.PutUint32(b[8:], n)
		broken = append(broken, b)
	}
	for _, body := range broken {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			r.reported()
			l.answer(reply(jute.XidEvent, -1, 0, body...))
			require.ErrorContains(t, l.down(), "malformed event", "%x", body)
			require.Empty(t, l.read())
			require.Len(t, r.reported(), 1, "no event")
		})
	}
}

// FuzzServer sends arbitrary bytes after the handshake. Nothing must panic, reading
// must end, and memory must be in proportion to the bytes.
func FuzzServer(f *testing.F) {
	addServerSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if !whole {
			data = jute.Frame(data)
		}
		client, server := net.Pipe()
		_, conn := wrapQuiet(client, sessionTimeout)
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, server) })
		wg.Go(func() {
			server.Write(append(welcome(), pong()...))
			server.Write(data)
			server.Close()
		})
		conn.Write(connectRequest(0))
		conn.Write(ping())
		conn.Write(requestFrame(1, jute.OpClose))
		var err error
		spent := allocated(func() {
			_, err = io.Copy(io.Discard, conn)
			wg.Wait()
		})
		if most := uint64(512<<10 + 16*len(data)); spent > most {
			t.Fatalf("%d bytes allocated for %d that came", spent, len(data))
		}
		if err != nil || conn.closedBy() != nil {
			return
		}
		t.Fatal("the connection has not ended")
	})
}

func addServerSeeds(f *testing.F) {
	for _, n := range []uint32{maxReply, maxReply + 1, math.MaxInt32, 1 << 31, math.MaxUint32, 15, 0} {
		f.Add(append(binary.BigEndian.AppendUint32(nil, n), make([]byte, 100)...), true)
	}
	for _, frame := range [][]byte{
		reply(1, 1, 0, 1, 2, 3), reply(xidFirstCall, 1, 0), reply(jute.XidPing, 1, 0), reply(jute.XidAuth, 1, 0),
		reply(xidEphemerals, 1, 0), event(jute.EventDeleted, "/a"), event(99, "\xff\x00"), jute.Frame(nil),
		reply(jute.XidEvent, 1, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xf0),
	} {
		f.Add(frame, true)
		f.Add(frame[:len(frame)-1], true)
		f.Add(append(slices.Clone(frame), frame...), true)
	}
}

// FuzzHandshake sends an arbitrary frame as the ConnectResponse.
func FuzzHandshake(f *testing.F) {
	response := welcome()
	f.Add(response[4:])
	for _, n := range []int{0, 1, 4, 8, 16, 20, 30} {
		f.Add(response[4 : 4+n])
	}
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := net.Pipe()
		s, conn := wrapQuiet(client, sessionTimeout, Credential{Scheme: "digest"})
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, server) })
		wg.Go(func() {
			server.Write(jute.Frame(data))
			server.Write(append(reply(jute.XidAuth, 0, 0), pong()...))
			server.Close()
		})
		conn.Write(connectRequest(0))
		io.Copy(io.Discard, conn)
		wg.Wait()
		if id := s.ID(); id != 0 && s.Timeout() <= 0 {
			t.Fatalf("go-zookeeper panics on a timeout of %v", s.Timeout())
		}
	})
}
