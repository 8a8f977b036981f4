package sim

import (
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// weatherOf is what befalls a client's network.
func (w *world) weatherOf(p *process, calm <-chan struct{}) {
	i, n := p.i, p.n
	r := rand.New(rand.NewPCG(w.seed, uint64(1000+i)))
	if r.IntN(3) == 0 && !n.sleepy {
		return
	}
	defer n.thaw()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(20 * time.Second)))):
		case <-calm:
			return
		}
		switch what := r.IntN(4); {
		case what < 2 && !n.sleepy:
			w.h.note("network of client %d: cut", i)
			n.cut()
		default:
			d := time.Duration(r.Int64N(int64(2 * w.timeout)))
			w.h.note("network of client %d: frozen for %v", i, d)
			n.freeze()
			select {
			case <-time.After(d):
			case <-calm:
			}
			n.thaw()
			if n.sleepy {
				w.befell.add("client asleep")
			} else {
				w.befell.add("partition")
			}
		}
	}
}

// bare connects with nothing but go-zookeeper.
func (w *world) bare() (*zk.Conn, func()) {
	conn, events, err := zk.Connect([]string{w.srv.Addr()}, w.timeout, zk.WithDialer(func(network, addr string, d time.Duration) (net.Conn, error) {
		return w.srv.Dial(network, addr, d)
	}), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		w.h.violation("%v", err)
		return nil, func() {}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range events {
		}
	}()
	return conn, func() {
		conn.Close()
		<-drained
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}
