package zktest

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// FuzzRequests sends arbitrary bytes after a handshake. The server must not
// panic. It must reply or close the connection, and must still serve other
// clients afterwards.
func FuzzRequests(f *testing.F) {
	for op := int32(-12); op < 110; op++ {
		f.Add(frame(1, op, watchRecord("/a")))
	}
	f.Add(frame(1, jute.OpCreate, createRecord("/a/", jute.FlagEphemeralSequential)))
	f.Add(frame(1, jute.OpSetData, dataRecord("/", "x", -1)))
	b := append(appendHeader(nil, jute.OpSetData, false, -1), dataRecord("/", "x", -1)...)
	f.Add(frame(1, jute.OpMulti, appendHeader(append(appendHeader(b, jute.OpCheck, false, -1), versionRecord("/", 3)...), -1, true, -1)))
	f.Add(frame(1, jute.OpSetWatches2, append(make([]byte, 8), "\x7f\xff\xff\xff\x00\x00\x00\x00"...)))
	f.Add([]byte("\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		srv := NewServer(t, InMemory())
		c := dialSession(t, srv, 0, nil, 0)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			io.Copy(io.Discard, c.nc)
		}()
		c.nc.Write(b)
		c.nc.Write(frame(1, jute.OpClose, nil)) // closes the session if all frames before it are complete
		c.nc.Close()
		<-drained
		require.Zero(t, dialSession(t, srv, 0, nil, 0).roundTrip(jute.OpExists, append(pathRecord("/"), 0)).err)
	})
}

// FuzzHandshake sends arbitrary bytes instead of a ConnectRequest.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("ruok"))
	f.Add(jute.Frame(make([]byte, 45)))
	f.Add([]byte("\x00\x0f\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		srv := NewServer(t, InMemory())
		nc, err := srv.Dial("", "", time.Second)
		require.NoError(t, err)
		go io.Copy(io.Discard, nc)
		nc.Write(b)
		nc.Close()
	})
}

// FuzzDecode decodes arbitrary records. Memory use is bounded by the size of a
// record, whatever lengths it claims.
func FuzzDecode(f *testing.F) {
	f.Add(frame(1, jute.OpCreate, createRecord("/a", 0))[4:])
	f.Add(frame(1, jute.OpSetWatches, append(make([]byte, 8), "\x7f\xff\xff\xff\x00\x00\x00\x00"...))[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []Version{ZooKeeper38, ZooKeeper39} {
			if q, ok := decode(b, v); ok {
				_ = q.name()
			}
		}
	})
}

func TestHugeClaimedLengthsAllocateLittle(t *testing.T) {
	srv := NewServer(t, MaxFrame(1<<30))
	var conns []net.Conn
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, b := range [][]byte{
		jute.AppendInt32(nil, 1<<30),
		frame(1, jute.OpSetWatches, jute.AppendInt32(make([]byte, 8), 1<<30)),
		frame(1, jute.OpCreate, jute.AppendInt32(jute.AppendInt32(pathRecord("/a"), -1), 1<<30)),
		frame(1, jute.OpSetData, jute.AppendInt32(pathRecord("/a"), 1<<30)),
	} {
		c := dialSession(t, srv, 0, nil, 0)
		c.write(b)
		conns = append(conns, c.nc)
		if len(b) > 4 {
			require.Equal(t, jute.ErrMarshalling, c.read().err)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	for _, nc := range conns {
		nc.Close()
	}
}
