package zktest_test

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// hostile are requests with vectors that claim to be huge. Before the lengths are paths and numbers.
var hostile = []conformance.Request{
	{Op: jute.OpSetWatches, Body: jute.AppendInt32(make([]byte, 8), 1<<30)},
	{Op: jute.OpCreate, Body: jute.AppendInt32(jute.AppendInt32(jute.AppendString(nil, "/a"), -1), 1<<30)},
	{Op: jute.OpSetData, Body: jute.AppendInt32(jute.AppendString(nil, "/a"), 1<<30)},
}

// FuzzRequests sends arbitrary bytes after a handshake. The server must not
// panic. It must reply or close the connection, and must still serve other
// clients afterwards.
func FuzzRequests(f *testing.F) {
	for op := int32(-12); op < 110; op++ {
		f.Add(conformance.Request{Op: op, Body: conformance.Exists("/a", true).Body}.Frame(1))
	}
	for _, r := range append(hostile,
		conformance.EphemeralSequential("/a/"), conformance.SetData("/", []byte("x"), -1),
		conformance.Multi(conformance.SetData("/", []byte("x"), -1), conformance.Check("/", 3)),
	) {
		f.Add(r.Frame(1))
	}
	f.Add([]byte("\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		srv := zktest.NewServer(t, zktest.InMemory())
		nc, err := srv.Dial("", "", time.Second)
		require.NoError(t, err)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			io.Copy(io.Discard, nc)
		}()
		nc.Write(conformance.ConnectRequest{Timeout: 10000}.Frame())
		nc.Write(b)
		nc.Write(conformance.Close().Frame(1)) // closes the session if all frames before it are complete
		nc.Close()
		<-drained
		open(t, srv).Ok(conformance.Exists("/", false))
	})
}

// FuzzHandshake sends arbitrary bytes instead of a ConnectRequest.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("ruok"))
	f.Add(jute.Frame(make([]byte, 45)))
	f.Add([]byte("\x00\x0f\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		srv := zktest.NewServer(t, zktest.InMemory())
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
	f.Add(conformance.Plain("/a").Frame(1)[4:])
	f.Add(hostile[0].Frame(1)[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		zktest.Decode(b, zktest.ZooKeeper38)
		zktest.Decode(b, zktest.ZooKeeper39)
	})
}

func TestHugeClaimedLengthsAllocateLittle(t *testing.T) {
	srv := zktest.NewServer(t, zktest.MaxFrame(1<<30))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	open(t, srv).Raw(jute.AppendInt32(nil, 1<<30))
	for _, r := range hostile {
		open(t, srv).Fails(jute.ErrMarshalling, r)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}
