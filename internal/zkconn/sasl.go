package zkconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// SASL is how each connection is authenticated.
type SASL struct {
	Mechanism, Principal string
	// Exchange returns the client's side of an exchange with a server. It returns when ctx ends.
	Exchange func(ctx context.Context, server Server) (SASLExchange, error)
}

// SASLExchange is the client's side of an exchange, see wire.Login.
type SASLExchange interface {
	Start() (token []byte, err error)
	Step(challenge []byte) (token []byte, done bool, err error)
}

// begin begins an exchange before there is a connection: Kerberos may have to ask for a ticket. It
// returns nil without SASL. The error is a *wire.AuthError if it says that the principal was
// refused, and not that the answer is not known.
func (m *SASL) begin(ctx context.Context, server Server) (*wire.Login, error) {
	if m == nil {
		return nil, nil
	}
	exchange, err := m.Exchange(ctx, server)
	if err == nil && exchange == nil {
		err = errors.New("Options.SASL has returned no exchange")
	}
	login := &wire.Login{Mechanism: m.Mechanism, Principal: m.Principal}
	if err == nil {
		login.Step = exchange.Step
		login.Token, err = exchange.Start()
	}
	switch {
	case errors.Is(err, zk.ErrAuthFailed):
		return nil, &wire.AuthError{Mechanism: m.Mechanism, Principal: m.Principal, Why: err}
	case err != nil:
		return nil, fmt.Errorf("SASL %s as %q: %w", m.Mechanism, m.Principal, err)
	}
	return login, nil
}
