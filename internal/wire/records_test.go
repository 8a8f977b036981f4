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
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Bytes that no working server sends: go-zookeeper must not see them, and they must
// not cost more memory than there are bytes.

// badLengths are lengths and counts that no record of a few bytes can have.
var badLengths = []uint32{math.MaxUint32 - 1, 1 << 31, math.MaxInt32, 1 << 30, 1000}

// lengthsOf returns where in the record of a reply its lengths and counts are.
func lengthsOf(op int32) []int {
	switch op {
	case jute.OpGetData, jute.OpCreate, jute.OpCreateContainer:
		return []int{0}
	case jute.OpGetChildren, jute.OpGetChildren2:
		return []int{0, 4, 9}
	}
	return nil
}

// repliedOps are the operations whose replies have a record.
var repliedOps = []int32{
	jute.OpGetData, jute.OpExists, jute.OpSetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpCreate, jute.OpCreateContainer,
}

// malformed returns broken variants of the record of a reply.
func malformed(op int32) [][]byte {
	var broken [][]byte
	whole := record(op)
	for n := range whole {
		broken = append(broken, whole[:n])
	}
	for _, at := range lengthsOf(op) {
		lengths := badLengths
		if op != jute.OpGetData { // data may be null
			lengths = append([]uint32{math.MaxUint32}, lengths...)
		}
		for _, n := range lengths {
			b := slices.Clone(whole)
			binary.BigEndian.PutUint32(b[at:], n)
			broken = append(broken, b)
		}
	}
	return broken
}

// allocated returns how many bytes were allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAMalformedReplyClosesTheConnection(t *testing.T) {
	for _, op := range repliedOps {
		for _, body := range malformed(op) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				l := r.connect()
				l.write(readRequest(1, op, "/a", true))
				require.Less(t, allocated(func() { l.answer(reply(1, 1, 0, body...)) }), uint64(64<<10))
				require.ErrorContains(t, l.down(), "malformed reply to "+jute.OpName(op), "%x", body)
				require.Empty(t, l.read(), "go-zookeeper must not see it")
				require.Empty(t, r.armedWatches())
			})
		}
	}
}

func TestAWellFormedReplyReachesGoZookeeper(t *testing.T) {
	null := slices.Concat(jute.AppendInt32(nil, -1), record(jute.OpExists))
	require.NoError(t, checkRecord(jute.OpGetData, null), "data may be null")
	none := slices.Concat(jute.AppendInt32(nil, 0), record(jute.OpExists))
	require.NoError(t, checkRecord(jute.OpGetChildren2, none))
	for _, op := range append(repliedOps, jute.OpDelete, jute.OpClose) {
		for _, body := range [][]byte{record(op), append(record(op), "of a later version"...)} {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				l := r.connect()
				l.write(readRequest(1, op, "/a", false))
				l.answer(reply(1, 1, 0, body...))
				require.Equal(t, [][]byte{reply(1, 0, 0, body...)}, l.read())
				l.requireUp()
			})
		}
	}
}

// go-zookeeper would decode it without a check, since it knows the request: it has
// queued it.
func TestAReplyToARequestThatWasNotSentClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		l.write(readRequest(1, jute.OpGetChildren2, "/a", true))
		require.Empty(t, l.sent(), "the gate holds it")
		l.answer(reply(1, 1, 0, 0xff, 0xff, 0xff, 0xff))
		require.ErrorContains(t, l.down(), "reply to request 1, which was not sent")
		require.Empty(t, l.read())
	})
}

// Only requests whose replies can be checked are to go through go-zookeeper.
func TestAReplyOfAnUncheckedKindClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(requestFrame(1, jute.OpGetACL))
		l.answer(reply(1, 1, 0, 0xff, 0xff, 0xff, 0xff))
		require.ErrorContains(t, l.down(), "reply to getACL, which this client does not send")
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

func TestAMalformedConnectResponseFailsTheHandshake(t *testing.T) {
	whole := welcome()[4:]
	for _, n := range append(badLengths, maxPassword+1) {
		b := append(slices.Clone(whole), make([]byte, maxPassword)...)
		binary.BigEndian.PutUint32(b[16:], n)
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.handshake()
			require.Less(t, allocated(func() { l.answer(jute.Frame(b)) }), uint64(64<<10))
			require.ErrorContains(t, l.down(), "handshake")
			require.Empty(t, l.read())
			require.Zero(t, r.ID())
		})
	}
}

func TestTheLengthOfAFrameCostsNoMemory(t *testing.T) {
	for _, n := range []uint32{maxReply, maxReply + 1, math.MaxInt32, 1 << 31, math.MaxUint32, 15, 0} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			frame := append(binary.BigEndian.AppendUint32(nil, n), make([]byte, 100)...)
			require.Less(t, allocated(func() {
				l.answer(frame)
				l.server.Close()
				synctest.Wait()
			}), uint64(256<<10), "%d", n)
			require.Error(t, l.down())
			require.Empty(t, l.read())
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
		conn.Write(readRequest(1, jute.OpGetData, "/a", true))
		conn.Write(setWatches(2, []string{"/a"}, nil, nil))
		conn.Write(requestFrame(3, jute.OpDelete))
		conn.Write(ping())
		for i, op := range repliedOps {
			conn.Write(readRequest(int32(4+i), op, "/a", true))
		}
		var err error
		spent := allocated(func() {
			_, err = io.Copy(io.Discard, conn)
			wg.Wait()
		})
		if most := uint64(512<<10 + 16*len(data)); spent > most {
			t.Fatalf("%d bytes allocated for %d that came", spent, len(data))
		}
		if err != nil || conn.Cause() != nil {
			return
		}
		t.Fatal("the connection has not ended")
	})
}

func addServerSeeds(f *testing.F) {
	for i, op := range repliedOps {
		f.Add(reply(int32(4+i), 1, 0, record(op)...), true)
		for _, broken := range malformed(op) {
			f.Add(reply(int32(4+i), 1, 0, broken...), true)
		}
	}
	for _, frame := range [][]byte{
		{0x3f, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		reply(1, 1, 0, 1, 2, 3), reply(2, 1, 0), reply(3, 1, 0), reply(jute.XidPing, 1, 0), reply(jute.XidAuth, 1, 0),
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
