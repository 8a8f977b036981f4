package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const startLog = `[main] WARN org.apache.zookeeper.server.quorum.QuorumPeerMain - Either no config
[NIOWorkerThread-1] WARN org.apache.zookeeper.server.NIOServerCnxn - Close of session 0x0
java.io.IOException: ZooKeeperServer not running
	at org.apache.zookeeper.server.NIOServerCnxn.readLength(NIOServerCnxn.java:557)
[NIOWorkerThread-1] WARN org.apache.zookeeper.server.ZooKeeperServer - Connection request from old client /127.0.0.1:41290
[main] ERROR org.apache.zookeeper.server.ZooKeeperServerMain - Unexpected exception, exiting abnormally
java.lang.RuntimeException: Failed to fetch acls for 874
	at org.apache.zookeeper.server.ReferenceCountedACLCache.convertLong(ReferenceCountedACLCache.java:93)
	at org.apache.zookeeper.server.DataTree.getACL(DataTree.java:801)
	at org.apache.zookeeper.server.DataTree.setData(DataTree.java:650)
	at org.apache.zookeeper.server.DataTree.processTxn(DataTree.java:946)
[main] ERROR org.apache.zookeeper.util.ServiceUtils - Exiting JVM with code 1
`

func TestAViolationShowsWhyAServerDidNotStart(t *testing.T) {
	require.True(t, aclMissing.MatchString(startLog))
	require.Equal(t, `[main] WARN org.apache.zookeeper.server.quorum.QuorumPeerMain - Either no config
[main] ERROR org.apache.zookeeper.server.ZooKeeperServerMain - Unexpected exception, exiting abnormally
java.lang.RuntimeException: Failed to fetch acls for 874
	at org.apache.zookeeper.server.ReferenceCountedACLCache.convertLong(ReferenceCountedACLCache.java:93)
	at org.apache.zookeeper.server.DataTree.getACL(DataTree.java:801)
	at org.apache.zookeeper.server.DataTree.setData(DataTree.java:650)
[main] ERROR org.apache.zookeeper.util.ServiceUtils - Exiting JVM with code 1`, essence(startLog+startLog))
}
