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
)

// A line that this library creates has the same list, its ACL, as its places, so the servers
// keep the number of that list for as long as the line stands, see zkconn.Session.ACL. In
// somebody else's line, the places have the line's list. Then others may write to
// them, so nobody sends or believes a farewell there: the names of such places say that
// they do not signal.

// LineACL is what a client knows of a line's list.
type LineACL struct {
	acl   []zk.ACL // for its places; nil: the line has the session's own list, and so do they
	Seal  string   // which says so, see sealOf; empty: the line has another list
	Czxid int64    // of the line; 0: not known

	Aversion int32 // how often the list was changed
}

// List returns the list of what the session creates in the line, and whether nobody but
// this library may write that.
func (b LineACL) List(s *Session) (acl []zk.ACL, owned bool) {
	if b.acl != nil {
		return b.acl, false
	}
	return s.OwnACL()
}

// Written returns the list of a znode in the line that clients write, or below which they
// create others. The line's list will not do if it lets clients join that may not write.
func (b LineACL) Written(s *Session) []zk.ACL {
	joins := func(a zk.ACL) bool { return a.Perms&zk.PermCreate != 0 }
	if !slices.ContainsFunc(b.acl, joins) || slices.ContainsFunc(b.acl, func(a zk.ACL) bool { return joins(a) && a.Perms&zk.PermWrite == 0 }) {
		return s.ACL()
	}
	return b.acl
}

// SealPrefix begins a seal.
const SealPrefix = "acl="

// sealOf returns what the data of a line say if the znode with that czxid has that list.
// Without the czxid, a client that does not know yet that others have deleted the line and
// made it anew would vouch for their list. It is 0 for the client that creates the line.
func sealOf(acl []zk.ACL, czxid int64) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d", acl, czxid)
	return SealPrefix + hex.EncodeToString(h.Sum(nil)[:8])
}

// sealed returns what is known of a line with that seal in its data and that Stat. false:
// the line has another list, or somebody has changed it.
func sealed(s *Session, seal string, stat *zk.Stat) (LineACL, bool) {
	own := sealOf(s.ACL(), stat.Czxid)
	if stat.Aversion != 0 || seal != own && seal != sealOf(s.ACL(), 0) {
		return LineACL{}, false
	}
	return LineACL{Seal: own, Czxid: stat.Czxid}, true
}

// ReadACL returns what the server says of the list of a znode with that Stat.
func ReadACL(ctx context.Context, s *Session, path string, stat *zk.Stat) (LineACL, error) {
	acl, _, err := s.GetACL(ctx, path)
	own, owned := s.OwnACL()
	switch {
	case errors.Is(err, zk.ErrNoAuth), err == nil && hidesDigests(acl):
		// What the servers do not show cannot be used. They give this list no number of its
		// own, because /zookeeper/config has it. The names of places cannot be guessed, so
		// only clients that may list the line read a place.
		acl, err = zk.WorldACL(zk.PermRead), nil
	case err != nil:
		return LineACL{}, err
	case owned && slices.Equal(acl, own): // it was a parent before, or a guest has written the data
		return LineACL{Seal: sealOf(acl, stat.Czxid), Czxid: stat.Czxid, Aversion: stat.Aversion}, nil
	}
	return LineACL{acl: acl, Czxid: stat.Czxid, Aversion: stat.Aversion}, nil
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
func (l *Line) openUp(ctx context.Context, s *Session, known LineACL) (bool, error) {
	if !s.MayOpenUp(known.acl) {
		return false, nil
	}
	l.Forget()
	return s.OpenUp(ctx, l.Abs())
}
