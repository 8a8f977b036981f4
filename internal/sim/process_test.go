package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// process is a client, which may die and live again.
type process struct {
	w *world
	i int
	n *network
	// struck is sent to when something is to befall it at once.
	struck chan struct{}

	mu      sync.Mutex
	c       *zkrecipes.Client
	session int64 // the latest
	life    int
	dead    bool          // its client is closed, or about to be
	born    chan struct{} // closed when it is not
}

func newProcess(w *world, i int) *process {
	p := &process{w: w, i: i, n: newNetwork(w.srv), struck: make(chan struct{}, 1)}
	p.n.sleepy = w.sleepy && i == 0
	p.n.latency = w.latency
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
		SessionTimeout: p.w.timeout, Dialer: p.n.dial, Identity: identity(p.i, p.life), Trace: trace,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.c, p.dead = c, false
	if p.born != nil {
		close(p.born)
	}
	return nil
}

// client returns the client of the present life.
func (p *process) client() *zkrecipes.Client {
	c, _ := p.alive()
	return c
}

// alive waits for a life, and returns its client and which it is.
func (p *process) alive() (*zkrecipes.Client, int) {
	for {
		p.mu.Lock()
		c, life, dead, born := p.c, p.life, p.dead, p.born
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
	return p.life > life || p.dead
}

// die ends the life, with a farewell to the server or without one, and begins the
// next after a while.
func (p *process) die(farewell bool, again time.Duration) {
	p.mu.Lock()
	p.dead, p.born = true, make(chan struct{})
	c := p.c
	p.mu.Unlock()
	p.w.h.note("client %d dies, farewell %v", p.i, farewell)
	if farewell {
		p.w.befell.add("client closed")
	} else {
		p.w.befell.add("client killed")
		p.n.freeze()
		p.n.cut()
	}
	_ = c.Close() // it says where the session is left to time out
	p.n.thaw()
	time.Sleep(again)
	p.mu.Lock()
	p.life++
	p.mu.Unlock()
	if err := p.start(); err != nil {
		p.w.h.violation("dial: %v", err)
	}
}

// fate is what befalls a process beside its network: at moments of chance, and
// when it is struck.
func (p *process) fate(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(p.w.seed, uint64(4000+p.i)))
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(40 * time.Second)))):
		case <-p.struck:
		case <-calm:
			return
		}
		switch what := r.IntN(4); {
		case what == 0 && p.w.forced:
			p.expire()
		case what == 1 && p.w.mortal:
			p.die(r.IntN(2) == 0, time.Duration(r.Int64N(int64(p.w.timeout))))
		case !p.n.sleepy:
			p.w.h.note("network of client %d: cut", p.i)
			p.n.cut()
		}
	}
}

// expire has the session end on the server.
func (p *process) expire() {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	p.w.h.note("client %d: session 0x%x expired: %v", p.i, session, p.w.srv.Expire(session))
	p.w.befell.add("session expired")
}
