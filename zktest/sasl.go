package zktest

import (
	"regexp"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// stepSASL answers a token of the client (ZooKeeperServer.processSasl).
func (c *conn) stepSASL(q *request) {
	if q.malformed || c.sasl == nil { // not configured, so there is no token
		return
	}
	answer, err := c.sasl.Step(q.data)
	switch {
	case err == nil:
		q.answer = answer
	case c.server.opt.requireSASL:
		q.err = jute.ErrSASL
	default:
		q.err = jute.ErrAuthFailed
	}
	if user := c.sasl.User(); err == nil && user != "" {
		c.grant(identity{"sasl", user})
	}
}

// mustLogIn reports whether the server refuses requests until SASL has authenticated the client
// (AuthenticationHelper.enforceAuthentication).
func (c *conn) mustLogIn() bool {
	return c.server.opt.requireSASL && (c.sasl == nil || c.sasl.User() == "")
}

// principal matches what ZooKeeper takes for a principal of Kerberos (KerberosName).
var principal = regexp.MustCompile(`^[^/@]*(/[^/@]*)?@[^/@]*$`)

// isKerberosName reports whether an ACL of the scheme sasl may have the id.
func isKerberosName(id string) bool {
	return !strings.Contains(id, "@") || principal.MatchString(id)
}
