package wire

// The gate holds requests back on a resumed connection (W1).
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
// The gate then also waits until the session's znodes were compared, see epoch.go. The request for
// them is the first one that a server answers, or refuses because it requires SASL: then the session
// is not up.

// armedAgain notes that an answered setWatches has armed these watches.
func (c *Conn) armedAgain(paths map[watch]struct{}) {
	c.mu.Lock()
	for w := range paths {
		delete(c.unarmed, w)
	}
	c.mu.Unlock()
	c.passGate()
}

// passGate asks for the session's znodes once the watches are armed, and opens the gate once they
// were compared. The reading goroutine calls it, and must not write itself: that could wait until
// the server reads.
func (c *Conn) passGate() {
	mayAsk := c.session.mayAsk()
	c.mu.Lock()
	c.asked = c.asked || !mayAsk
	ask := c.gateClosed && len(c.unarmed) == 0 && !c.asked
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
	return c.gateClosed && len(c.unarmed) == 0 && c.asked && !c.asking
}

// openGate lets the held frames through, in order, before any later frame. A reply that has come
// since passGate may have shown a new epoch: then the gate opens after another comparison.
func (c *Conn) openGate() {
	c.mu.Lock()
	if !c.mayOpen() {
		c.mu.Unlock()
		return
	}
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
