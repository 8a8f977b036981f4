package costs

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// rw returns the lock in a client that has used it.
func (w *world) rw(c *zkrecipes.Client) *zkrecipes.RWLock {
	l := zkrecipes.NewRWLock(c, "/rw")
	w.ok(l.RDo(w.ctx(), recipetest.Nothing))
	return l
}

func (w *world) held(lock func(context.Context) (*zkrecipes.Lease, error)) *zkrecipes.Lease {
	w.t.Helper()
	return recipetest.Held(w.t, lock)
}

// takes is the use that takes a lock and releases it.
func (w *world) takes(lock func(context.Context) (*zkrecipes.Lease, error)) func() {
	return func() { w.release(w.held(lock)) }
}

// tries is the use that is refused.
func (w *world) tries(try func(context.Context) (*zkrecipes.Lease, error)) func() {
	return func() { w.refused(func() (*zkrecipes.Lease, error) { return try(w.ctx()) }) }
}

// readersWait has n readers wait behind a writer, each in a client of its own.
func (w *world) readersWait(n int) (as []*harness.Call[*zkrecipes.Lease]) {
	for range n {
		as = append(as, recipetest.Later(w.t, zkrecipes.NewRWLock(w.client(), "/rw").RLock))
	}
	return as
}

// fiveReaders has five readers hold, and a writer wait for the last of them.
func (w *world) fiveReaders() (leases []*zkrecipes.Lease, writer *harness.Call[*zkrecipes.Lease]) {
	mine, other := w.rw(w.c), w.rw(w.other)
	for range 5 {
		leases = append(leases, w.held(other.RLock))
	}
	return leases, recipetest.Later(w.t, mine.Lock)
}

var rwlockRows = []row{
	{"Lock and Release, free", func(w *world) func() { return w.takes(w.rw(w.c).Lock) }},
	{"RLock and Release, alone", func(w *world) func() { return w.takes(w.rw(w.c).RLock) }},
	{"TryRLock and Release, alone", func(w *world) func() { return w.takes(w.rw(w.c).TryRLock) }},
	{"RLock and Release beside a reader", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		w.held(other.RLock)
		return w.takes(mine.RLock)
	}},
	{"RLock and Release beside 1,000 readers", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		for range 1000 {
			w.held(other.RLock)
		}
		return w.takes(mine.RLock)
	}},
	{"TryRLock and Release beside a reader", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		w.held(other.RLock)
		return w.takes(mine.TryRLock)
	}},
	{"TryLock beside a reader", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		w.held(other.RLock)
		return w.tries(mine.TryLock)
	}},
	{"TryLock beside a writer", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		w.held(other.Lock)
		return w.tries(mine.TryLock)
	}},
	{"TryRLock beside a writer", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		w.held(other.Lock)
		return w.tries(mine.TryRLock)
	}},
	{"re-entry of a writer as a reader", func(w *world) func() {
		mine := w.rw(w.c)
		l := w.held(mine.Lock)
		return func() {
			again, err := mine.RLock(l.Reentrant(w.ctx()))
			w.ok(err)
			w.release(again)
		}
	}},
	{"Lock behind five readers", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		for range 5 {
			w.held(other.RLock)
		}
		return func() { recipetest.Later(w.t, mine.Lock) }
	}},
	{"Lock behind 1,000 readers", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		for range 1000 {
			w.held(other.RLock)
		}
		return func() { recipetest.Later(w.t, mine.Lock) }
	}},
	{"RLock behind a writer", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		w.held(other.Lock)
		return func() { recipetest.Later(w.t, mine.RLock) }
	}},
	{"Release of a writer with five readers waiting, which are granted", func(w *world) func() {
		l := w.held(w.rw(w.c).Lock)
		as := w.readersWait(5)
		return func() {
			w.release(l)
			for _, a := range as {
				a.Get()
			}
		}
	}},
	{"Release of a reader for which the waiting writer does not wait", func(w *world) func() {
		leases, _ := w.fiveReaders()
		return func() { w.release(leases[1]) }
	}},
	{"Release of 999 of 1,000 readers, for which a waiting writer does not wait", func(w *world) func() {
		mine, other := w.rw(w.c), w.rw(w.other)
		var leases []*zkrecipes.Lease
		for range 1000 {
			leases = append(leases, w.held(other.RLock))
		}
		recipetest.Later(w.t, mine.Lock)
		return func() {
			for _, l := range leases[:999] {
				w.release(l)
			}
		}
	}},
	{"Release of a reader for which it waits, others hold", func(w *world) func() {
		leases, writer := w.fiveReaders()
		return func() { w.release(leases[4]); require.True(w.t, writer.Waiting()) }
	}},
	{"Release of the last reader with a writer waiting, which is granted", func(w *world) func() {
		leases, writer := w.fiveReaders()
		for _, l := range leases[1:] {
			w.release(l)
		}
		return func() { w.release(leases[0]); writer.Get() }
	}},
	{"Downgrade, nobody waits", func(w *world) func() {
		mine := w.rw(w.c)
		l := w.held(mine.Lock)
		return func() { w.ok(mine.Downgrade(w.ctx(), l)) }
	}},
	{"Downgrade of a reader", func(w *world) func() {
		mine := w.rw(w.c)
		l := w.held(mine.Lock)
		w.ok(mine.Downgrade(w.ctx(), l))
		return func() { w.ok(mine.Downgrade(w.ctx(), l)) }
	}},
	{"Release after a Downgrade", func(w *world) func() {
		mine := w.rw(w.c)
		l := w.held(mine.Lock)
		w.ok(mine.Downgrade(w.ctx(), l))
		return func() { w.release(l) }
	}},
	{"Downgrade with four readers waiting, which are granted", func(w *world) func() {
		mine := w.rw(w.c)
		l := w.held(mine.Lock)
		as := w.readersWait(4)
		return func() {
			w.ok(mine.Downgrade(w.ctx(), l))
			for _, a := range as {
				a.Get()
			}
		}
	}},
}
