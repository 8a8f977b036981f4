package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// put is a call of Put or PutAll, as its caller saw it.
type put struct {
	data        []string
	called, ret int64
	ids         []zkrecipes.ItemID
	err         error
}

// delivery is an item that a consumer was handed, and what it did with it.
type delivery struct {
	*zkrecipes.Item
	client  string
	token   zkrecipes.Token
	claim   *claim
	acks    []ack
	handled bool // its handler has returned nil, which may have acked it
	nacked  bool
}

type ack struct {
	effect bool // with one
	err    error
}

func (w *queueWorld) work(p *process, j int) {
	defer w.gone()
	if w.roles[p.i*w.workers+j] == "consumer" {
		w.consume(p, j)
		return
	}
	w.produce(p, j)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.producers--
}

// produce is a producer's life.
func (w *queueWorld) produce(p *process, j int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for round := range 2 * w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		c, life := p.alive()
		opts := w.options()
		if !w.mixed || r.IntN(2) == 0 {
			opts.MaxLen = w.maxLen
		}
		q := zkrecipes.NewQueue(c, w.path, opts)
		a := &put{data: []string{fmt.Sprintf("%d.%d.%d", p.i, j, round)}}
		if r.IntN(4) == 0 {
			a.data = append(a.data, a.data[0]+"+", a.data[0]+"++")[:2+r.IntN(2)]
		}
		tooMany := opts.MaxLen > 0 && len(a.data) > opts.MaxLen
		if !w.wait(r, w.path, func(ctx context.Context) {
			w.put(ctx, q, a)
			switch {
			case tooMany && a.err == nil:
				w.h.violation("worker %d.%d: put more than there may be", p.i, j)
			case tooMany, a.err == nil, errors.Is(a.err, zkrecipes.ErrUncertain):
			case !w.mayFail(ctx, p, life, a.err):
				w.h.violation("worker %d.%d: %v", p.i, j, a.err)
			}
			if r.IntN(8) == 0 {
				w.list(ctx, q, p, life)
			}
		}) {
			return
		}
	}
}

func (w *queueWorld) put(ctx context.Context, q *zkrecipes.Queue, a *put) {
	w.mu.Lock()
	w.puts = append(w.puts, a)
	w.mu.Unlock()
	a.called = w.h.now()
	if len(a.data) == 1 {
		var id zkrecipes.ItemID
		if id, a.err = q.Put(ctx, []byte(a.data[0])); id != "" {
			a.ids = append(a.ids, id)
		}
	} else {
		var data [][]byte
		for _, d := range a.data {
			data = append(data, []byte(d))
		}
		a.ids, a.err = q.PutAll(ctx, data...)
	}
	a.ret = w.h.now()
	w.h.note("put %q since %d: %v %v", a.data, a.called, a.ids, a.err)
	switch {
	case errors.Is(a.err, zkrecipes.ErrUncertain):
		w.befell.add("put in doubt")
	case a.err != nil && ctx.Err() == nil:
		w.befell.add("put refused")
	case len(a.data) > 1:
		w.befell.add("batch put")
	default:
		w.befell.add("put")
	}
}

// list shows items, which come in the order in which they were put.
func (w *queueWorld) list(ctx context.Context, q *zkrecipes.Queue, p *process, life int) {
	var shown []string
	for e, err := range q.Items(ctx) {
		if err == nil {
			shown = append(shown, string(e.ID))
		} else if !w.mayFail(ctx, p, life, err) {
			w.h.violation("list: %v", err)
		}
	}
	w.befell.add("listed")
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	at := 0
	for _, id := range shown {
		i := slices.IndexFunc(w.seen.queue.order[at:], func(it *item) bool { return it.id == id })
		if i < 0 && w.seen.wiped == 0 {
			w.h.violation("%v were shown, which is not the order in which they were put", shown)
			return
		}
		at += i + 1
	}
}

// consume is a consumer's life: it takes items until none will come.
func (w *queueWorld) consume(p *process, j int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for w.ctx.Err() == nil {
		time.Sleep(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
		c, life := p.alive()
		q := zkrecipes.NewQueue(c, w.path, w.options())
		var d *delivery
		if !w.wait(r, w.path, func(ctx context.Context) {
			var err error
			if r.IntN(3) == 0 {
				err = q.Serve(ctx, func(ctx context.Context, it *zkrecipes.Item) error {
					return w.handle(w.handed(it, w.seen.queue, identity(p.i, life)), p, life)
				})
				if err == nil {
					w.h.violation("worker %d.%d: Serve ended without an error", p.i, j)
					return
				}
			} else if it, taken := q.Take(ctx); taken == nil {
				d = w.handed(it, w.seen.queue, identity(p.i, life))
			} else {
				err = taken
			}
			if err != nil && !w.mayFail(ctx, p, life, err) {
				w.h.violation("worker %d.%d: %v", p.i, j, err)
			}
		}) {
			return
		}
		if d != nil {
			w.hold(d)
			w.settleItem(d, p, life)
		}
	}
}

// handed notes a delivery.
func (w *queueWorld) handed(it *zkrecipes.Item, from *shelf, client string) *delivery {
	d := &delivery{Item: it, client: client, token: it.Token()}
	w.h.note("%s has %s under 0x%x, attempt %d", client, it.ID, int64(d.token), it.Attempt)
	w.mu.Lock()
	w.deliveries = append(w.deliveries, d)
	w.mu.Unlock()
	w.seen.told(from, d)
	w.stands(d)
	return d
}

// stands: who has an item has it by the server's word, where nobody deletes
// claims, and no session ends without its client's knowing.
func (w *queueWorld) stands(d *delivery) {
	if w.forced || d.claim == nil {
		return
	}
	w.seen.mu.Lock()
	flag, c := d.claim.flag, d.claim.c
	w.seen.mu.Unlock()
	if err := d.Err(); err == nil && !(flag && c) {
		w.h.violation("%s has %s under 0x%x, and no claim", d.client, d.ID, int64(d.token))
	}
}

// hold does what consumers do.
func (w *queueWorld) hold(d *delivery) {
	switch how := w.chance(10); {
	case how == 0 && !w.isCalm():
		time.Sleep(time.Duration(w.chance(int(2 * w.timeout))))
	case how < 5:
		time.Sleep(time.Duration(w.chance(int(20 * time.Millisecond))))
	}
	w.stands(d)
}

// handle is a handler of Serve.
func (w *queueWorld) handle(d *delivery, p *process, life int) error {
	w.hold(d)
	switch w.chance(8) {
	case 0:
		w.befell.add("handler failed")
		return errors.New("failed")
	case 1:
		w.befell.add("handler panicked")
		panic("handler")
	case 2, 3:
		w.settleItem(d, p, life)
	}
	d.handled = true
	return nil
}

// settleItem acks an item or gives it back, as often as it takes to know.
func (w *queueWorld) settleItem(d *delivery, p *process, life int) {
	for doubt := false; w.ctx.Err() == nil; {
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		if w.chance(4) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(w.chance(int(2*time.Millisecond+8*w.latency))))
		}
		var ops []any
		how := w.chance(8)
		if how < 4 {
			ops = append(ops, &zk.CreateRequest{Path: effects + "/" + string(d.ID) + "-", Flags: zk.FlagSequence})
		}
		var err error
		switch {
		case how == 7:
			err = d.Nack(ctx)
			d.nacked = true
		case how == 3:
			err = w.ack(ctx, d, append(ops, &zk.DeleteRequest{Path: effects + "/none", Version: -1})...)
		default:
			err = w.ack(ctx, d, ops...)
		}
		w.h.note("%s: settled %s under 0x%x, way %d: %v", d.client, d.ID, int64(d.token), how, err)
		left := ctx.Err() != nil && errors.Is(err, ctx.Err())
		cancel()
		switch {
		case err == nil && how == 7, left && d.nacked:
			w.befell.add("given back")
			return
		case err == nil:
			w.befell.add("acked")
			return
		case errors.Is(err, zkrecipes.ErrReleased) && doubt:
			return
		case errors.Is(err, zkrecipes.ErrLost):
			w.befell.add("lost")
			return
		case errors.Is(err, zkrecipes.ErrClosed) && p.ended(life):
			return
		case errors.Is(err, zkrecipes.ErrUncertain):
			w.befell.add("ack in doubt")
			doubt = true
			if d.Err() != nil && !errors.Is(d.Err(), zkrecipes.ErrReleased) {
				return
			}
		case left:
		case how == 3 && errors.Is(err, zk.ErrNoNode):
			w.befell.add("own operation failed")
			w.stands(d)
		default:
			w.h.violation("%s: %v", d.client, err)
			return
		}
	}
}

func (w *queueWorld) ack(ctx context.Context, d *delivery, ops ...any) error {
	err := d.Ack(ctx, ops...)
	d.acks = append(d.acks, ack{len(ops) > 0, err})
	if err == nil && len(ops) > 0 {
		w.befell.add("acked with an effect")
	}
	return err
}
