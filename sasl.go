package zkrecipes

import (
	"context"

	"github.com/zkrecipes/zkrecipes/internal/digestmd5"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// SASL is how a Client proves its identity to the servers (RFC 4422, ZooKeeper's request "sasl"): set
// Options.SASL. SASLDigest makes one, and module zkkrb5 makes one for Kerberos.
//
// Each connection is authenticated before anything else is sent on it, also when a session
// is resumed, so an expired ticket or a changed password shows at the next reconnect. If a server
// refuses the principal, Dial returns an error that is zk.ErrAuthFailed at once. A Client whose
// session lives tries on, and its session expires if no server lets it in. A server that is not
// configured for SASL is passed over: a log record says so, and so does the error of Dial if there is no
// other.
//
// SASL costs no time of a recipe, and a connection two round trips (DIGEST-MD5) or three (GSSAPI).
type SASL struct {
	// Mechanism is the registered name, such as "GSSAPI", for errors and log records.
	Mechanism string
	// Principal is the id by which ACLs of the scheme "sasl" name the Client, for Options.ACL,
	// errors and log records. If it is empty, Options.ACL must be set.
	Principal string
	// Exchange returns the client's side of an exchange with a server. It is called before the
	// Client connects. It may block, and must return when ctx ends: no other server is tried
	// until it has. An error that is zk.ErrAuthFailed counts as a refusal. After any other
	// the next server is tried, or the same one again.
	Exchange func(ctx context.Context, server SASLServer) (SASLExchange, error)
}

// SASLServer is a server that a Client connects to.
type SASLServer struct {
	Name    string // host:port as given to Dial
	Address string // what is dialled: host:port or, if the Client has looked up the name, address:port
}

// SASLExchange is the client's side of one exchange. Its methods must not block. They are called in
// turn: Start, and then Step for each answer of the server.
type SASLExchange interface {
	// Start returns the first token. It is empty if the mechanism has the server begin.
	Start() (token []byte, err error)
	// Step takes an answer of the server, which is nil if that has no token. If done is false,
	// token is sent, and Step is called again with the answer to it. If done is true, nothing
	// more is sent: the server has accepted the client, and has proved to it what the mechanism
	// has it prove. An error closes the connection.
	Step(challenge []byte) (token []byte, done bool, err error)
}

// SASLDigest authenticates with a user and a password by DIGEST-MD5 (RFC 2831), as ZooKeeper's
// servers do with the entries user_<name>="<password>" of their JAAS section Server. The server
// must prove that it knows the password, too. ACLs name the Client sasl:<user>.
//
// Without Options.TLS it protects little. The password is not sent, but whoever reads the exchange
// can search for it offline, at the speed of MD5, and whoever can change what is sent can take the
// connection over once it is authenticated. The servers have the passwords in clear.
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
