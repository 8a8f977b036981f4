package zkconn

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Everything that a session creates has one list, Config.ACL, or that of the line in which it
// stands. Servers give each distinct list a number, and free it with the last znode that has the
// list (class ReferenceCountedACLCache). A list of a session's or a place's own would come and go
// with it. Up to ZooKeeper 3.9.5, a server that is killed then may never start again
// (ZOOKEEPER-4799, ZOOKEEPER-4846, ZOOKEEPER-4689).

// ACL returns the list of everything that the session creates.
func (s *Session) ACL() []zk.ACL { return s.cfg.ACL }

// DigestID returns the id by which ACLs name a digest credential
// (org.apache.zookeeper.server.auth.DigestAuthenticationProvider, with its default algorithm).
func DigestID(credential []byte) string {
	user, _, _ := strings.Cut(string(credential), ":")
	sum := sha1.Sum(credential)
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
