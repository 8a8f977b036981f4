package zkrecipes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// A line that this library creates has the same list, its ACL, as its places, so the servers
// keep the number of that list for as long as the line stands, see zkconn.Session.ACL. In
// somebody else's line, the places have the line's list. Then others may write to
// them, so nobody sends or believes a farewell there: the names of such places say that
// they do not signal.

// lineACL is what a client knows of a line's list.
type lineACL struct {
	acl   []zk.ACL // for its places; nil: the line has the session's own list, and so do they
	seal  string   // which says so, see sealOf; empty: the line has another list
	czxid int64    // of the line; 0: not known

	aversion int32 // how often the list was changed
}

// list returns the list of what the session creates in the line, and whether nobody but
// this library may write that.
func (b lineACL) list(s *session) (acl []zk.ACL, owned bool) {
	if b.acl != nil {
		return b.acl, false
	}
	return s.OwnACL()
}

// written returns the list of a znode in the line that clients write, or below which they
// create others. The line's list will not do if it lets clients join that may not write.
func (b lineACL) written(s *session) []zk.ACL {
	joins := func(a zk.ACL) bool { return a.Perms&zk.PermCreate != 0 }
	if !slices.ContainsFunc(b.acl, joins) || slices.ContainsFunc(b.acl, func(a zk.ACL) bool { return joins(a) && a.Perms&zk.PermWrite == 0 }) {
		return s.ACL()
	}
	return b.acl
}

// sealPrefix begins a seal.
const sealPrefix = "acl="

// sealOf returns what the data of a line say if the znode with that czxid has that list.
// Without the czxid, a client that does not know yet that others have deleted the line and
// made it anew would vouch for their list. It is 0 for the client that creates the line.
func sealOf(acl []zk.ACL, czxid int64) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d", acl, czxid)
	return sealPrefix + hex.EncodeToString(h.Sum(nil)[:8])
}

// sealed returns what is known of a line with that seal in its data and that Stat. false:
// the line has another list, or somebody has changed it.
func sealed(s *session, seal string, stat *zk.Stat) (lineACL, bool) {
	own := sealOf(s.ACL(), stat.Czxid)
	if stat.Aversion != 0 || seal != own && seal != sealOf(s.ACL(), 0) {
		return lineACL{}, false
	}
	return lineACL{seal: own, czxid: stat.Czxid}, true
}

// readACL returns what the server says of the list of a znode with that Stat.
func readACL(ctx context.Context, s *session, path string, stat *zk.Stat) (lineACL, error) {
	acl, _, err := s.GetACL(ctx, path)
	own, owned := s.OwnACL()
	switch {
	case errors.Is(err, zk.ErrNoAuth), err == nil && hidesDigests(acl):
		// What the servers do not show cannot be used. They give this list no number of its
		// own, because /zookeeper/config has it. The names of places cannot be guessed, so
		// only clients that may list the line read a place.
		acl, err = zk.WorldACL(zk.PermRead), nil
	case err != nil:
		return lineACL{}, err
	case owned && slices.Equal(acl, own): // it was a parent before, or a guest has written the data
		return lineACL{seal: sealOf(acl, stat.Czxid), czxid: stat.Czxid, aversion: stat.Aversion}, nil
	}
	return lineACL{acl: acl, czxid: stat.Czxid, aversion: stat.Aversion}, nil
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

// openUp is for a line that the session was refused to write, see zkconn.Session.OpenUp. It
// costs nothing unless the line has the list by which only the library may write.
func (l *line) openUp(ctx context.Context, s *session, known lineACL) (bool, error) {
	if !s.MayOpenUp(known.acl) {
		return false, nil
	}
	l.forget()
	return s.OpenUp(ctx, l.abs())
}
