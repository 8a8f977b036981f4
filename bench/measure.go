package main

import (
	"context"
	"fmt"
	"runtime"
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
	block   int // cycles in a block, by all workers together
	rounds  int
	open    func(fx *fixture) ([]side, error) // opens the sessions
}

// row is the result of one side in a scenario.
type row struct {
	Scenario string
	Side     string
	Workers  int
	Latency  *hdrhistogram.Histogram // of cycles, in nanoseconds

	cycles int             // in all blocks
	blocks []time.Duration // the time of each
	block  int             // cycles in each
	counts counts
	allocs uint64
}

// limit bounds one scenario.
const limit = 4 * time.Minute

// measure runs a scenario and returns a row for each side.
func (l *lab) measure(ctx context.Context, sc scenario) ([]*row, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	fx := l.fixture(ctx)
	defer fx.close()
	sides, err := sc.open(fx)
	if err != nil {
		return nil, err
	}
	rows := make([]*row, len(sides))
	for i, s := range sides {
		rows[i] = &row{
			Scenario: sc.name, Side: s.name, Workers: sc.workers, block: sc.block,
			Latency: hdrhistogram.New(1000, int64(time.Minute), 3),
		}
		// The first block creates lines and grows lists and buffers: not counted.
		if err := new(row).run(sc, s); err != nil {
			return nil, err
		}
	}
	for n := range sc.rounds {
		for i := range sides {
			i = (i + n) % len(sides) // no side is always the first
			if err := rows[i].run(sc, sides[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", sides[i].name, err)
			}
		}
	}
	return rows, nil
}

// run runs one block and adds it to the row.
func (w *row) run(sc scenario, s side) error {
	took := make([]time.Duration, sc.block)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	worker := func(i int) {
		for {
			turn := int(next.Add(1)) - 1
			if turn >= sc.block || failed.Load() != nil {
				return
			}
			began := time.Now()
			if err := s.cycle(i); err != nil {
				failed.Store(&err)
				return
			}
			took[turn] = time.Since(began)
		}
	}

	runtime.GC() // collect the garbage of the other sides
	allocs, sent := mallocs(), s.tally.read()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range sc.workers {
		wg.Go(func() { worker(i) })
	}
	wg.Wait()
	w.blocks = append(w.blocks, time.Since(began))
	w.counts = w.counts.plus(s.tally.read().minus(sent))
	w.allocs += mallocs() - allocs
	w.cycles += sc.block

	if err := failed.Load(); err != nil {
		return *err
	}
	if w.Latency == nil {
		return nil
	}
	for _, d := range took {
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
	rates := make([]float64, len(w.blocks))
	for i, d := range w.blocks {
		rates[i] = float64(w.block) / d.Seconds()
	}
	return spreadOf(rates).Median
}

func (w *row) P50() time.Duration { return time.Duration(w.Latency.ValueAtQuantile(50)) }
func (w *row) P99() time.Duration { return time.Duration(w.Latency.ValueAtQuantile(99)) }

// timeBeside returns the ratio of the time of w's blocks to that of the other side's
// blocks in the same rounds. Below 1, w is faster.
func (w *row) timeBeside(other *row) spread {
	ratios := make([]float64, len(w.blocks))
	for i := range ratios {
		ratios[i] = float64(w.blocks[i]) / float64(other.blocks[i])
	}
	return spreadOf(ratios)
}

// speedBeside is the inverse of timeBeside. Above 1, w is faster.
func (w *row) speedBeside(other *row) spread { return other.timeBeside(w) }
