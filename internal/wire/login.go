package wire

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Login is the client's side of a SASL exchange (RFC 4422), for one connection.
type Login struct {
	Mechanism, Principal string // for errors
	Token                []byte // the first one; empty if the server begins
	// Step answers a challenge. When done, the server has accepted the client, and proved what
	// the mechanism has it prove. It must not block.
	Step func(challenge []byte) (token []byte, done bool, err error)
}

// AuthError reports that the server refused a credential or the principal of a Login or, if it is
// the zero value, that the server requires a Login and there is none. It is zk.ErrAuthFailed, and
// holds no secret.
type AuthError struct {
	Scheme string // of a credential; empty for SASL

	Mechanism, Principal string // of SASL
	Why                  error  // the mechanism's, before a server is asked; nil: the server refused
}

func (e *AuthError) Error() string {
	switch {
	case e.Why != nil:
		return fmt.Sprintf("SASL %s as %q: %v", e.Mechanism, e.Principal, e.Why)
	case e.Mechanism != "":
		return fmt.Sprintf("server refused SASL %s as %q", e.Mechanism, e.Principal)
	case e.Scheme != "":
		return fmt.Sprintf("server refused the credential of scheme %q", e.Scheme)
	}
	return "the server requires SASL (Options.SASL)"
}

func (e *AuthError) Unwrap() error { return e.Why }

// Is reports whether target is zk.ErrAuthFailed, which each AuthError is.
func (e *AuthError) Is(target error) bool { return target == zk.ErrAuthFailed }

// errNoSASL is the error of a server that answers the first token with none. It has no SASL
// server then (ZooKeeperServer.processSasl), unless it lets in those that it has refused.
var errNoSASL = errors.New("the server is not configured for SASL (JAAS section Server), " +
	"or has refused it and lets such clients in (zookeeper.allowSaslFailedClients)")

// errRequiresSASL is the error of a connection without a Login, to a server that requires one. Such a
// server answers the handshake, and then refuses and closes at the first request.
var errRequiresSASL = &AuthError{}

var errRefused = errors.New("refused")

// logIn carries out the SASL exchange. Its requests are numbered from 1, as ZooKeeper's own client
// does. Each gets one answer: the last one may have no token.
func (c *Conn) logIn() error {
	l := c.login
	if l == nil {
		return nil
	}
	c.login = nil
	token := l.Token
	for xid := int32(1); ; xid++ {
		challenge, err := c.sendToken(xid, token)
		if err == nil && xid == 1 && challenge == nil {
			err = errNoSASL
		}
		done := false
		if err == nil {
			token, done, err = l.Step(challenge)
		}
		switch {
		case err == errRefused:
			return &AuthError{Mechanism: l.Mechanism, Principal: l.Principal}
		case err != nil:
			return fmt.Errorf("handshake: SASL %s as %q: %w", l.Mechanism, l.Principal, err)
		case done:
			return nil
		}
	}
}

// checkNotRequired asks a server by a ping, which such a server answers with an error, whether it
// requires a Login. Otherwise the first call of the user would find out.
func (c *Conn) checkNotRequired() error {
	if _, err := c.Conn.Write(jute.Frame(header(jute.XidPing, jute.OpPing))); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	code, _, err := c.answerTo(jute.XidPing, "a ping", maxConnectResponse)
	switch {
	case err != nil:
		return fmt.Errorf("handshake: %w", err)
	case code == jute.ErrSASL:
		return errRequiresSASL
	}
	return nil
}

// sendToken sends a token and returns the server's, nil if it sends none.
func (c *Conn) sendToken(xid int32, token []byte) ([]byte, error) {
	if _, err := c.Conn.Write(jute.Frame(jute.AppendBuffer(header(xid, jute.OpSasl), token))); err != nil {
		return nil, err
	}
	code, d, err := c.answerTo(xid, fmt.Sprintf("request %d", xid), maxToken)
	switch {
	case err != nil:
		return nil, err
	case code == jute.ErrAuthFailed, code == jute.ErrSASL:
		return nil, errRefused
	case code != 0: // the server's trouble
		return nil, errors.New(jute.ErrorName(code))
	}
	challenge := d.Buffer()
	if d.Err != nil {
		return nil, fmt.Errorf("malformed answer: %w", d.Err)
	}
	return challenge, nil
}

// maxToken bounds an answer with a token. Kerberos has the longest, which are below 1 KiB.
const maxToken = 64 << 10
