package zkkrb5

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

var errClosed = errors.New("the credentials are closed")

// ticket is a ticket with its key.
type ticket struct {
	messages.Ticket
	key          *types.EncryptionKey // a pointer, which fmt does not follow here
	since, until time.Time            // without monotonic clocks, which stand still while a machine sleeps
}

// newTicket returns a ticket that the KDC has just given. Its times are turned into those of the local
// clock, which may differ from the KDC's.
func newTicket(from messages.Ticket, part messages.EncKDCRepPart) ticket {
	t := ticket{Ticket: from, key: &part.Key, since: time.Now().Round(0), until: part.EndTime}
	if !part.StartTime.IsZero() {
		t.until = t.since.Add(part.EndTime.Sub(part.StartTime))
	}
	return t
}

// isValid reports whether a server accepts the ticket.
func (t ticket) isValid() bool { return time.Now().Before(t.until) }

// renewal returns when it is time to get another one.
func (t ticket) renewal() time.Time { return t.since.Add(t.until.Sub(t.since) * 5 / 6) }

// isFresh reports whether it is too early to get another one.
func (t ticket) isFresh() bool { return time.Now().Before(t.renewal()) }

// ticketFor returns a ticket for a service. It asks the KDC if there is none that is fresh, and
// waits for the answer if there is none that is valid, until ctx ends. What the KDC then answers is
// kept for the next call.
func (c *Credentials) ticketFor(ctx context.Context, service string) (ticket, error) {
	c.mu.Lock()
	t, closed := c.services[service], c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return ticket{}, errClosed
	case t.isFresh():
		return t, nil
	}
	asked := c.flights.DoChan(service, func() (any, error) {
		if !c.begin() {
			return ticket{}, errClosed
		}
		defer c.work.Done()
		return c.ask(service)
	})
	if t.isValid() { // for the last sixth of its life: a KDC that hangs must not use up ctx
		return t, nil
	}
	select {
	case answer := <-asked:
		return answer.Val.(ticket), answer.Err
	case <-ctx.Done():
		return ticket{}, fmt.Errorf("the KDC has not answered yet: %w", ctx.Err())
	}
}

// begin counts a goroutine that Close waits for. It returns false once c is closed.
func (c *Credentials) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Add(1)
	}
	return !c.closed
}

// ask asks the KDC for a ticket for a service, and logs in before if need be.
func (c *Credentials) ask(service string) (ticket, error) {
	c.kdc.Lock()
	defer c.kdc.Unlock()
	c.mu.Lock()
	tgt, closed := c.tgt, c.closed
	c.mu.Unlock()
	if closed { // Close waits for the request under way, and not for those that wait for it
		return ticket{}, errClosed
	}
	if !tgt.isFresh() {
		next, err := c.logIn()
		switch {
		case err == nil:
			tgt = next
		case !tgt.isValid():
			return ticket{}, fmt.Errorf("log in as %s: %w", c.principal(), explain(err))
		}
	}
	t, err := c.grant(tgt, service)
	if err != nil {
		return ticket{}, explain(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tgt, c.services[service] = tgt, t
	if c.cfg.CCache == "" && !c.renewing && !c.closed { // the ticket of a cache is renewed by others
		c.renewing = true
		c.work.Go(c.renew)
	}
	return t, nil
}

// renew gets new tickets in time, until Close. After a failure it tries again after a pause, which
// doubles with each failure.
func (c *Credentials) renew() {
	const shortest, longest = time.Second, time.Minute
	pause := shortest
	for wait := time.Until(c.nextRenewal()); ; {
		select {
		case <-time.After(max(wait, shortest)):
		case <-c.done:
			return
		}
		if c.renewAll() {
			pause, wait = shortest, time.Until(c.nextRenewal())
			continue
		}
		wait = pause
		pause = min(2*pause, longest)
	}
}

// nextRenewal returns when the first ticket is no longer fresh.
func (c *Credentials) nextRenewal() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.tgt.renewal()
	for _, t := range c.services {
		if r := t.renewal(); r.Before(next) {
			next = r
		}
	}
	return next
}

// renewAll renews the tickets that are not fresh, and reports whether it could. It forgets those that
// have expired without a renewal: nobody may need them any more.
func (c *Credentials) renewAll() bool {
	c.mu.Lock()
	maps.DeleteFunc(c.services, func(_ string, t ticket) bool { return !t.isValid() })
	var due []string
	for service, t := range c.services {
		if !t.isFresh() {
			due = append(due, service)
		}
	}
	tgt := c.tgt
	c.mu.Unlock()
	slices.Sort(due)
	renewed := true
	for _, service := range due {
		if _, err := c.ask(service); err != nil {
			renewed = false // the KDC may know the other services
		}
	}
	if len(due) > 0 || tgt.isFresh() {
		return renewed
	}
	c.kdc.Lock()
	defer c.kdc.Unlock()
	tgt, err := c.logIn()
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tgt = tgt
	return true
}
