package sim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// delivery is an item that was delivered to a consumer, and what it did with it.
type delivery struct {
	*zkrecipes.Item
	life    // of the consumer
	token   zkrecipes.Token
	from    *observedQueue
	claim   *claim
	acks    []ackCall
	served  bool   // by Serve
	failed  string // how the handler's error begins
	handled bool   // the handler has returned nil, so Serve may have acked it
	nacked  bool
}

type ackCall struct {
	effect bool // with operations
	moves  bool // an AckPut
	err    error
}

// consume takes items until no more will come.
func (w *queueWorld) consume(p *process, j int) {
	for _, by := range w.turns(p, j, math.MaxInt, 500*time.Millisecond) {
		q := zkrecipes.NewQueue(by.c, w.path, w.options())
		var ds []*delivery
		if !w.try(by, w.path, func(ctx context.Context) (err error) {
			if by.r.IntN(4) == 0 {
				var d *delivery
				if d, err = w.takeElsewhere(ctx, by); d != nil {
					ds = append(ds, d)
				}
			} else if by.r.IntN(3) == 0 {
				err = q.Serve(ctx, func(ctx context.Context, it *zkrecipes.Item) error {
					d := w.received(it, w.observer.queue, by.life)
					w.observer.serves(d, "")
					return w.handle(d)
				})
				if err == nil && ctx.Err() == nil {
					w.log.violation("worker %d.%d: Serve returned nil", p.i, j)
				}
			} else {
				var items []*zkrecipes.Item
				items, err = w.take(ctx, by.r, q)
				for _, it := range items {
					ds = append(ds, w.received(it, w.observer.queue, by.life))
				}
			}
			return err
		}) || w.ctx.Err() != nil {
			return
		}
		for _, d := range ds {
			w.hold(d)
			w.finishItem(d)
		}
	}
}

// take takes one item, or a few, or tries to.
func (w *queueWorld) take(ctx context.Context, r *rand.Rand, q *zkrecipes.Queue) (items []*zkrecipes.Item, err error) {
	switch r.IntN(5) {
	case 0:
		n := 2 + r.IntN(4)
		if items, err = q.TakeN(ctx, n); len(items) > 1 {
			w.events.add("several items taken")
		}
		if err == nil && (len(items) == 0 || len(items) > n) {
			w.log.violation("TakeN(%d) returned %d items", n, len(items))
		}
		return items, err
	case 1:
		it, err := q.TryTake(ctx)
		if errors.Is(err, zkrecipes.ErrEmpty) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		w.events.add("item taken by TryTake")
		return []*zkrecipes.Item{it}, nil
	default:
		it, err := q.Take(ctx)
		if err != nil {
			return nil, err
		}
		return []*zkrecipes.Item{it}, nil
	}
}

// takeElsewhere takes an item of the next queue, or a dead letter, if there is one soon.
func (w *queueWorld) takeElsewhere(ctx context.Context, by *worker) (*delivery, error) {
	other, from := zkrecipes.NewQueue(by.c, w.path, nil).DeadLetters(), w.observer.deadLetters
	if by.r.IntN(2) == 0 {
		other, from = w.next(by.c), w.observer.next
	}
	soon, cancel := context.WithTimeout(ctx, time.Duration(by.r.Int64N(int64(w.timeout))))
	defer cancel()
	it, err := other.Take(soon)
	switch {
	case err == nil:
		return w.received(it, from, by.life), nil
	case errors.Is(err, context.DeadlineExceeded): // which only soon has
		return nil, nil
	}
	return nil, err
}

// received notes a delivery.
func (w *queueWorld) received(it *zkrecipes.Item, from *observedQueue, by life) *delivery {
	d := &delivery{Item: it, life: by, from: from, token: it.Token()}
	w.log.note("%s has %s under 0x%x, attempt %d", d.identity(), it.ID, int64(d.token), it.Attempt)
	w.mu.Lock()
	w.deliveries = append(w.deliveries, d)
	w.mu.Unlock()
	w.observer.delivered(from, d)
	w.checkClaim(d)
	return d
}

// checkClaim checks that the server has the claim of an item that a consumer
// believes to have. It does so only if no operator deletes claims and the server
// expires no session of a live client.
func (w *queueWorld) checkClaim(d *delivery) {
	if w.forcedExpiry || d.claim == nil {
		return
	}
	w.observer.mu.Lock()
	flag, c, buried := d.claim.flagExists, d.claim.claimExists, d.claim.item.buried
	w.observer.mu.Unlock()
	if err := d.Err(); err == nil && !(flag && c) && !buried {
		w.log.violation("%s has %s under 0x%x without a claim", d.identity(), d.ID, int64(d.token))
	}
}

// hold works on an item for a while.
func (w *queueWorld) hold(d *delivery) {
	switch how := w.intN(10); {
	case how == 0 && !w.faultsAreOver():
		time.Sleep(time.Duration(w.intN(int(2 * w.timeout))))
	case how < 5:
		time.Sleep(time.Duration(w.intN(int(20 * time.Millisecond))))
	}
	w.checkClaim(d)
}

// handle is the handler given to Serve.
func (w *queueWorld) handle(d *delivery) error {
	w.hold(d)
	switch w.intN(8) {
	case 0:
		w.events.add("handler failed")
		w.observer.serves(d, "failed")
		return errors.New("failed")
	case 1:
		w.events.add("handler panicked")
		w.observer.serves(d, "handler panicked")
		panic("handler")
	case 2, 3:
		w.finishItem(d)
	}
	d.handled = true
	return nil
}

// Ways to finish an item, beyond a plain Ack.
const (
	ackThatFails = 3 // with an operation that fails
	ackEffect    = 4 // below this, Ack has an operation
	nackItem     = 7
	moveItem     = 8 // AckPut
	finishWays   = 9
)

// finishItem acks or nacks an item, and tries again until the outcome is known.
func (w *queueWorld) finishItem(d *delivery) {
	for uncertain := false; w.ctx.Err() == nil; {
		way, canceled, err := w.tryFinish(d)
		switch {
		case err == nil && way == nackItem, canceled && d.nacked:
			w.events.add("nacked")
			return
		case err == nil:
			w.events.add("acked")
			return
		case errors.Is(err, zkrecipes.ErrReleased) && uncertain:
			return
		case errors.Is(err, zkrecipes.ErrLost):
			w.events.add("lost")
			return
		case errors.Is(err, zkrecipes.ErrClosed) && d.ended():
			return
		case errors.Is(err, zkrecipes.ErrUncertain):
			w.events.add("ack uncertain")
			uncertain = true
			if d.Err() != nil && !errors.Is(d.Err(), zkrecipes.ErrReleased) {
				return
			}
		case canceled:
		case way == ackThatFails && errors.Is(err, zk.ErrNoNode):
			w.events.add("caller's operation failed")
			w.checkClaim(d)
		default:
			w.log.violation("%s: %v", d.identity(), err)
			return
		}
	}
}

// tryFinish acks or nacks an item in a random way. It reports the way, and whether
// the call failed because its context was canceled.
func (w *queueWorld) tryFinish(d *delivery) (way int, canceled bool, err error) {
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	if w.intN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.intN(int(2*time.Millisecond+8*w.latency))))
	}
	defer cancel()
	var ops []zkrecipes.Op
	way = w.intN(finishWays)
	if d.from != w.observer.queue { // no operations, which are judged by the queue's items
		way = nackItem - w.intN(2)
	}
	if way < ackEffect {
		ops = append(ops, zkrecipes.OpCreate(effects+"/"+string(d.ID)+"-", nil, zk.FlagSequence, nil))
	}
	switch way {
	case nackItem:
		err = d.Nack(ctx)
		d.nacked = true
	case moveItem:
		_, err = d.AckPut(ctx, w.next(d.c), [][]byte{[]byte("next:" + string(d.ID))})
		d.acks = append(d.acks, ackCall{moves: true, err: err})
	case ackThatFails:
		err = w.callAck(ctx, d, append(ops, zkrecipes.OpDelete(effects+"/none", -1))...)
	default:
		err = w.callAck(ctx, d, ops...)
	}
	w.log.note("%s: finished %s under 0x%x, way %d: %v", d.identity(), d.ID, int64(d.token), way, err)
	return way, ctx.Err() != nil && errors.Is(err, ctx.Err()), err
}

// callAck acks an item, and records the call for the judge.
func (w *queueWorld) callAck(ctx context.Context, d *delivery, ops ...zkrecipes.Op) error {
	err := d.Ack(ctx, ops...)
	d.acks = append(d.acks, ackCall{effect: len(ops) > 0, err: err})
	if err == nil && len(ops) > 0 {
		w.events.add("acked with an effect")
	}
	return err
}
