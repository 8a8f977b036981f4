package zkrecipes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/line"
)

// Status is what a Client knows of its connection. It says nothing about leases: those
// have an Err and a ValidUntil of their own.
type Status struct {
	// Connected says whether requests pass. A silent loss of the connection is noticed
	// within half the session timeout.
	Connected bool
	// Server is the server of the connection, host:port as given to Dial. It is empty
	// while disconnected.
	Server string
	// Session is ZooKeeper's session id. It stays the same while the session outlives
	// its connections. It is 0 between two sessions and after Close.
	Session int64
	// Timeout is the session timeout that the server has granted. It is 0 if Session is.
	Timeout time.Duration
	// Since is when the Client was last connected or disconnected, by the local clock. The
	// end of a session while disconnected does not change it.
	Since time.Time
	// Znodes is how many ephemeral znodes the session has, with those that are being created.
	// It has as many locks, slots and calls that wait, and twice as many items that are taken.
	// For znodes that others delete, see OpCreate.
	Znodes int
	// ZnodeBytes is how large the paths of these znodes are, as they count for
	// MaxZnodeBytes. A call that would exceed that returns ErrSessionFull.
	ZnodeBytes, MaxZnodeBytes int
}

// Status returns what the Client knows now. It sends nothing and does not block. By the
// time it returns, that may have changed. The zero Status is that of a Client that was not
// made by Dial.
//
// Do not use it to decide whether a lock is still held: a short disconnection ends
// nothing, and the Client may not know yet that its session has ended.
func (c *Client) Status() Status {
	if c.isZero() {
		return Status{}
	}
	s, _ := c.client.Session()
	if s == nil {
		return Status{}
	}
	connected, server, since := s.State()
	status := Status{Connected: connected, Server: server, Since: since}
	if s.IsEstablished() && !s.IsOver() {
		status.Session, status.Timeout = s.ID(), s.Timeout()
		load := s.Load()
		status.Znodes, status.ZnodeBytes, status.MaxZnodeBytes = load.Znodes, load.Bytes, load.Bound
	}
	return status
}

// Ping asks the ensemble for a sign of life, by a request "sync". It blocks until it is
// answered, through disconnections and into the next session, or until ctx ends. Give ctx a
// deadline. nil means that it was answered.
//
// What that proves: the server is not cut off from its leader. It has asked the leader, and
// has carried out all that the leader had committed when it answered. So the session had not
// ended by then. A heartbeat proves less: a server that is cut off answers it, until it
// notices.
//
// What it does not prove: that the leader still has a majority. A leader that has no write
// under way answers a sync at once, without asking the others (processSync in ZooKeeper's
// class Leader; ZOOKEEPER-1675 asks for more). A leader that is cut off does so until it
// notices, syncLimit ticks later. Only a write proves a majority. Lease.Commit without
// operations is one that changes nothing.
//
// The error of ctx is returned if ctx ended first. If there was no connection, it says why.
// ErrClosed is returned if the Client was closed. It costs one request, and no
// commit.
func (c *Client) Ping(ctx context.Context) error {
	servers, err := "", error(nil)
	switch {
	case c == nil:
		err = errors.New("nil client")
	case c.client == nil:
		err = errors.New("client was not made by Dial")
	case ctx == nil:
		servers, err = strings.Join(c.client.Servers, ","), line.ErrNilContext
	default:
		servers, err = strings.Join(c.client.Servers, ","), c.ping(ctx)
	}
	return fail("ping", servers, err)
}

func (c *Client) ping(ctx context.Context) error {
	ctx, done := c.client.Bind(ctx)
	defer done()
	return c.client.InSessions(ctx, func(s *line.Session) error { return s.Sync(ctx, "/") })
}
