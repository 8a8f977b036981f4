package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// FuzzServer sends arbitrary bytes after the handshake. Nothing must panic, and
// reading must end.
func FuzzServer(f *testing.F) {
	addServerSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if !whole {
			data = jute.Frame(data)
		}
		if announcesLargeFrame(data) {
			t.Skip() // it would only cost memory
		}
		client, server := net.Pipe()
		s := NewSession(Config{
			Timeout: sessionTimeout, Leases: func() bool { return true },
			Armed: func(string, uint64) {}, Event: func(Event) {}, Up: func(uint64) {}, Down: func(uint64, error) {},
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
		_, err := io.Copy(io.Discard, conn)
		wg.Wait()
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
	for _, frame := range [][]byte{
		reply(1, 1, 0, 1, 2, 3), reply(2, 1, 0), reply(3, 1, 0), reply(jute.XidPing, 1, 0), reply(jute.XidAuth, 1, 0),
		reply(xidSync, 1, 0), event(jute.EventDeleted, "/a"), event(99, "\xff\x00"), jute.Frame(nil),
		reply(jute.XidEvent, 1, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xf0),
	} {
		f.Add(frame, true)
		f.Add(frame[:len(frame)-1], true)
		f.Add(append(slices.Clone(frame), frame...), true)
	}
}

// announcesLargeFrame reports whether any of the frames in data has a length of
// more than a megabyte.
func announcesLargeFrame(data []byte) bool {
	for len(data) >= 4 {
		n := int32(binary.BigEndian.Uint32(data))
		if n > 1<<20 {
			return true
		}
		if n < 0 || int(n) > len(data)-4 {
			break
		}
		data = data[4+n:]
	}
	return false
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
