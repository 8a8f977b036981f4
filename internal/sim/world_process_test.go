package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// process is a process with one client. It may end, with its client closed or
// killed, and start again. Its lives are counted from 0.
type process struct {
	w   *world
	i   int
	net *network
	// faultNow makes injectFaults inject one without waiting.
	faultNow chan struct{}

	mu        sync.Mutex
	c         *zkrecipes.Client
	session   int64 // ID of the latest
	life      int
	down      bool          // the client is closed, or about to be
	restarted chan struct{} // closed when the next life begins
}

func newProcess(w *world, i int) *process {
	p := &process{w: w, i: i, net: newNetwork(w.srv), faultNow: make(chan struct{}, 1)}
	p.net.pauses = w.pauses && i == 0
	p.net.latency = w.latency
	if i == w.clients-1 {
		p.net.latency = max(w.latency, w.distance)
	}
	return p
}

// start begins a life.
func (p *process) start() error {
	trace := p.w.logTrace(p.i)
	told := trace.Session
	trace.Session = func(e zkrecipes.TraceSession) {
		told(e)
		if e.State != zkrecipes.SessionConnected {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.session = e.ID
	}
	c, err := zkrecipes.Dial(p.w.ctx, []string{p.w.srv.Addr()}, &zkrecipes.Options{
		SessionTimeout: p.w.timeout, Dialer: p.net.dial, Identity: life{p: p, n: p.life}.identity(), Trace: trace,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.c, p.down = c, false
	if p.restarted != nil {
		close(p.restarted)
	}
	return nil
}

// life is one of the lives of a process, and its client.
type life struct {
	p *process
	c *zkrecipes.Client
	n int
}

// current returns the current life. It waits while the process is down.
func (p *process) current() life {
	for {
		p.mu.Lock()
		l, dead, born := life{p, p.c, p.life}, p.down, p.restarted
		p.mu.Unlock()
		if !dead {
			return l
		}
		<-born
	}
}

// ended reports whether a life has ended, or is about to.
func (l life) ended() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.p.life > l.n || l.p.down
}

// identity is the Identity of the client. It tells apart what the lives left on the server.
func (l life) identity() string { return fmt.Sprintf("client %d.%d", l.p.i, l.n) }

// restart ends the life and begins the next after the downtime. A life that ends
// cleanly closes its session. Otherwise the session is left to expire.
func (p *process) restart(cleanly bool, downtime time.Duration) {
	p.mu.Lock()
	p.down, p.restarted = true, make(chan struct{})
	c := p.c
	p.mu.Unlock()
	p.w.log.note("client %d ends, cleanly %v", p.i, cleanly)
	if cleanly {
		p.w.events.add("client closed")
	} else {
		p.w.events.add("client killed")
		p.net.freeze()
		p.net.cut()
	}
	_ = c.Close() // an error where the session is left to expire
	p.net.thaw()
	time.Sleep(downtime)
	p.mu.Lock()
	p.life++
	p.mu.Unlock()
	if err := p.start(); err != nil {
		p.w.log.violation("dial: %v", err)
	}
}

// injectFaults expires the session, restarts the process or cuts its network, at
// random moments and on faultNow, until stop is closed.
func (p *process) injectFaults(stop <-chan struct{}) {
	r := p.w.stream(4000 + p.i)
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(40 * time.Second)))):
		case <-p.faultNow:
		case <-stop:
			return
		}
		switch what := r.IntN(4); {
		case what == 0 && p.w.forcedExpiry:
			p.expireSession()
		case what == 1 && p.w.restarts:
			p.restart(r.IntN(2) == 0, time.Duration(r.Int64N(int64(p.w.timeout))))
		case !p.net.pauses:
			p.w.log.note("network of client %d: cut", p.i)
			p.net.cut()
		}
	}
}

// expireSession has the server expire the session.
func (p *process) expireSession() {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	p.w.log.note("client %d: session 0x%x expired: %v", p.i, session, p.w.srv.Expire(session))
	p.w.events.add("session expired")
}
