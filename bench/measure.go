package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Machines are noisy, and more so over minutes. So the sides of a scenario take turns
// for many rounds, each with a block of a second or less. Each round gives a ratio of
// two times that were measured one after the other, and the result is the median of
// these ratios.

// side is one of the implementations that are compared.
type side struct {
	name  string
	tally *tally
	// cycle is one acquisition and its release. Each worker calls it repeatedly, in
	// its own goroutine.
	cycle func(worker int) error
}

// The names of the sides.
const (
	raw    = "raw"
	theirs = "zk.Lock"
	ours   = "zkrecipes"
)

// scenario is one situation that is measured.
type scenario struct {
	name    string
	workers int // goroutines that call cycle
	lead    int // cycles before a block, which are not measured: they fill the line
	block   int // cycles in a block, by all workers together
	rounds  int
	open    func(fx *fixture) ([]side, error) // opens the sessions
	peers   peerLock                          // what peers do meanwhile
}

// row is the result of one side in a scenario.
type row struct {
	Scenario string
	Side     string
	Workers  int
	Latency  *hdrhistogram.Histogram // of cycles, in nanoseconds

	Peer   bool            // see peers.go
	cycles int             // that counts and allocs are about
	blocks []time.Duration // the time of each round's; 0: none
	block  int             // cycles in each
	counts counts
	allocs uint64
}

// limit bounds one scenario.
const limit = 10 * time.Minute

// measure runs a scenario and returns a row for each side.
func (l *lab) measure(ctx context.Context, sc scenario) ([]*row, error) {
	fx := l.fixture(ctx, limit)
	defer fx.close()
	sides, err := sc.open(fx)
	if err != nil {
		return nil, err
	}
	var rows []*row
	var runs []func() (block, error)
	for _, s := range sides {
		rows = append(rows, newRow(sc, s.name))
		runs = append(runs, func() (block, error) { return s.run(sc) })
	}
	peers := l.peersOf(sc)
	for _, p := range peers {
		if err := p.open(fx, sc, strings.Join(fx.servers, ",")); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		w := newRow(sc, p.name)
		w.Peer = true
		rows = append(rows, w)
		runs = append(runs, func() (block, error) { return p.run(fx, sc) })
	}
	if err := takeTurns(sc, rows, runs); err != nil {
		return nil, err
	}
	for i, p := range peers {
		w := rows[len(sides)+i]
		w.cycles = sc.block
		if w.counts, err = p.count(fx, sc); err != nil {
			return nil, fmt.Errorf("%s, counting: %w", p.name, err)
		}
	}
	return rows, nil
}

func newRow(sc scenario, side string) *row {
	return &row{
		Scenario: sc.name, Side: side, Workers: sc.workers, block: sc.block,
		Latency: hdrhistogram.New(1000, int64(time.Minute), 3),
	}
}

// peerRounds: peers take part in each third round only, because some are slow, and
// nothing is claimed about them.
const peerRounds = 3

// takeTurns runs all blocks of a scenario.
func takeTurns(sc scenario, rows []*row, runs []func() (block, error)) error {
	for n := range 1 + sc.rounds {
		for i := range runs {
			i = (i + n) % len(runs) // no side is always the first
			if rows[i].Peer && n%peerRounds != 0 {
				rows[i].blocks = append(rows[i].blocks, 0)
				continue
			}
			b, err := runs[i]()
			// The first block creates lines and grows lists and buffers: not counted.
			if err == nil && n > 0 {
				err = rows[i].add(b)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", rows[i].Side, err)
			}
		}
	}
	return nil
}

// block is what a side has done in one block.
type block struct {
	time   time.Duration
	cycles []time.Duration // the time of each
	counts counts
	allocs uint64
}

// moment is the beginning or the end of a block.
type moment struct {
	at     time.Time
	counts counts
	allocs uint64
}

func (s side) moment() moment { return moment{time.Now(), s.tally.read(), mallocs()} }

// run runs one block. Workers take turns, one for each cycle. A block with a lead is
// measured from one turn to another, while the line is full: it begins with the first
// turn after the lead, and ends with the first that is no part of it.
func (s side) run(sc scenario) (block, error) {
	b := block{cycles: make([]time.Duration, sc.block)}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var began, ended moment // each written by the worker that has this turn
	worker := func(i int) {
		for failed.Load() == nil {
			turn := int(next.Add(1)) - 1 - sc.lead
			if turn == 0 && sc.lead > 0 {
				began = s.moment()
			}
			if turn == sc.block {
				ended = s.moment()
			}
			if turn >= sc.block {
				return
			}
			at := time.Now()
			if err := s.cycle(i); err != nil {
				failed.Store(&err)
				return
			}
			if turn >= 0 {
				b.cycles[turn] = time.Since(at)
			}
		}
	}
	runtime.GC() // collect the garbage of the other sides
	if sc.lead == 0 {
		began = s.moment() // before any worker sends something
	}
	var wg sync.WaitGroup
	for i := range sc.workers {
		wg.Go(func() { worker(i) })
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return b, *err
	}
	if sc.lead == 0 {
		ended = s.moment() // when all have ended
	}
	b.time, b.counts, b.allocs = ended.at.Sub(began.at), ended.counts.minus(began.counts), ended.allocs-began.allocs
	return b, nil
}

// add adds a block to the row.
func (w *row) add(b block) error {
	w.blocks = append(w.blocks, b.time)
	w.counts = w.counts.plus(b.counts)
	w.allocs += b.allocs
	w.cycles += len(b.cycles)
	for _, d := range b.cycles {
		if err := w.Latency.RecordValue(int64(d)); err != nil {
			return err
		}
	}
	return nil
}

// mallocs returns how many objects this process has allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// The figures of a row, per cycle.

func (w *row) per(n int64) float64 { return float64(n) / float64(w.cycles) }

func (w *row) Requests() float64 { return w.per(w.counts.Requests) }
func (w *row) Trips() float64    { return w.per(w.counts.Trips) }
func (w *row) Commits() float64  { return w.per(w.counts.Commits) }
func (w *row) Received() float64 { return w.per(w.counts.Received) }
func (w *row) Allocs() float64   { return w.per(int64(w.allocs)) }

// Rate returns the cycles per second of the median block.
func (w *row) Rate() float64 {
	var rates []float64
	for _, d := range w.blocks {
		if d > 0 {
			rates = append(rates, float64(w.block)/d.Seconds())
		}
	}
	return spreadOf(rates).Median
}

func (w *row) P50() time.Duration { return time.Duration(w.Latency.ValueAtQuantile(50)) }
func (w *row) P99() time.Duration { return time.Duration(w.Latency.ValueAtQuantile(99)) }

// timeBeside returns the ratio of the time of w's blocks to that of the other side's
// blocks in the same rounds. Below 1, w is faster.
func (w *row) timeBeside(other *row) spread {
	var ratios []float64
	for i, d := range w.blocks {
		if d > 0 && other.blocks[i] > 0 {
			ratios = append(ratios, float64(d)/float64(other.blocks[i]))
		}
	}
	return spreadOf(ratios)
}

// speedBeside is the inverse of timeBeside. Above 1, w is faster.
func (w *row) speedBeside(other *row) spread { return other.timeBeside(w) }
