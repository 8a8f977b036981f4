package zkserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that Linux uses for outgoing
// connections, or the port of a node that is down might be borrowed by any of
// them and the node could not come back.
const (
	portsFrom = 12000
	portsTo   = 32000
)

// ports hands out free ports on 127.0.0.1, each one once.
type ports struct {
	mu    sync.Mutex
	given map[int]bool
}

// pick returns n ports that nobody listens on. Two processes could pick the
// same one before either listens; with 20,000 to choose from that is rare
// enough for tests.
func (p *ports) pick(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == nil {
		p.given = make(map[int]bool)
	}
	var picked []int
	for range 1000 {
		if len(picked) == n {
			return picked, nil
		}
		port := portsFrom + rand.IntN(portsTo-portsFrom)
		if p.given[port] {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		l.Close()
		p.given[port] = true
		picked = append(picked, port)
	}
	return nil, fmt.Errorf("no %d free ports on 127.0.0.1 between %d and %d", n, portsFrom, portsTo)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
