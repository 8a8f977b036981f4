package main

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

const (
	nameFree   = "free lock"
	nameLocks  = "64 locks on one session"
	nameTry    = "TryLock on a held lock"
	nameShared = "64 goroutines of a session on one lock"
	nameAgain  = "lock taken again"
)

// kept is this library's side that keeps the lock (KeepFor).
const kept = ours + ", KeepFor"

// keepFor is how long it keeps it while others wait.
const keepFor = 100 * time.Millisecond

func nameContended(n int) string { return fmt.Sprintf("%d sessions on one lock", n) }
func nameHeld(n int) string      { return nameContended(n) + ", held for 1 ms" }
func nameRW(n int) string        { return fmt.Sprintf("RW lock, 90 %% reads, %d sessions", n) }

// waiters returns the numbers of sessions that contend for one lock.
func waiters(short bool) []int {
	if short {
		return []int{2, 16}
	}
	return []int{2, 16, 200, 1000, 3000}
}

// handedTo returns the numbers of sessions that stand in line for hand-overs.
func handedTo(short bool) []int {
	if short {
		return waiters(true)
	}
	return []int{2, 16, 200, 1000}
}

// heldBy returns the numbers of sessions that contend for a lock that is held for a while.
func heldBy(short bool) []int {
	if short {
		return []int{2}
	}
	return []int{2, 1000, 3000}
}

// scenarios returns the scenarios in the order in which they are measured.
func scenarios(short bool) []scenario {
	list := []scenario{{name: nameFree, workers: 1, block: 300, rounds: 81, open: openFree,
		peers: peerLock{recipe: mutex}}}
	for _, n := range waiters(short) {
		list = append(list, scenario{
			name: nameContended(n), workers: n, open: openContended(n, 0), peers: peerLock{recipe: mutex},
			lead: 2 * n, block: max(1000, n/2), rounds: contendedRounds(n),
		})
	}
	for _, n := range heldBy(short) {
		sc := scenario{name: nameHeld(n), workers: n, lead: 2 * n, block: 300, rounds: 15, open: openContended(n, time.Millisecond)}
		if n > 200 {
			sc.block, sc.rounds = n, 3
			if n > 1000 {
				sc.rounds = 1 // a block lasts for half a minute
			}
		} else {
			sc.peers = peerLock{recipe: mutex, hold: time.Millisecond}
		}
		list = append(list, sc)
	}
	list = append(list,
		scenario{name: nameLocks, workers: 64, block: 4000, rounds: 31, open: openLocks(64)},
		scenario{name: nameShared, workers: 64, lead: 128, block: 2000, rounds: 9, open: openShared(64),
			peers: peerLock{recipe: mutex, sessions: 1}},
		scenario{name: nameAgain, workers: 1, block: 1000, rounds: 9, open: openAgain})
	for _, n := range waiters(short) {
		if n == 16 || n == 200 {
			list = append(list, scenario{name: nameRW(n), workers: n, lead: 2 * n, block: 1000, rounds: 7, open: openRW(n),
				peers: peerLock{recipe: readWrite}})
		}
	}
	list = append(list, semaphoreScenario(16))
	list = append(list, scenario{name: nameTry, workers: 1, block: 2000, rounds: 9, open: openTry})
	list = append(list, queueScenarios()...)
	if short {
		for i := range list {
			list[i].block, list[i].rounds = max(50, 4*list[i].workers), 3
		}
	}
	return list
}

// ensembleScenarios returns the scenarios that are measured on three servers, too.
func ensembleScenarios() []scenario {
	list := []scenario{{name: nameFree, workers: 1, block: 150, rounds: 25, open: openFree, peers: peerLock{recipe: mutex}}}
	for _, n := range []int{2, 16, 200} {
		list = append(list, scenario{
			name: nameContended(n), workers: n, open: openContended(n, 0), peers: peerLock{recipe: mutex},
			lead: 2 * n, block: 500, rounds: 9,
		})
	}
	for i := range list {
		list[i].name += ", ensemble of 3"
	}
	return list
}

func contendedRounds(n int) int {
	switch {
	case n > 1000:
		return 3
	case n > 200:
		return 6
	case n == 2: // where the sides differ least
		return 31
	}
	return 11
}

// lock is what one worker locks and unlocks, on any side.
type lock struct{ lock, unlock func() error }

// rawLock creates and deletes a znode, the least that a lock needs.
func rawLock(conn *zk.Conn, line string) lock {
	var name string
	return lock{
		func() (err error) {
			name, err = conn.Create(line+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		},
		func() error { return conn.Delete(name, -1) },
	}
}

func theirLock(conn *zk.Conn, line string) lock {
	l := zk.NewLock(conn, line, zk.WorldACL(zk.PermAll))
	return lock{l.Lock, l.Unlock}
}

func ourLock(ctx context.Context, acquire func(context.Context) (*zkrecipes.Lease, error)) lock {
	var lease *zkrecipes.Lease
	return lock{
		func() (err error) {
			lease, err = acquire(ctx)
			return err
		},
		func() error { return lease.Release() },
	}
}

func (l lock) cycle() error {
	if err := l.lock(); err != nil {
		return err
	}
	return l.unlock()
}

// heldFor returns a lock that is held for a while before it is unlocked.
func (l lock) heldFor(d time.Duration) lock {
	if d == 0 {
		return l
	}
	return lock{l.lock, func() error {
		return errors.Join(hold(d), l.unlock())
	}}
}

// newSide returns a side of n workers. Worker i uses the lock lockOf(i).
func newSide(name string, t *tally, n int, lockOf func(i int) lock) side {
	locks := make([]lock, n)
	for i := range locks {
		locks[i] = lockOf(i)
	}
	return side{name, t, func(worker int) error { return locks[worker].cycle() }}
}

// openFree opens the sessions for one goroutine with one lock, without contention.
func openFree(fx *fixture) ([]side, error) { return openLocks(1)(fx) }

// openLocks opens the sessions for n goroutines that share one session, each with a
// lock of its own.
func openLocks(n int) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var rawTally, theirTally, ourTally tally
		rawConn, err1 := fx.conn(&rawTally)
		theirConn, err2 := fx.conn(&theirTally)
		client, err3 := fx.client(&ourTally)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		line := func(side string, i int) string { return fmt.Sprintf("%s/%s/%d", fx.path, side, i) }
		for i := range n {
			if err := makeNode(rawConn, line("raw", i)); err != nil {
				return nil, err
			}
		}
		return []side{
			newSide(raw, &rawTally, n, func(i int) lock { return rawLock(rawConn, line("raw", i)) }),
			newSide(theirs, &theirTally, n, func(i int) lock { return theirLock(theirConn, line("theirs", i)) }),
			newSide(ours, &ourTally, n, func(i int) lock {
				return ourLock(fx.ctx, zkrecipes.NewMutex(client, line("ours", i)).Lock)
			}),
		}, nil
	}
}

// openContended opens n sessions, all of which want the same lock all the time, and hold
// it for that long.
func openContended(n int, held time.Duration) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var theirTally, ourTally tally
		conns, err1 := fx.conns(n, &theirTally)
		clients, err2 := fx.clients(n, &ourTally)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return []side{
			newSide(theirs, &theirTally, n, func(i int) lock {
				return theirLock(conns[i], fx.path+"/theirs").heldFor(held)
			}),
			newSide(ours, &ourTally, n, func(i int) lock {
				return ourLock(fx.ctx, zkrecipes.NewMutex(clients[i], fx.path+"/ours").Lock).heldFor(held)
			}),
		}, nil
	}
}

// openShared opens the sessions for n goroutines that share one session, and want the
// same lock all the time.
func openShared(n int) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var theirTally, ourTally, keptTally tally
		conn, err1 := fx.conn(&theirTally)
		client, err2 := fx.client(&ourTally)
		keeper, err3 := fx.client(&keptTally)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		mutex := zkrecipes.NewMutex(client, fx.path+"/ours")
		keeping := zkrecipes.NewMutex(keeper, fx.path+"/kept", zkrecipes.KeepFor(keepFor))
		return []side{
			newSide(theirs, &theirTally, n, func(int) lock { return theirLock(conn, fx.path+"/theirs") }),
			newSide(ours, &ourTally, n, func(int) lock { return ourLock(fx.ctx, mutex.Lock) }),
			newSide(kept, &keptTally, n, func(int) lock { return ourLock(fx.ctx, keeping.Lock) }),
		}, nil
	}
}

// openAgain opens the sessions for one goroutine that takes a lock again and again, which
// nobody else wants.
func openAgain(fx *fixture) ([]side, error) {
	sides, err := openShared(1)(fx)
	return slices.DeleteFunc(sides, func(s side) bool { return s.name == theirs }), err
}

// openRW opens n sessions that share a read/write lock. go-zookeeper has none.
func openRW(n int) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var ourTally tally
		clients, err := fx.clients(n, &ourTally)
		if err != nil {
			return nil, err
		}
		cycles := make([]func() error, n)
		for i := range cycles {
			rw := zkrecipes.NewRWLock(clients[i], fx.path+"/ours")
			read, write := ourLock(fx.ctx, rw.RLock), ourLock(fx.ctx, rw.Lock)
			dice := rand.New(rand.NewPCG(1, uint64(i))) // the same in each run
			cycles[i] = func() error {
				if dice.IntN(10) == 0 {
					return write.cycle()
				}
				return read.cycle()
			}
		}
		return []side{{ours, &ourTally, func(worker int) error { return cycles[worker]() }}}, nil
	}
}

// openTry opens the sessions for TryLock on a lock that another session holds. A cycle
// is one TryLock that is refused. It is compared with the one listing that it needs.
func openTry(fx *fixture) ([]side, error) {
	var uncounted, rawTally, ourTally tally
	holder, err1 := fx.client(&uncounted)
	conn, err2 := fx.conn(&rawTally)
	client, err3 := fx.client(&ourTally)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	line := fx.path + "/held"
	if _, err := zkrecipes.NewMutex(holder, line).Lock(fx.ctx); err != nil { // until its session ends
		return nil, err
	}
	mutex := zkrecipes.NewMutex(client, line)
	return []side{
		{raw, &rawTally, func(int) error {
			_, _, err := conn.Children(line)
			return err
		}},
		{ours, &ourTally, func(int) error {
			if _, err := mutex.TryLock(fx.ctx); !errors.Is(err, zkrecipes.ErrLocked) {
				return fmt.Errorf("try lock on a held lock: %v", err)
			}
			return nil
		}},
	}, nil
}

// makeNode creates a persistent znode and its missing parents.
func makeNode(conn *zk.Conn, path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if _, err := conn.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			return err
		}
	}
	return nil
}

// warm runs all sides until the server's code is compiled. A cold server is a third
// slower, at the cost of the side that comes first.
func (l *lab) warm(ctx context.Context, short bool) error {
	for _, sc := range []scenario{
		{workers: 1, block: 1000, rounds: 4, open: openFree, peers: peerLock{recipe: mutex}},
		{workers: 16, block: 1000, rounds: 8, open: openContended(16, 0), peers: peerLock{recipe: mutex}},
	} {
		if short {
			sc.block = 20
		}
		if _, err := l.measure(ctx, sc); err != nil {
			return err
		}
	}
	return nil
}
