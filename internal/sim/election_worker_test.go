package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// candidate is a worker in a turn.
type candidate struct {
	*electionWorld
	*worker
	path string
	said int // values so far
}

// work campaigns and leads, a few times.
func (w *electionWorld) work(p *process, j int) {
	for _, by := range w.turns(p, j, w.rounds, 3*time.Second) {
		k := &candidate{electionWorld: w, worker: by, path: w.paths[by.r.IntN(len(w.paths))]}
		op := []func(context.Context) error{k.callCampaign, k.callCampaign, k.callLead, k.callLead, k.callLeader}[by.r.IntN(5)]
		if !w.try(by, k.path, op) {
			return
		}
	}
}

// isExpected leaves out that the session has expired: calls go on in the next one.
func (w *electionWorld) isExpected(ctx context.Context, l life, err error) bool {
	if errors.Is(err, zkrecipes.ErrEvicted) {
		w.events.add("evicted")
	}
	return w.waitWorld.isExpected(ctx, l, err) && (ctx.Err() != nil || !errors.Is(err, zk.ErrSessionExpired))
}

// value returns a value that no other candidate has and this one has not yet.
func (k *candidate) value() []byte {
	k.said++
	return fmt.Appendf(nil, "%s %d.%d.%d", k.identity(), k.number, k.r.Int32(), k.said)
}

func (k *candidate) callCampaign(ctx context.Context) error {
	called := k.log.tick()
	t, err := zkrecipes.NewElection(k.c, k.path).Campaign(ctx, k.value())
	if err != nil {
		return err
	}
	held := k.elected(t, called)
	k.lead(ctx, t)
	k.resign(t, held, t.Resign)
	return nil
}

// callLead leads once or more.
func (k *candidate) callLead(ctx context.Context) error {
	terms := 0
	called := k.log.tick()
	err := zkrecipes.NewElection(k.c, k.path).Lead(ctx, k.value(), func(ctx context.Context, t *zkrecipes.Term) error {
		k.countLeading(1)
		defer k.countLeading(-1)
		if terms++; terms > 1 {
			k.events.add("led again")
		}
		defer k.resign(t, k.elected(t, called), t.Err)
		k.lead(ctx, t)
		switch k.r.IntN(4) {
		case 0:
			select {
			case <-ctx.Done():
			case <-time.After(k.timeout):
			}
		case 1:
			return t.Resign()
		}
		called = k.log.tick()
		return context.Cause(ctx) // the end of the Client ends ctx before the term
	})
	if errors.Is(err, zkrecipes.ErrLost) || err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// countLeading counts the functions of Lead that run, of which there must be one at most.
func (k *candidate) countLeading(change int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := leader{k.c, k.path}
	k.leading[at] += change
	if n := k.leading[at]; n > 1 {
		k.log.violation("%s: %d functions of Lead run in client %d", k.path, n, k.p.i)
	}
}

// elected notes a term.
func (k *candidate) elected(t *zkrecipes.Term, called int64) *held {
	k.events.add("elected")
	k.log.note("worker %d leads %s with 0x%x", k.number, k.path, int64(t.Token()))
	held, _ := k.holds.granted(k.number, called, t, judge.Event{Key: k.path, Token: int64(t.Token())})
	return held
}

// lead does what leaders do.
func (k *candidate) lead(ctx context.Context, t *zkrecipes.Term) {
	for range k.r.IntN(4) {
		switch k.r.IntN(5) {
		case 0:
			time.Sleep(time.Duration(k.r.Int64N(int64(10 * time.Millisecond))))
		case 1:
			time.Sleep(time.Duration(k.r.Int64N(int64(2 * k.timeout))))
		case 2:
			if errors.Is(k.holds.commit(k.number, k.path, t, func() bool { return false }), zkrecipes.ErrLost) {
				k.events.add("commit refused")
			}
		default:
			k.proclaim(ctx, t)
		}
	}
}

func (k *candidate) proclaim(ctx context.Context, t *zkrecipes.Term) {
	_, called := k.server.now(k.path)
	value := k.value()
	err := t.Proclaim(ctx, value)
	k.log.note("worker %d: proclaim %q: %v", k.number, value, err)
	switch n := k.server.find(k.path, sighting{t.Token(), string(value)}, called); {
	case err == nil && n < 0 && !k.operator: // else another may have been made by hand
		k.log.violation("%s: %q was proclaimed and never there", k.path, value)
	case err == nil:
		k.events.add("proclaimed")
	case errors.Is(err, zkrecipes.ErrLost) && t.Err() == nil:
		k.log.violation("%s: Proclaim returned %v, and the term goes on", k.path, err)
	}
}

// resign ends the term by end, which returns ErrLost if it was lost before.
func (k *candidate) resign(t *zkrecipes.Term, held *held, end func() error) {
	releasing := k.holds.releasing(held)
	err := end()
	k.log.note("worker %d: end of 0x%x: %v", k.number, int64(t.Token()), err)
	switch {
	case errors.Is(err, zkrecipes.ErrLost):
		k.events.add("term lost")
	case err == nil:
		k.events.add("resigned")
	}
	k.holds.released(held, releasing, err)
}

// callLeader checks that what Leader returns was so during the call.
func (k *candidate) callLeader(ctx context.Context) error {
	_, called := k.server.now(k.path)
	l, err := zkrecipes.NewElection(k.c, k.path).Leader(ctx)
	if err != nil && !errors.Is(err, zkrecipes.ErrNoLeader) { // none is the zero sighting
		return err
	}
	s := sighting{l.Token, string(l.Value)}
	if k.server.find(k.path, s, called) < 0 {
		k.log.violation("%s: Leader returned %v, which was not so since state %d", k.path, s, called)
	}
	k.events.add("seen by Leader")
	return nil
}
