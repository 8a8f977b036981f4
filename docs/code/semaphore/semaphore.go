// Package semaphore has the code of docs/semaphore.md.
package semaphore

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// callTimeout bounds a call. It is well below two thirds of the session timeout.
const callTimeout = 2 * time.Second

var errUnsure = errors.New("the slot may be another's before the call ends")

// exportAll exports tables in a slot. It begins no call that may outlast the slot.
func exportAll(ctx context.Context, client *zkrecipes.Client, tables []string, export func(context.Context, int, string) error) error {
	exports := zkrecipes.NewSemaphore(client, "/exports", 4)
	return exports.Do(ctx, func(ctx context.Context, lease *zkrecipes.SlotLease) error {
		for _, table := range tables {
			if time.Until(lease.ValidUntil()) < callTimeout {
				return errUnsure // try again: Do waits for a slot
			}
			call, cancel := context.WithTimeout(ctx, callTimeout)
			err := export(call, lease.Slot(), table) // 0 to 3, nobody else's meanwhile
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	})
}
