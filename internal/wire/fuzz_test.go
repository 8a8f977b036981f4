package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// FuzzServer sends arbitrary bytes after the handshake. Nothing must panic, reading
// must end, and memory must be in proportion to the bytes.
func FuzzServer(f *testing.F) {
	addServerSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if !whole {
			data = jute.Frame(data)
		}
		client, server := net.Pipe()
		s := NewSession(Config{
			Timeout: sessionTimeout, Leases: func() bool { return true },
			Armed: func(string, bool, uint64) {}, Event: func(Event) {}, Up: func(uint64) {}, Down: func(uint64, error) {},
		})
		conn := s.Wrap(client, s.Attempt())
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, server) })
		wg.Go(func() {
			server.Write(connectReply(sessionTimeout, sessionID))
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
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, random.IntN(64))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b, random.IntN(2) == 0)
	}
	for i, op := range repliedOps {
		f.Add(reply(int32(4+i), 1, 0, record(op)...), true)
		for _, broken := range malformed(op) {
			f.Add(reply(int32(4+i), 1, 0, broken...), true)
		}
	}
	for _, frame := range [][]byte{
		{0x3f, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		reply(1, 1, 0, 1, 2, 3), reply(2, 1, 0), reply(3, 1, 0), reply(jute.XidPing, 1, 0), reply(jute.XidAuth, 1, 0),
		reply(xidSync, 1, 0), event(jute.EventDeleted, "/a"), event(99, "\xff\x00"), jute.Frame(nil),
		reply(jute.XidEvent, 1, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xf0),
	} {
		f.Add(frame, true)
		f.Add(frame[:len(frame)-1], true)
		f.Add(append(slices.Clone(frame), frame...), true)
	}
}

// FuzzHandshake sends an arbitrary frame as the ConnectResponse.
func FuzzHandshake(f *testing.F) {
	response := connectReply(sessionTimeout, sessionID)
	f.Add(response[4:])
	for _, n := range []int{0, 1, 4, 8, 16, 20, 30} {
		f.Add(response[4 : 4+n])
	}
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := net.Pipe()
		s := NewSession(Config{Timeout: sessionTimeout, Credentials: []Credential{{Scheme: "digest"}},
			Leases: func() bool { return false }, Up: func(uint64) {}, Down: func(uint64, error) {}})
		conn := s.Wrap(client, s.Attempt())
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, server) })
		wg.Go(func() {
			server.Write(jute.Frame(data))
			server.Write(reply(jute.XidAuth, 0, 0))
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
