package wire

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// The gate keeps requests back on a resumed connection (W1): until each watch that was set before is
// set again, and the session's znodes were compared (epoch.go). A server that requires SASL refuses the
// request for these znodes, so the session is not up there.
//
// Behind a closed gate no lease can be used or released. So what is answered there proves that the
// session is alive only once the gate opens: see ValidUntil.

// Watches are the paths of a session's watches by what the server compares: the data of a znode that
// exists, whether there is one, or its children.
type Watches struct{ Data, Exist, Children []string }

// maxSetWatches bounds a request, as in ZooKeeper's own client (ClientCnxn). setWatchesHeader is what
// it has beside its paths.
const (
	maxSetWatches    = 128 << 10
	setWatchesHeader = 8 + 8 + 3*4
)

// requests returns the records of the requests that set the watches again, of at most that size unless
// a single path is longer: the servers report what has happened since that zxid.
func (w Watches) requests(since int64, most int) (records [][]byte) {
	var paths [3][]string
	size := setWatchesHeader
	flush := func() {
		if size == setWatchesHeader {
			return
		}
		record := jute.AppendInt64(nil, since)
		for i := range paths {
			record = jute.AppendStrings(record, paths[i])
		}
		records, paths, size = append(records, record), [3][]string{}, setWatchesHeader
	}
	for i, all := range [...][]string{w.Data, w.Exist, w.Children} {
		for _, path := range all {
			if size+4+len(path) > most {
				flush()
			}
			paths[i] = append(paths[i], path)
			size += 4 + len(path)
		}
	}
	flush()
	return records
}

// armAgain sets the session's watches again. The answers advance no zxid (W6), and the gate stays
// closed until all have come.
func (c *Conn) armAgain() {
	var outs []outgoing
	for _, record := range c.session.cfg.Watches().requests(c.session.armedFrom(), min(maxSetWatches, c.session.cfg.MaxRequest)) {
		frame := append(make([]byte, Headroom), record...)
		outs = append(outs, c.newCall(jute.OpSetWatches, frame, c.armedAgain))
	}
	c.mu.Lock()
	c.unarmed = len(outs)
	c.mu.Unlock()
	if len(outs) > 0 {
		c.sendCalls(outs...)
	}
}

// armedAgain is called with the answer to a setWatches.
func (c *Conn) armedAgain(call *Call) {
	code, _, err := call.Result()
	if err != nil { // the connection is lost
		return
	}
	if code != 0 {
		c.closeWith(fmt.Errorf("arming watches again: %s", jute.ErrorName(code)))
		return
	}
	c.mu.Lock()
	c.unarmed--
	c.mu.Unlock()
	c.passGate()
}

// passGate asks for the session's znodes once the watches are armed, and opens the gate once they
// were compared. The reading goroutine calls it, so it must not wait until the server reads.
func (c *Conn) passGate() {
	c.mu.Lock()
	ask := c.gateClosed && c.unarmed == 0 && !c.asked
	open := c.mayOpen()
	c.mu.Unlock()
	switch {
	case ask:
		c.askEphemerals()
	case open:
		go c.openGate()
	}
}

// mayOpen reports whether the gate is closed and waits for nothing. c.mu must be held.
func (c *Conn) mayOpen() bool {
	return c.gateClosed && c.unarmed == 0 && c.asked && !c.asking
}

// openGate lets requests pass. A reply that has come since passGate may have shown a new epoch: then
// the gate opens after another comparison.
func (c *Conn) openGate() {
	c.mu.Lock()
	if !c.mayOpen() {
		c.mu.Unlock()
		return
	}
	c.gateClosed, c.served = false, true
	alive := c.alive
	if c.gateTimer != nil {
		c.gateTimer.Stop()
	}
	open := c.cause == nil
	c.mu.Unlock()
	if open {
		c.session.markAlive(alive)
		c.session.cfg.Up(c.number)
	}
}
