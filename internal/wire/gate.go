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
// a change that a lagging follower does not have yet.

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

// allArmed opens the gate, or sends the sync that must be answered first. Both
// write, and the reading goroutine must not wait until the server reads, so
// another goroutine does it. That goroutine ends with its write, at the latest
// when the connection is closed.
func (c *Conn) allArmed() {
	if !c.session.cfg.Leases() {
		go c.openGate()
		return
	}
	sync := jute.AppendInt32(jute.AppendInt32(nil, xidSync), jute.OpSync)
	sync = jute.Frame(jute.AppendString(sync, "/"))
	go func() {
		c.mu.Lock()
		write := c.enqueue(c.parse(sync))
		c.mu.Unlock()
		if write {
			c.flush(true)
		}
	}()
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
