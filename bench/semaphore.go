package main

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes"
)

// permits is how many slots the semaphore has, as in CuratorWorker.java.
const permits = 4

func nameSemaphore(n int) string {
	return fmt.Sprintf("semaphore: %d permits, %d sessions", permits, n)
}

// semaphoreScenario compares with Curator's InterProcessSemaphoreV2. go-zookeeper has no
// semaphore, and kazoo's is not measured.
func semaphoreScenario(n int) scenario {
	return scenario{
		name: nameSemaphore(n), workers: n, lead: 2 * n, block: 1000, rounds: 9, open: openSemaphore(n),
		peers: peerLock{recipe: semaphore},
	}
}

// openSemaphore opens n sessions, all of which want a slot all the time.
func openSemaphore(n int) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var ourTally tally
		clients, err := fx.clients(n, &ourTally)
		if err != nil {
			return nil, err
		}
		return []side{newSide(ours, &ourTally, n, func(i int) lock {
			var lease *zkrecipes.SlotLease
			x := zkrecipes.NewSemaphore(clients[i], fx.path+"/ours", permits)
			return lock{
				func() (err error) {
					lease, err = x.Acquire(fx.ctx)
					return err
				},
				func() error { return lease.Release() },
			}
		})}, nil
	}
}
