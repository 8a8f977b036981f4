package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below the range that Linux uses for outgoing connections.
// Otherwise such a connection could take the port of a node that is down, and the
// node could not start again.
const (
	portsFrom = 12000
	portsTo   = 32000
)

// ports picks free ports on 127.0.0.1, each one once.
type ports struct {
	mu   sync.Mutex
	used map[int]bool
}

// pick returns n ports on which no process listens. Two processes could pick the
// same port before either listens on it. With 20,000 ports that is rare enough
// for tests.
func (p *ports) pick(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == nil {
		p.used = make(map[int]bool)
	}
	var picked []int
	for range 1000 {
		if len(picked) == n {
			return picked, nil
		}
		port := portsFrom + rand.IntN(portsTo-portsFrom)
		if p.used[port] {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		l.Close()
		p.used[port] = true
		picked = append(picked, port)
	}
	return nil, fmt.Errorf("no %d free ports on 127.0.0.1 between %d and %d", n, portsFrom, portsTo)
}

// loopback returns the address of a port, and "" for the port 0.
func loopback(port int) string {
	if port == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
