package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/judge"
)

func TestTheZnodeOfAnAckNamesItsClaim(t *testing.T) {
	for item, token := range map[string]int64{"1.1-put-5": 2199023331328, "4.12-put-fail-bad-7": 0} {
		name := doneName(item, token) + "0000000012"
		gotItem, gotToken := parseDone(name[len(donePath)+1:])
		require.Equal(t, item, gotItem)
		require.Equal(t, token, gotToken)
	}
}

func TestWhileNobodyHoldsAnythingOnlyReceiptsRest(t *testing.T) {
	require.True(t, mayRest(judge.Znode{Path: "/soak/queue/line"}))
	for path, may := range map[string]bool{
		"/soak/queue/puts/receipt": true, "/soak/queue/line/place": false, "/soak/semaphore/slots/1-a": false,
		"/soak/election/leader": false, "/soak/queue/s/1/item/c": false,
	} {
		require.Equal(t, may, mayRest(judge.Znode{Path: path, Ephemeral: true}), path)
	}
}

func TestOnlyTheSkeletonMayRemain(t *testing.T) {
	for path, may := range map[string]bool{
		"/soak": true, "/soak/counter": true, "/soak/counter/line": false, "/soak/lock-data": true, "/soak/done": true,
		"/soak/queue": true, "/soak/queue/s": true, "/soak/queue/s/12": true, "/soak/bounded/puts": true,
		"/soak/queue/s/12/item": false, "/soak/queue/puts/receipt": false, "/soak/queue/line/place": false,
		"/soak/failing-dead/s/0": true, "/soak/failing-dead/s/0/item": false, "/soak/semaphore-2-data": true, "/soak/semaphore": false,
		"/soak/queue-dead": false, "/soak/lock": false, "/soak/lock/place": false, "/soak/done/1": false, "/soak/gate": false,
		"/soak/double/ready": true, "/soak/double": true, "/soak/double/member": false,
		"/soak/barrier": true, "/soak/barrier/round/ready": true, "/soak/barrier/round/member": false,
	} {
		require.Equal(t, may, mayRemain(judge.Znode{Path: path}), path)
		require.False(t, mayRemain(judge.Znode{Path: path, Ephemeral: true}), path)
	}
}
