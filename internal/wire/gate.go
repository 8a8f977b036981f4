package wire

import "github.com/zkrecipes/zkrecipes/internal/jute"

// The gate. What go-zookeeper has queued goes out on the next connection
// before its setWatches, and what a reply then sets races the re-arming. So on
// a resumed connection every frame but setWatches, ping and close is held
// until each watch that was armed is armed again and, where a lease is out,
// until a sync has been answered: events advance no zxid, so the holder may
// have been granted on something that a lagging follower does not have yet.

// cover notes watches that an answered setWatches has armed.
func (c *Conn) cover(paths map[watch]struct{}) {
	c.mu.Lock()
	shut := len(c.rearm) > 0
	for w := range paths {
		delete(c.rearm, w)
	}
	done := shut && len(c.rearm) == 0
	c.mu.Unlock()
	if done {
		c.rearmed()
	}
}

// rearmed goes on once all watches are armed. What follows writes, and the
// reading goroutine must not wait for the server to read. The goroutine ends
// with its write, at the latest when the connection is closed.
func (c *Conn) rearmed() {
	if !c.session.cfg.Leases() {
		go c.open()
		return
	}
	sync := jute.AppendInt32(jute.AppendInt32(nil, xidSync), jute.OpSync)
	sync = jute.Frame(jute.AppendString(sync, "/"))
	go func() {
		c.mu.Lock()
		write := c.put(c.parse(sync))
		c.mu.Unlock()
		if write {
			c.flush(true)
		}
	}()
}

// open lets the held frames through, in order, before any later one.
func (c *Conn) open() {
	c.mu.Lock()
	write := c.put(c.waiting...)
	c.waiting = nil
	c.held = false
	if c.gateTimer != nil {
		c.gateTimer.Stop()
	}
	closed := c.closed
	c.mu.Unlock()
	if !closed {
		c.session.cfg.Up(c.number)
	}
	if write {
		c.flush(true)
	}
}
