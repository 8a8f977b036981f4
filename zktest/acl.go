package zktest

import (
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// identity is an identity of a connection. Each connection starts with its IP
// address; auth packets add others.
type identity struct{ scheme, id string }

func (s *Server) digest(userPassword string) string {
	h := s.opt.digest.New()
	h.Write([]byte(userPassword))
	user, _, _ := strings.Cut(userPassword, ":")
	return user + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// authenticate returns the identities that a credential grants, or false if
// there is no provider for its scheme. Every digest is accepted, because a
// digest only identifies the client; ACLs decide what the client may do
// (DigestAuthenticationProvider).
func (s *Server) authenticate(scheme string, credential []byte, host string) ([]identity, bool) {
	switch {
	case scheme == "ip":
		return []identity{{"ip", host}}, true
	case scheme == "digest" && credential != nil && !s.opt.withoutDigest:
		id := s.digest(string(credential))
		ids := []identity{{"digest", id}}
		if id == s.opt.superDigest {
			ids = append(ids, identity{"super", ""})
		}
		return ids, true
	}
	return nil, false
}

// allowed reports whether one of ids has one of the permissions
// (ZooKeeperServer.checkACL).
func (s *Server) allowed(ids []identity, acl []jute.ACL, perms int32) bool {
	if s.opt.skipACL || len(acl) == 0 {
		return true
	}
	for _, a := range acl {
		if a.Perms&perms != 0 && a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
	}
	for _, i := range ids {
		if i.scheme == "super" {
			return true
		}
		for _, a := range acl {
			if a.Perms&perms != 0 && a.Scheme == i.scheme && s.matchesID(i, a.ID) {
				return true
			}
		}
	}
	return false
}

func (s *Server) matchesID(i identity, pattern string) bool {
	switch {
	case i.scheme == "digest" && !s.opt.withoutDigest:
		return i.id == pattern
	case i.scheme == "sasl": // whoever is called super may do anything
		return i.id == pattern || i.id == "super"
	case i.scheme == "ip":
		p, ok := parsePrefix(pattern)
		addr, err := netip.ParseAddr(i.id)
		return ok && err == nil && p.Contains(addr)
	}
	return false
}

// parsePrefix parses the ID of an ACL with scheme ip: an IPv4 address,
// optionally followed by a prefix length (IPAuthenticationProvider). Numbers may
// have leading zeros and a sign, unlike those of netip.
func parsePrefix(pattern string) (netip.Prefix, bool) {
	host, bits, cut := strings.Cut(pattern, "/")
	parts := strings.Split(host, ".")
	if len(parts) != 4 {
		return netip.Prefix{}, false
	}
	var addr [4]byte
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 || v > 255 {
			return netip.Prefix{}, false
		}
		addr[i] = byte(v)
	}
	if !cut {
		bits = "32"
	}
	n, err := strconv.Atoi(bits)
	if err != nil {
		return netip.Prefix{}, false
	}
	p, err := netip.AddrFrom4(addr).Prefix(n)
	return p, err == nil
}

// resolveACL returns the ACL that the server stores when a client requests acl.
// It removes duplicates and replaces scheme auth with the identities of the
// connection. It returns false if acl is invalid
// (PrepRequestProcessor.fixupACL).
func (s *Server) resolveACL(acl []jute.ACL, ids []identity) ([]jute.ACL, bool) {
	var resolved []jute.ACL
	for i, a := range acl {
		if slices.Contains(acl[:i], a) {
			continue
		}
		switch {
		case a.Scheme == "auth":
			proven := s.proven(ids, a.Perms)
			if len(proven) == 0 {
				return nil, false
			}
			resolved = append(resolved, proven...)
		case s.isValidID(a.Scheme, a.ID):
			resolved = append(resolved, a)
		default:
			return nil, false
		}
	}
	return resolved, len(resolved) > 0
}

// proven returns entries with these permissions for the identities that scheme auth stands
// for.
func (s *Server) proven(ids []identity, perms int32) (acl []jute.ACL) {
	for _, id := range ids {
		// An address proves nothing, and super has no provider.
		if id.scheme == "digest" && !s.opt.withoutDigest || id.scheme == "sasl" {
			acl = append(acl, jute.ACL{Perms: perms, Scheme: id.scheme, ID: id.id})
		}
	}
	return acl
}

// isValidID reports whether an ACL may have an entry with that scheme and ID.
func (s *Server) isValidID(scheme, id string) bool {
	switch scheme {
	case "world":
		return id == "anyone"
	case "digest":
		// Like Java's String.split, ignore trailing empty parts.
		return !s.opt.withoutDigest && len(strings.Split(strings.TrimRight(id, ":"), ":")) == 2
	case "ip":
		_, ok := parsePrefix(id)
		return ok
	case "sasl":
		return s.opt.users != nil && isKerberosName(id)
	}
	return false
}

// redactDigests returns a copy of acl without password hashes, which is what a
// client without the admin permission gets.
func redactDigests(acl []jute.ACL) []jute.ACL {
	shown := slices.Clone(acl)
	for i, a := range shown {
		if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			shown[i].ID = user + ":x"
		}
	}
	return shown
}
