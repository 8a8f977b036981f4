package zkrecipes

import (
	"context"

	"github.com/zkrecipes/zkrecipes/internal/digestmd5"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// SASL is how a Client proves its identity to the servers (RFC 4422), see Options.SASL. SASLDigest
// returns one for a password, and the module zkkrb5 one for Kerberos.
//
// The Client authenticates each connection before it sends anything else there, also when it
// resumes a session. So a changed password or an expired ticket shows at the next reconnect.
//
//   - If a server refuses the principal, or requires SASL and Options.SASL is nil, Dial returns an
//     error at once, which is zk.ErrAuthFailed. A Client that has had a session tries again and
//     again, and logs why (TraceSession.Refused, too). If no server accepts it in time, its session
//     expires.
//   - If a server is not configured for SASL, the Client logs that and tries the next server.
//   - Servers with zookeeper.allowSaslFailedClients serve a client that they have refused, as one
//     without a principal. SASLDigest notices, because the server's proof is missing. With Kerberos,
//     the last answer of the servers is the same for both. Then ACLs tell: zk.ErrNoAuth.
//
// A connection takes two more round trips with DIGEST-MD5, and three more with Kerberos. Calls
// cost the same as without SASL.
type SASL struct {
	// Mechanism is the registered name, such as "GSSAPI", for errors and log records.
	Mechanism string
	// Principal is the id by which ACLs of the scheme "sasl" name the Client. It is the default
	// of Options.ACL, which must be set if Principal is empty. Errors and log records name it.
	Principal string
	// Exchange returns the client's side of one exchange with a server. The Client calls it
	// before it connects. It may block, but must return when ctx ends: the next attempt and
	// Close wait until it has. An error that is zk.ErrAuthFailed counts as a refusal by the
	// server. After any other error, the Client tries the next server.
	Exchange func(ctx context.Context, server SASLServer) (SASLExchange, error)
}

// SASLServer is a server that a Client connects to.
type SASLServer struct {
	Name    string // host:port as given to Dial
	Address string // what is dialled: host:port or, if the Client has looked up the name, address:port
}

// SASLExchange is the client's side of one exchange. Its methods must not block. The Client calls
// Start once, and then Step for each answer of the server.
type SASLExchange interface {
	// Start returns the first token. It is empty if the mechanism has the server begin.
	Start() (token []byte, err error)
	// Step takes the token in an answer of the server, nil if there is none. If done is false,
	// the Client sends the returned token and calls Step with the answer to that. If done is
	// true, the server has accepted the client and has proved what the mechanism makes it prove:
	// nothing more is sent. An error closes the connection.
	Step(challenge []byte) (token []byte, done bool, err error)
}

// SASLDigest authenticates with a user and a password by DIGEST-MD5 (RFC 2831). The servers have the
// passwords as entries user_<name>="<password>" in the section Server of their JAAS file
// (DigestLoginModule). The server must prove that it knows the password, too. ACLs name the Client
// by its user.
//
// Use it with Options.TLS. Without TLS it protects little: an attacker who reads the exchange can
// search for the password offline, at the speed of MD5, and one who can change what is sent can
// take over the authenticated connection.
func SASLDigest(user, password string) *SASL {
	return &SASL{
		Mechanism: digestmd5.Mechanism,
		Principal: user,
		Exchange: func(context.Context, SASLServer) (SASLExchange, error) {
			return digestmd5.NewClient(user, password), nil
		},
	}
}

// mechanism returns what sessions use.
func (m *SASL) mechanism() *zkconn.SASL {
	if m == nil {
		return nil
	}
	return &zkconn.SASL{
		Mechanism: m.Mechanism, Principal: m.Principal,
		Exchange: func(ctx context.Context, server zkconn.Server) (zkconn.SASLExchange, error) {
			return m.Exchange(ctx, SASLServer(server))
		},
	}
}
