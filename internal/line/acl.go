package line

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A line that this library creates has the same list, Options.ACL, as its places, so the servers
// keep the number of that list for as long as the line stands, see zkconn.Session.ACL. In
// somebody else's line, the places have the line's list.

// ACL is what a client knows of a line's list.
type ACL struct {
	list        []zk.ACL // for its places; nil: the line has the session's own list, and so do they
	Fingerprint string   // which says so, see fingerprintOf; empty: the line has another list
	czxid       int64    // of the line; 0: not known

	aversion int32 // how often the list was changed
}

// letsWrite reports whether somebody may write to places in the line.
func (b ACL) letsWrite() bool {
	return b.list == nil || slices.ContainsFunc(b.list, func(a zk.ACL) bool { return a.Perms&zk.PermWrite != 0 })
}

// ForWritten returns the list of a znode in the line that clients write, or below which they
// create others. The line's list is unusable if it lets clients join that may not write.
func (b ACL) ForWritten(s *zkconn.Session) []zk.ACL {
	joins := func(a zk.ACL) bool { return a.Perms&zk.PermCreate != 0 }
	if !slices.ContainsFunc(b.list, joins) || slices.ContainsFunc(b.list, func(a zk.ACL) bool { return joins(a) && a.Perms&zk.PermWrite == 0 }) {
		return s.ACL()
	}
	return b.list
}

// fingerprintOf returns the fingerprint of a line with that list and that czxid. A fingerprint is a hash
// of both in the line's data: it says without a read of the ACL which one the line has.
// Without the czxid, a client that does not know yet that others have deleted the line and
// made it anew would vouch for their list. It is 0 for the client that creates the line.
func fingerprintOf(acl []zk.ACL, czxid int64) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d", acl, czxid)
	return layout.FingerprintPrefix + hex.EncodeToString(h.Sum(nil)[:8])
}

// ourACL returns what is known of a line with that fingerprint in its data and that Stat. false:
// the line has another list, or somebody has changed it.
func ourACL(s *zkconn.Session, fingerprint string, stat *zk.Stat) (ACL, bool) {
	own := fingerprintOf(s.ACL(), stat.Czxid)
	if stat.Aversion != 0 || fingerprint != own && fingerprint != fingerprintOf(s.ACL(), 0) {
		return ACL{}, false
	}
	return ACL{Fingerprint: own, czxid: stat.Czxid}, true
}

// Read returns what the server says of the list of a znode with that Stat, without a request if b does.
func (b ACL) Read(ctx context.Context, s *zkconn.Session, path string, stat *zk.Stat) (ACL, error) {
	if b.czxid == stat.Czxid && b.aversion == stat.Aversion {
		return b, nil
	}
	acl, _, err := s.GetACL(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoAuth), err == nil && hidesDigests(acl):
		// What the servers do not show cannot be used. They give this list no number of its
		// own, because /zookeeper/config has it. The names of places cannot be guessed, so
		// only clients that may list the line read a place.
		acl = zk.WorldACL(zk.PermRead)
	case err != nil:
		return ACL{}, err
	}
	return ACL{list: acl, czxid: stat.Czxid, aversion: stat.Aversion}, nil
}

// hidesDigests reports whether the server has put "x" in place of the ids of digests.
func hidesDigests(acl []zk.ACL) bool {
	for _, a := range acl {
		if a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") {
			return true
		}
	}
	return false
}
