package zkconn

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A server closes the connection at a request above its jute.maxbuffer, which the client may
// not know (Config.MaxBuffer). Sent again and again, such a request would keep all others of
// the session from being answered.

const (
	// maxKilled is how many connections in a row may end with a request unanswered that no
	// server has shown to accept.
	maxKilled = 3
	// killersFor is for how long requests of that size are not sent. Servers that close many
	// connections for another reason may be well again.
	killersFor = time.Minute
	// maxDeparture is how many operations a transaction has at most that lets go of a place.
	maxDeparture = 8
	// smallestFrame is the frame of a request that every server accepts, with its length.
	smallestFrame = 4 + smallestBuffer
)

// killers finds out at which requests the servers close the connection. Only their size can
// be the reason, so the suspect is the largest that was under way, if none as large was ever
// answered. What has smallestFrame bytes or less is none.
type killers struct {
	mu     sync.Mutex
	killed int // connections in a row
	size   int // of the smallest suspect on these
	until  time.Time
}

// note notes that the server has closed a connection, on which the suspect had that size, 0 if there
// was none. If requests of a size are given up from now on, note returns it, and 0 otherwise.
func (k *killers) note(size int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if size <= smallestFrame {
		k.killed = 0
		return 0
	}
	if k.killed == 0 || size < k.size {
		k.size = size
	}
	if k.killed++; k.killed < maxKilled {
		return 0
	}
	k.killed, k.until = 0, time.Now().Add(killersFor)
	return k.size
}

// check returns ErrTooLarge for a request that is not sent, because it is as large as those at
// which the servers close the connection.
func (k *killers) check(frame []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(frame) < k.size || !time.Now().Before(k.until) {
		return nil
	}
	return Errorf(ErrTooLarge, "request of %d bytes: the servers have closed %d connections in a row without an answer to one of %d bytes: "+
		"is their jute.maxbuffer below Options.MaxBuffer?", len(frame)-4, maxKilled, k.size-4)
}

// isDeparture reports whether a transaction deletes one place and does nothing else. Such a one is sent
// whatever its size: only the caller's path can make it large, and that was in other requests, too.
func isDeparture(ops []any) bool {
	if len(ops) > maxDeparture {
		return false
	}
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			return false
		case *zk.SetDataRequest:
			if len(op.Data) > smallestBuffer/4 {
				return false
			}
		}
	}
	return true
}
