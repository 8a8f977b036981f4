package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// candidate is a worker, in one life of its process.
type candidate struct {
	*electionWorld
	p      *process
	c      *zkrecipes.Client
	life   int
	worker int
	path   string
	r      *rand.Rand
	said   int // values so far
}

// term is a Term, and its hold.
type term struct {
	*zkrecipes.Term
	held *held
}

// work campaigns and leads, a few times.
func (w *electionWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		c, life := p.current()
		k := &candidate{w, p, c, life, 10*p.i + j, w.paths[r.IntN(len(w.paths))], r, 0}
		op := []func(context.Context) error{k.callCampaign, k.callCampaign, k.callLead, k.callLead, k.callLeader}[r.IntN(5)]
		if !w.runCancelable(r, k.path, func(ctx context.Context) {
			err := op(ctx)
			if err == nil {
				return
			}
			w.log.note("worker %d: %v", k.worker, err)
			if errors.Is(err, zkrecipes.ErrEvicted) {
				w.events.add("evicted")
			}
			if !w.isExpected(ctx, p, life, err) || ctx.Err() == nil && errors.Is(err, zk.ErrSessionExpired) {
				w.log.violation("worker %d: %v", k.worker, err)
			}
		}) {
			return
		}
	}
}

// value returns a value that no other candidate has and this one has not yet.
func (k *candidate) value() []byte {
	k.said++
	return fmt.Appendf(nil, "%s %d.%d.%d", identity(k.p.i, k.life), k.worker, k.r.Int32(), k.said)
}

func (k *candidate) callCampaign(ctx context.Context) error {
	called := k.log.tick()
	t, err := zkrecipes.NewElection(k.c, k.path).Campaign(ctx, k.value())
	if err != nil {
		return err
	}
	mine := k.elected(t, called)
	k.lead(ctx, mine)
	k.resign(mine, t.Resign)
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
		mine := k.elected(t, called)
		defer k.resign(mine, t.Err)
		k.lead(ctx, mine)
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
	if k.leading[k.c] == nil {
		k.leading[k.c] = leadCounts{}
	}
	k.leading[k.c][k.path] += change
	if n := k.leading[k.c][k.path]; n > 1 {
		k.log.violation("%s: %d functions of Lead run in client %d", k.path, n, k.p.i)
	}
}

// elected notes a term.
func (k *candidate) elected(t *zkrecipes.Term, called int64) *term {
	k.events.add("elected")
	k.log.note("worker %d leads %s with 0x%x", k.worker, k.path, int64(t.Token()))
	held, _ := k.holds.granted(k.worker, called, t, judge.Event{Key: k.path, Token: int64(t.Token())})
	return &term{t, held}
}

// lead does what leaders do.
func (k *candidate) lead(ctx context.Context, t *term) {
	for range k.r.IntN(4) {
		switch k.r.IntN(5) {
		case 0:
			time.Sleep(time.Duration(k.r.Int64N(int64(10 * time.Millisecond))))
		case 1:
			time.Sleep(time.Duration(k.r.Int64N(int64(2 * k.timeout))))
		case 2:
			k.commit(t)
		default:
			k.proclaim(ctx, t)
		}
	}
}

func (k *candidate) proclaim(ctx context.Context, t *term) {
	called := k.server.now(k.path)
	value := k.value()
	err := t.Proclaim(ctx, value)
	k.log.note("worker %d: proclaim %q: %v", k.worker, value, err)
	switch _, was := k.server.find(k.path, sighting{t.Token(), string(value)}, called); {
	case err == nil && !was && !k.operator: // else another may have been made by hand
		k.log.violation("%s: %q was proclaimed and never there", k.path, value)
	case err == nil:
		k.events.add("proclaimed")
	case errors.Is(err, zkrecipes.ErrLost) && t.Err() == nil:
		k.log.violation("%s: Proclaim returned %v, and the term goes on", k.path, err)
	}
}

// commit writes with Lease.Commit, which must fail unless the worker leads.
func (k *candidate) commit(t *term) {
	data := "/data-" + k.path[strings.LastIndexByte(k.path, '/')+1:]
	ctx, cancel := context.WithTimeout(k.ctx, 2*k.timeout)
	defer cancel()
	rs, err := t.Commit(ctx, zkrecipes.OpSet(data, strconv.AppendInt(nil, int64(t.Token()), 16), -1))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		_, err = t.Commit(ctx, zkrecipes.OpCreate(data, nil, 0, nil))
	case err == nil:
		k.holds.committed(k.worker, k.path, t.Token(), false, rs[0].Stat)
	case errors.Is(err, zkrecipes.ErrLost):
		k.events.add("commit refused")
	}
	k.log.note("worker %d: commit under 0x%x: %v", k.worker, int64(t.Token()), err)
}

// resign ends the term by end, which returns ErrLost if it was lost before.
func (k *candidate) resign(t *term, end func() error) {
	releasing := k.holds.releasing(t.held)
	err := end()
	k.log.note("worker %d: end of 0x%x: %v", k.worker, int64(t.Token()), err)
	switch {
	case errors.Is(err, zkrecipes.ErrLost):
		k.events.add("term lost")
	case err == nil:
		k.events.add("resigned")
	}
	k.holds.released(t.held, releasing, err)
}

// callLeader checks that what Leader returns was so during the call.
func (k *candidate) callLeader(ctx context.Context) error {
	called := k.server.now(k.path)
	l, err := zkrecipes.NewElection(k.c, k.path).Leader(ctx)
	if err != nil && !errors.Is(err, zkrecipes.ErrNoLeader) { // none is the zero sighting
		return err
	}
	s := sighting{l.Token, string(l.Value)}
	if _, ok := k.server.find(k.path, s, called); !ok {
		k.log.violation("%s: Leader returned %v, which was not so since state %d", k.path, s, called)
	}
	k.events.add("seen by Leader")
	return nil
}
