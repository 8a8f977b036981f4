package wire

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// An ensemble that has lost transactions, because servers have lost their disks or a backup was
// restored, resumes sessions without some of their znodes, and with some that had been
// deleted. The upper half of a zxid is the epoch of the leader, which is a new one then: a
// server that has not reached it refuses a client that has seen something later than the
// server has. So a client that may have lost something sees the new epoch in the first replies
// on the resumed connection. Then the Conn asks for the session's ephemeral znodes, once.
// Every other change of the leader has a new epoch, too.

// epochs are those that a session has seen.
type epochs struct {
	first    bool  // there was a reply
	seen     int64 // the newest
	compared int64 // no ephemerals need to be asked for up to this one
}

// epochOf returns the epoch of a transaction.
func epochOf(zxid int64) int64 { return zxid >> 32 }

// sawEpoch asks for the session's ephemeral znodes if a reply with that zxid is the first of a
// new epoch on this connection.
func (c *Conn) sawEpoch(zxid int64) {
	if zxid <= 0 || !c.session.isNewEpoch(epochOf(zxid)) || c.asking != 0 {
		return
	}
	c.asking = epochOf(zxid)
	ask := jute.AppendInt32(jute.AppendInt32(nil, xidEphemerals), jute.OpGetEphemerals)
	c.sendOwn(jute.Frame(jute.AppendString(ask, "/")))
}

// askEpoch sends a ping at once, for a connection on which nothing else may be sent for a while.
// The answer tells the epoch.
func (c *Conn) askEpoch() {
	c.startWrite(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, jute.XidPing), jute.OpPing)))
}

// isNewEpoch notes the epoch of a reply.
func (s *Session) isNewEpoch(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.epochs.first {
		s.epochs = epochs{first: true, compared: epoch}
	}
	s.epochs.seen = max(s.epochs.seen, epoch)
	return epoch > s.epochs.compared
}

// Epoch returns the newest epoch of a reply.
func (s *Session) Epoch() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epochs.seen
}

// ephemeralsAnswered passes the znodes on. If the reply is lost, the next connection asks
// again. Servers before 3.6 do not know the request.
func (c *Conn) ephemeralsAnswered(zxid int64, code int32, record []byte) error {
	_, ok := c.removePending(xidEphemerals, code, nil)
	epoch, d := c.asking, jute.NewDecoder(record)
	c.asking = 0
	switch {
	case !ok:
		return fmt.Errorf("ephemeral znodes that were not asked for")
	case code == jute.ErrUnimplemented:
		c.session.compared(epoch)
	case code != 0:
		return fmt.Errorf("asking for the session's ephemeral znodes: error %d", code)
	default:
		paths := d.Strings()
		if d.Err != nil {
			return fmt.Errorf("malformed list of ephemeral znodes: %w", d.Err)
		}
		c.session.compared(epoch)
		c.session.cfg.Ephemerals(paths, epoch)
		c.session.sawZxid(zxid)
	}
	c.ownAnswered(1)
	return nil
}

func (s *Session) compared(epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs.compared = max(s.epochs.compared, epoch)
}

// isGateClosed reports whether requests are held back.
func (c *Conn) isGateClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gateClosed
}
