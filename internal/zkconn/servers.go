package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Server is one address of a name that was given to Dial, or that name itself if
// Options.Dialer looks it up.
type Server struct {
	Name    string // host:port as given to Dial
	Address string // what is dialled
}

// String returns the name's host and the address, or only the address if they are the same.
func (s Server) String() string {
	if s.Address == s.Name {
		return s.Name
	}
	host, _, _ := net.SplitHostPort(s.Name)
	return host + " (" + s.Address + ")"
}

// LookupFunc returns the addresses of a host, as net.Resolver.LookupNetIP does for "ip".
type LookupFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// Servers are the servers of an ensemble: all addresses of all names. They outlive the
// sessions, so that a slow lookup holds up none that has addresses to try.
type Servers struct {
	ctx    context.Context // ends the lookups
	tasks  *Tasks          // counts them
	lookup LookupFunc
	failed func(name string, kept int, err error)

	mu      sync.Mutex
	names   []*name
	changed chan struct{} // closed and replaced whenever a lookup has ended
	fair    time.Time     // until then the first addresses wait for those of the other names
}

// name is what is known of a name.
type name struct {
	text    string   // host:port
	host    string   // empty: it is an address, or not to be looked up
	servers []Server // from the last lookup that has succeeded
	running bool     // a lookup is under way
	asked   bool     // a lookup has ended
	err     error    // of the last lookup
}

// NewServers returns the servers with these names, each host:port. Nothing is looked up
// yet, and nothing ever if lookup is nil. Lookups are counted by tasks and end with ctx, and
// failed is called with those that fail, and with how many addresses are known from before.
func NewServers(ctx context.Context, names []string, lookup LookupFunc, tasks *Tasks, failed func(name string, kept int, err error)) *Servers {
	s := &Servers{ctx: ctx, tasks: tasks, lookup: lookup, failed: failed, changed: make(chan struct{})}
	for _, text := range names {
		n := &name{text: text}
		host, _, _ := net.SplitHostPort(text)
		if _, err := netip.ParseAddr(host); err == nil || lookup == nil {
			n.servers = []Server{{text, text}}
		} else {
			n.host, n.err = host, errors.New("the name has not been looked up")
		}
		s.names = append(s.names, n)
	}
	return s
}

const (
	// lookupTimeout bounds one lookup. If the first of three name servers does not answer,
	// one takes 5 s for each domain in which the name is searched.
	lookupTimeout = time.Minute

	// fairness is how long the first addresses wait for those of the other names. Without
	// it, all clients would begin with the name that is looked up fastest.
	fairness = 50 * time.Millisecond
)

// Refresh looks up each name of which no lookup is under way. It returns at once.
func (s *Servers) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fair.IsZero() {
		s.fair = time.Now().Add(fairness)
	}
	for _, n := range s.names {
		if n.host != "" && !n.running && s.ctx.Err() == nil {
			n.running = true
			s.tasks.Start(func() { s.lookUp(n) })
		}
	}
}

// lookUp looks up a name. If that fails, its last addresses stay.
func (s *Servers) lookUp(n *name) {
	ctx, cancel := context.WithTimeout(s.ctx, lookupTimeout)
	defer cancel()
	addrs, err := s.lookup(ctx, n.host)
	switch {
	case err == nil && len(addrs) == 0:
		err = errors.New("the name has no address")
	case err != nil && ctx.Err() != nil && s.ctx.Err() == nil:
		err = fmt.Errorf("the lookup has not ended after %v: %w", lookupTimeout, err)
	}
	_, port, _ := net.SplitHostPort(n.text)
	s.mu.Lock()
	n.running, n.asked, n.err = false, true, err
	if err == nil {
		n.servers = nil
		for _, addr := range addrs {
			n.servers = append(n.servers, Server{n.text, net.JoinHostPort(addr.Unmap().String(), port)})
		}
	}
	kept := len(n.servers)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if err != nil && s.ctx.Err() == nil {
		s.failed(n.text, kept, err)
	}
}

// Await returns all servers that are known. If there is none yet, it waits for a lookup,
// and returns an error if all have failed or if ctx ends.
func (s *Servers) Await(ctx context.Context) ([]Server, error) {
	for {
		s.mu.Lock()
		known, awaited, err := s.known()
		fair, changed := time.Until(s.fair), s.changed
		s.mu.Unlock()
		var enough <-chan time.Time
		switch {
		case len(known) > 0 && (awaited == "" || fair <= 0):
			return known, nil
		case len(known) > 0:
			enough = time.After(fair)
		case awaited == "":
			return nil, err
		}
		select {
		case <-changed:
		case <-enough:
		case <-ctx.Done():
			if len(known) > 0 {
				return known, nil
			}
			err := fmt.Errorf("the lookup has not ended yet: %w", ctx.Err())
			if ctx.Err() == context.DeadlineExceeded {
				s.failed(awaited, 0, err)
			}
			return nil, fmt.Errorf("%s: %w", awaited, err)
		}
	}
}

// known returns the servers, a name whose lookup is worth waiting for, if there is one, and
// why a name has none. s.mu must be held.
func (s *Servers) known() (known []Server, awaited string, err error) {
	for _, n := range s.names {
		known = append(known, n.servers...)
	}
	for _, n := range s.names {
		switch {
		case n.running && (len(known) == 0 || !n.asked):
			awaited = n.text
		case n.err != nil:
			err = fmt.Errorf("%s: %w", n.text, n.err)
		}
	}
	return known, awaited, err
}
