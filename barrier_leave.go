package zkrecipes

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// How a member of an opened round leaves: in the background, a little later, so that the
// others learn sooner that the round is open.

// maxLinger bounds how long a member stays after Wait has returned.
const maxLinger = 100 * time.Millisecond

// linger returns for how long a member stays: the longer the more members there are to be
// told, and the slower the servers are. A reply is a lot more work than an event.
func (a *participant) linger() time.Duration {
	return min(time.Duration(a.n)*a.took/10, maxLinger)
}

// leaver is a member that is about to leave.
type leaver struct {
	member *place
	stay   time.Duration // at most
	now    chan struct{} // closed when it has to leave at once
	sent   chan struct{} // closed when the leave was given to a connection, or never will be
}

// noteLeaver notes that the member p is about to leave, see lingerAndLeave. All members of a
// round are woken together, and the leaves of those that are woken first delay the events,
// and the reads, of the others. So it leaves a little later. It leaves at once where another
// member or a Wait of this Client is there, so that the Client's next round is not held up,
// and before the Client is closed.
func (a *participant) noteLeaver(p *place) {
	c, l := a.line.c, &leaver{member: p, stay: a.linger(), now: make(chan struct{}), sent: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leavers[a.line.path] == nil {
		c.leavers[a.line.path] = map[*leaver]struct{}{}
	}
	c.leavers[a.line.path][l] = struct{}{}
	if c.waits[a.line.path] > 1 { // this one's, and another
		l.stay = 0
	}
	a.leaver = l
}

// lingerAndLeave deletes the member that noteLeaver has noted, if there is one. It blocks
// until that is done.
func (a *participant) lingerAndLeave() {
	c, l := a.line.c, a.leaver
	if l == nil {
		return
	}
	if l.stay > 0 {
		over := time.NewTimer(l.stay)
		defer over.Stop()
		select {
		case <-over.C:
		case <-l.now:
		case <-c.closing.Done():
		case <-l.member.s.Over():
		}
	}
	a.leave(l.member, l.sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leavers[a.line.path], l)
	if len(c.leavers[a.line.path]) == 0 {
		delete(c.leavers, a.line.path)
	}
}

// noteWaits adds to the number of participants that this Client has on a path.
func (c *Client) noteWaits(path string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits[path] += n; c.waits[path] == 0 {
		delete(c.waits, path)
	}
}

// leaveNow makes the members of the Client's earlier rounds leave that path. It returns
// when their leaves were given to the connection. Mostly a server carries them out before
// a join that follows, which saves the join a refusal.
func (c *Client) leaveNow(ctx context.Context, path string) error {
	c.mu.Lock()
	members := c.leavers[path]
	delete(c.leavers, path)
	c.mu.Unlock()
	for l := range members {
		close(l.now)
	}
	for l := range members {
		if err := c.awaitEnd(ctx, l.sent); err != nil {
			return err
		}
	}
	return nil
}

// leave deletes the member. The one that sees that it was the last deletes the round.
// It closes sent, if that is not nil, when the transaction was given to a connection.
func (a *participant) leave(p *place, sent chan<- struct{}) {
	round := &zk.SetDataRequest{Path: a.round.abs(), Data: []byte{}, Version: -1}
	t, err := p.s.Begin(p.s.Lifetime(), &zk.DeleteRequest{Path: p.path, Version: -1}, round)
	if sent != nil {
		close(sent)
	}
	last := false
	if err == nil {
		rs, _, failed := t.Wait(p.s.Lifetime())
		err = failed
		last = err == nil && rs.Stat(round).NumChildren == 1
	}
	if err != nil { // then it is not known whether it was the last
		p.leave(false)
	}
	if err != nil || last {
		_ = a.deleteRound(p.s.Lifetime(), p.s, 1, a.left) // else the next to come does it
	}
}
