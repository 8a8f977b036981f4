package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyTheSkeletonMayRemain(t *testing.T) {
	for path, may := range map[string]bool{
		"/soak": true, "/soak/lock-data": true, "/soak/done": true,
		"/soak/queue": true, "/soak/queue/s": true, "/soak/queue/s/12": true, "/soak/bounded/puts": true,
		"/soak/queue/s/12/item": false, "/soak/queue/puts/receipt": false, "/soak/queue/line/place": false,
		"/soak/failing-dead/s/0": true, "/soak/failing-dead/s/0/item": false, "/soak/semaphore-2-data": true, "/soak/semaphore": false,
		"/soak/queue-dead": false, "/soak/lock": false, "/soak/lock/place": false, "/soak/done/1": false, "/soak/gate": false,
	} {
		require.Equal(t, may, mayRemain(path), path)
	}
}
