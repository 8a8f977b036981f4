package zkrecipes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/line"
)

const (
	defaultSessionTimeout = 10 * time.Second
	defaultPort           = "2181"
)

// Client holds a ZooKeeper session, and opens the next one when it ends. It is
// safe for concurrent use. A process needs one Client for each ensemble.
type Client struct{ client *line.Client } // nil: the zero Client

func (c *Client) isZero() bool { return c == nil || c.client == nil }

// core returns what recipes use. That of the zero Client refuses all calls.
func (c *Client) core() *line.Client {
	switch {
	case c == nil:
		return nil
	case c.client == nil:
		return &line.Client{}
	}
	return c.client
}

// Dial connects to an ensemble and returns once the session is established. Each
// server is host or host:port; the default port is 2181. Names are resolved at
// every attempt. Dial tries the servers in turn until ctx ends, and then the error
// says what went wrong last. If no server answers, it tries for ever, so give it a
// deadline:
//
//	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
//	defer cancel()
//	client, err := zkrecipes.Dial(dialing, servers, nil)
//
// ctx bounds Dial only, not the Client. The Logger gets a warning, with the reason,
// for each server that cannot be reached: at the first attempt, and then every 10 s at
// most. If a server refuses a credential, or an option is invalid, Dial returns an error at
// once.
func Dial(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	c, err := newClient(ctx, servers, opts)
	if err == nil {
		err = c.client.Dial(ctx)
	}
	if err != nil {
		return nil, fail("dial", strings.Join(servers, ","), err)
	}
	return c, nil
}

// Close ends every lease, deletes their znodes and ends the session. The leases'
// contexts end before the first deletion is sent. Waiting calls and later ones
// return ErrClosed. Close does not wait for the code that still runs with a lease or an
// item: use Shutdown for that.
//
// Close blocks until all is done and the client's goroutines have ended, at most
// about half the session timeout plus 3 s. It does not wait for Trace functions.
// While the client is disconnected, Close returns within milliseconds. The error is
// ErrSessionNotClosed then: the session is left to time out on the servers. A second
// Close waits for the first. Close of a nil or a zero Client returns nil.
func (c *Client) Close() error {
	if c.isZero() {
		return nil
	}
	return c.client.Close()
}

// Format implements fmt.Formatter. It prints the servers, whatever the verb, and none of
// the credentials.
func (c *Client) Format(f fmt.State, _ rune) {
	var servers []string
	if !c.isZero() {
		servers = c.client.Servers
	}
	fmt.Fprintf(f, "zkrecipes.Client(%s)", strings.Join(servers, ","))
}
