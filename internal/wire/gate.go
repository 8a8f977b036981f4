package wire

import "github.com/zkrecipes/zkrecipes/internal/jute"

// The gate holds requests back on a resumed connection.
//
// go-zookeeper sends the requests that it has queued on the next connection
// before its setWatches. A watch that the reply to such a request sets races
// with the watches that are being armed again. So on a resumed connection the
// gate holds every frame except setWatches, ping and close until each watch
// that was armed before is armed again.
//
// Behind a closed gate no lease can be used or released. So what is answered there
// proves that the session is alive only once the gate opens: see ValidUntil.
//
// If any lease is held, the gate then also waits for the reply to a sync.
// Events advance no zxid. The holder may have been granted its lease because of
// a change that a lagging follower does not have yet. And it waits until the session's znodes
// were compared, see epoch.go. It is closed for that alone if the last connection has shown that
// transactions or znodes may be lost, and was lost before the comparison.

// armedAgain notes that an answered setWatches has armed these watches.
func (c *Conn) armedAgain(paths map[watch]struct{}) {
	c.mu.Lock()
	missing := len(c.unarmed) > 0
	for w := range paths {
		delete(c.unarmed, w)
	}
	done := missing && len(c.unarmed) == 0
	c.mu.Unlock()
	if done {
		c.allArmed()
	}
}

// allArmed sends what must be answered before the gate opens.
func (c *Conn) allArmed() {
	if !c.asked {
		c.askEphemerals()
	}
	if !c.session.cfg.Leases() {
		c.ownAnswered(0)
		return
	}
	sync := jute.AppendInt32(jute.AppendInt32(nil, xidSync), jute.OpSync)
	c.sendOwn(jute.Frame(jute.AppendString(sync, "/")))
}

// sendOwn sends a request of the Conn's own, for whose answer the gate waits. It may write, and
// the reading goroutine must not wait until the server reads, so another goroutine does it.
// That goroutine ends with its write, at the latest when the connection is closed.
func (c *Conn) sendOwn(frame []byte) {
	c.mu.Lock()
	c.gateWaits++
	c.mu.Unlock()
	go func() {
		c.mu.Lock()
		write := c.enqueue(c.parse(frame))
		c.mu.Unlock()
		if write {
			c.flush(true)
		}
	}()
}

// ownAnswered opens the gate if it waits for nothing any more, after n requests of the
// Conn's own were answered. Like sendOwn, it must not write itself.
func (c *Conn) ownAnswered(n int) {
	c.mu.Lock()
	c.gateWaits -= n
	open := c.gateClosed && c.gateWaits == 0 && len(c.unarmed) == 0
	c.mu.Unlock()
	if open {
		go c.openGate()
	}
}

// openGate lets the held frames through, in order, before any later frame.
func (c *Conn) openGate() {
	c.mu.Lock()
	write := c.enqueue(c.held...)
	c.held = nil
	c.gateClosed, c.served = false, true
	alive := c.alive
	if c.gateTimer != nil {
		c.gateTimer.Stop()
	}
	closed := c.closed
	c.mu.Unlock()
	if !closed {
		c.session.markAlive(alive)
		c.session.cfg.Up(c.number)
	}
	if write {
		c.flush(true)
	}
}
