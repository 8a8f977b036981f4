package sim

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// network is how one client reaches the server. It can be cut, which ends its
// connections. It can be frozen, and then neither bytes nor the ends of
// connections arrive, as behind a partition.
type network struct {
	srv *zktest.Server
	// pauses disables the client's own deadlines, as if its process stood still
	// while nothing arrives.
	pauses bool
	// latency is how long bytes are on their way, at most.
	latency time.Duration

	mu     sync.Mutex
	thawed chan struct{} // closed while bytes pass
	links  map[*link]struct{}
}

func newNetwork(srv *zktest.Server) *network {
	n := &network{srv: srv, thawed: make(chan struct{}), links: map[*link]struct{}{}}
	close(n.thawed)
	return n
}

// passable returns a channel that is closed while bytes pass, or once they do
// again.
func (n *network) passable() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.thawed
}

func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.thawed:
		n.thawed = make(chan struct{})
	default:
	}
}

func (n *network) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.thawed:
	default:
		close(n.thawed)
	}
}

// cut ends all connections.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		l.near.Close()
		l.far.Close()
	}
}

// dial is Options.Dialer.
func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-n.passable():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	far, err := n.srv.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	l := &link{n: n, near: near, far: far}
	n.mu.Lock()
	n.links[l] = struct{}{}
	n.mu.Unlock()
	go l.carry(near, far)
	go l.carry(far, near)
	if n.pauses {
		return patient{client}, nil
	}
	return client, nil
}

// patient is a client's end of a connection, without deadlines.
type patient struct{ net.Conn }

func (patient) SetDeadline(time.Time) error      { return nil }
func (patient) SetReadDeadline(time.Time) error  { return nil }
func (patient) SetWriteDeadline(time.Time) error { return nil }

// link is a connection, between the client's end and the server.
type link struct {
	n         *network
	near, far net.Conn
}

// carry buffers bytes as the kernel's sockets do, and passes them on while the
// network is not frozen.
func (l *link) carry(from, to net.Conn) {
	var mu sync.Mutex
	var queue [][]byte
	var ended bool
	more := make(chan struct{}, 1)
	go func() {
		for !func() bool { mu.Lock(); defer mu.Unlock(); return ended }() {
			b := make([]byte, 4096)
			n, err := from.Read(b)
			mu.Lock()
			queue, ended = append(queue, b[:n]), err != nil
			mu.Unlock()
			select {
			case more <- struct{}{}:
			default:
			}
		}
	}()
	lost := false // the receiving end is closed
	for range more {
		if l.n.latency > 0 {
			time.Sleep(time.Duration(rand.Int64N(int64(l.n.latency))))
		}
		<-l.n.passable()
		mu.Lock()
		bytes, last := queue, ended
		queue = nil
		mu.Unlock()
		for _, b := range bytes {
			if !lost {
				_, err := to.Write(b)
				lost = err != nil
			}
		}
		if last {
			break
		}
	}
	to.Close()
	from.Close()
	l.n.mu.Lock()
	delete(l.n.links, l)
	l.n.mu.Unlock()
	_, _ = io.Copy(io.Discard, from)
}

// disturbNetwork cuts and freezes the network of a process until stop is closed.
func (w *world) disturbNetwork(p *process, stop <-chan struct{}) {
	i, n := p.i, p.net
	r := w.stream(1000 + i)
	if r.IntN(3) == 0 && !n.pauses {
		return
	}
	defer n.thaw()
	again(r, 20*time.Second, stop, func() {
		switch what := r.IntN(4); {
		case what < 2 && !n.pauses:
			w.log.note("network of client %d: cut", i)
			n.cut()
		default:
			d := time.Duration(r.Int64N(int64(2 * w.timeout)))
			w.log.note("network of client %d: frozen for %v", i, d)
			n.freeze()
			select {
			case <-time.After(d):
			case <-stop:
			}
			n.thaw()
			if n.pauses {
				w.events.add("client paused")
			} else {
				w.events.add("partition")
			}
		}
	})
}

// serverFaults returns the plan of the server.
func (w *world) serverFaults() *zktest.Plan {
	p := zktest.NewPlan()
	if w.noServerFaults {
		return p
	}
	for _, f := range zktest.PlanFromSeed(w.seed, 30, 400, w.timeout*3/2).Faults() {
		if f.Do != zktest.Expire || w.forcedExpiry {
			p.Add(f)
		}
	}
	return p
}
