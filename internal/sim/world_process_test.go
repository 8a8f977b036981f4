package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// process is a client, which may die and live again.
type process struct {
	w   *world
	i   int
	net *network
	// struck is sent to when something is to befall it at once.
	faultNow chan struct{}

	mu        sync.Mutex
	c         *zkrecipes.Client
	session   int64 // the latest
	life      int
	down      bool          // its client is closed, or about to be
	restarted chan struct{} // closed when it is not
}

func newProcess(w *world, i int) *process {
	p := &process{w: w, i: i, net: newNetwork(w.srv), faultNow: make(chan struct{}, 1)}
	p.net.pauses = w.pauses && i == 0
	p.net.latency = w.latency
	return p
}

// start begins a life.
func (p *process) start() error {
	trace := p.w.trace(p.i)
	told := trace.SessionUp
	trace.SessionUp = func(e zkrecipes.TraceEvent) {
		told(e)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.session = e.Session
	}
	c, err := zkrecipes.Dial(p.w.ctx, []string{p.w.srv.Addr()}, &zkrecipes.Options{
		SessionTimeout: p.w.timeout, Dialer: p.net.dial, Identity: identity(p.i, p.life), Trace: trace,
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

// client returns the client of the present life.
func (p *process) client() *zkrecipes.Client {
	c, _ := p.current()
	return c
}

// alive waits for a life, and returns its client and which it is.
func (p *process) current() (*zkrecipes.Client, int) {
	for {
		p.mu.Lock()
		c, life, dead, born := p.c, p.life, p.down, p.restarted
		p.mu.Unlock()
		if !dead {
			return c, life
		}
		<-born
	}
}

// ended reports whether a life has.
func (p *process) ended(life int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life > life || p.down
}

// die ends the life, with a farewell to the server or without one, and begins the
// next after a while.
func (p *process) restart(farewell bool, again time.Duration) {
	p.mu.Lock()
	p.down, p.restarted = true, make(chan struct{})
	c := p.c
	p.mu.Unlock()
	p.w.log.note("client %d dies, farewell %v", p.i, farewell)
	if farewell {
		p.w.events.add("client closed")
	} else {
		p.w.events.add("client killed")
		p.net.freeze()
		p.net.cut()
	}
	_ = c.Close() // it says where the session is left to time out
	p.net.thaw()
	time.Sleep(again)
	p.mu.Lock()
	p.life++
	p.mu.Unlock()
	if err := p.start(); err != nil {
		p.w.log.violation("dial: %v", err)
	}
}

// fate is what befalls a process beside its network: at moments of chance, and
// when it is struck.
func (p *process) injectFaults(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(p.w.seed, uint64(4000+p.i)))
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(40 * time.Second)))):
		case <-p.faultNow:
		case <-calm:
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

// expire has the session end on the server.
func (p *process) expireSession() {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	p.w.log.note("client %d: session 0x%x expired: %v", p.i, session, p.w.srv.Expire(session))
	p.w.events.add("session expired")
}
