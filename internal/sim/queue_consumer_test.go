package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// delivery is an item that a consumer was handed, and what it did with it.
type delivery struct {
	*zkrecipes.Item
	client  string
	token   zkrecipes.Token
	claim   *claim
	acks    []ackCall
	handled bool // its handler has returned nil, which may have acked it
	nacked  bool
}

type ackCall struct {
	effect bool // with one
	err    error
}

// consume is a consumer's life: it takes items until none will come.
func (w *queueWorld) consume(p *process, j int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for w.ctx.Err() == nil {
		time.Sleep(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
		c, life := p.current()
		q := zkrecipes.NewQueue(c, w.path, w.options())
		var d *delivery
		if !w.runCancellable(r, w.path, func(ctx context.Context) {
			var err error
			if r.IntN(3) == 0 {
				err = q.Serve(ctx, func(ctx context.Context, it *zkrecipes.Item) error {
					return w.handle(w.received(it, w.observer.queue, identity(p.i, life)), p, life)
				})
				if err == nil {
					w.log.violation("worker %d.%d: Serve ended without an error", p.i, j)
					return
				}
			} else if it, taken := q.Take(ctx); taken == nil {
				d = w.received(it, w.observer.queue, identity(p.i, life))
			} else {
				err = taken
			}
			if err != nil && !w.isExpected(ctx, p, life, err) {
				w.log.violation("worker %d.%d: %v", p.i, j, err)
			}
		}) {
			return
		}
		if d != nil {
			w.hold(d)
			w.finishItem(d, p, life)
		}
	}
}

// handed notes a delivery.
func (w *queueWorld) received(it *zkrecipes.Item, from *observedQueue, client string) *delivery {
	d := &delivery{Item: it, client: client, token: it.Token()}
	w.log.note("%s has %s under 0x%x, attempt %d", client, it.ID, int64(d.token), it.Attempt)
	w.mu.Lock()
	w.deliveries = append(w.deliveries, d)
	w.mu.Unlock()
	w.observer.delivered(from, d)
	w.checkClaim(d)
	return d
}

// stands: who has an item has it by the server's word, where nobody deletes
// claims, and no session ends without its client's knowing.
func (w *queueWorld) checkClaim(d *delivery) {
	if w.forcedExpiry || d.claim == nil {
		return
	}
	w.observer.mu.Lock()
	flag, c := d.claim.flagExists, d.claim.claimExists
	w.observer.mu.Unlock()
	if err := d.Err(); err == nil && !(flag && c) {
		w.log.violation("%s has %s under 0x%x, and no claim", d.client, d.ID, int64(d.token))
	}
}

// hold does what consumers do.
func (w *queueWorld) hold(d *delivery) {
	switch how := w.intN(10); {
	case how == 0 && !w.faultsAreOver():
		time.Sleep(time.Duration(w.intN(int(2 * w.timeout))))
	case how < 5:
		time.Sleep(time.Duration(w.intN(int(20 * time.Millisecond))))
	}
	w.checkClaim(d)
}

// handle is a handler of Serve.
func (w *queueWorld) handle(d *delivery, p *process, life int) error {
	w.hold(d)
	switch w.intN(8) {
	case 0:
		w.events.add("handler failed")
		return errors.New("failed")
	case 1:
		w.events.add("handler panicked")
		panic("handler")
	case 2, 3:
		w.finishItem(d, p, life)
	}
	d.handled = true
	return nil
}

// settleItem acks an item or gives it back, as often as it takes to know.
func (w *queueWorld) finishItem(d *delivery, p *process, life int) {
	for doubt := false; w.ctx.Err() == nil; {
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		if w.intN(4) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(w.intN(int(2*time.Millisecond+8*w.latency))))
		}
		var ops []any
		how := w.intN(8)
		if how < 4 {
			ops = append(ops, &zk.CreateRequest{Path: effects + "/" + string(d.ID) + "-", Flags: zk.FlagSequence})
		}
		var err error
		switch {
		case how == 7:
			err = d.Nack(ctx)
			d.nacked = true
		case how == 3:
			err = w.callAck(ctx, d, append(ops, &zk.DeleteRequest{Path: effects + "/none", Version: -1})...)
		default:
			err = w.callAck(ctx, d, ops...)
		}
		w.log.note("%s: settled %s under 0x%x, way %d: %v", d.client, d.ID, int64(d.token), how, err)
		left := ctx.Err() != nil && errors.Is(err, ctx.Err())
		cancel()
		switch {
		case err == nil && how == 7, left && d.nacked:
			w.events.add("given back")
			return
		case err == nil:
			w.events.add("acked")
			return
		case errors.Is(err, zkrecipes.ErrReleased) && doubt:
			return
		case errors.Is(err, zkrecipes.ErrLost):
			w.events.add("lost")
			return
		case errors.Is(err, zkrecipes.ErrClosed) && p.ended(life):
			return
		case errors.Is(err, zkrecipes.ErrUncertain):
			w.events.add("ack in doubt")
			doubt = true
			if d.Err() != nil && !errors.Is(d.Err(), zkrecipes.ErrReleased) {
				return
			}
		case left:
		case how == 3 && errors.Is(err, zk.ErrNoNode):
			w.events.add("own operation failed")
			w.checkClaim(d)
		default:
			w.log.violation("%s: %v", d.client, err)
			return
		}
	}
}

func (w *queueWorld) callAck(ctx context.Context, d *delivery, ops ...any) error {
	err := d.Ack(ctx, ops...)
	d.acks = append(d.acks, ackCall{len(ops) > 0, err})
	if err == nil && len(ops) > 0 {
		w.events.add("acked with an effect")
	}
	return err
}
