package harness

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// proxied is one connection through the proxy.
type proxied struct {
	p              *Proxy
	client, server net.Conn
	mu             sync.Mutex
	answers        map[int32]*Rule
	session        int64
	password       []byte
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse, target := p.refuse, p.target
		p.mu.Unlock()
		if refuse {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		c := &proxied{p: p, client: client, server: server, answers: map[int32]*Rule{}}
		p.mu.Lock()
		p.conns[c] = struct{}{}
		refuse = p.refuse // since the dial, perhaps
		p.mu.Unlock()
		if refuse {
			c.close()
		}
		p.wg.Go(c.requests)
		p.wg.Go(c.replies)
	}
}

func (c *proxied) close() {
	c.client.Close()
	c.server.Close()
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	delete(c.p.conns, c)
}

// frozen waits while the proxy is stalled.
func (c *proxied) frozen() {
	c.p.mu.Lock()
	thaw := c.p.thaw
	c.p.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

func (c *proxied) requests() {
	defer c.close()
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(c.client, 1<<30)
		if err != nil {
			return
		}
		c.frozen()
		xid, op := int32(0), "connect"
		if !first {
			xid, op = RequestOf(frame[4:])
		}
		if r := c.p.match(op); r != nil {
			switch r.action {
			case DropBefore:
				return
			case Hold:
				<-r.free
			case HoldReply:
				c.mu.Lock()
				c.answers[xid] = r
				c.mu.Unlock()
			}
		}
		if _, err := c.server.Write(frame); err != nil {
			return
		}
	}
}

func (c *proxied) replies() {
	defer c.close()
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(c.server, 1<<30)
		if err != nil {
			return
		}
		c.frozen()
		d := jute.NewDecoder(frame[4:])
		xid := d.Int32()
		c.mu.Lock()
		if first {
			xid = 0
			d.Int32() // timeout
			c.session, c.password = d.Int64(), slices.Clone(d.Buffer())
		}
		r := c.answers[xid]
		delete(c.answers, xid)
		c.mu.Unlock()
		if r != nil {
			<-r.free
		}
		if _, err := c.client.Write(frame); err != nil {
			return
		}
	}
}

// match counts the operation and returns the rule that fires, or nil.
func (p *Proxy) match(op string) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[op]++
	for _, r := range p.rules {
		if r.op != op && (r.op != "" || op == "ping") {
			continue
		}
		if r.hits++; r.n != 0 && r.hits != r.n {
			continue
		}
		r.fire.Do(func() { close(r.fired) })
		return r
	}
	return nil
}

// RequestOf returns the xid and the operation in a frame's body.
func RequestOf(body []byte) (xid int32, op string) {
	d := jute.NewDecoder(body)
	xid = d.Int32()
	code := d.Int32()
	op = jute.OpName(code)
	if code != jute.OpMulti {
		return xid, op
	}
	var parts []string
	for {
		code, done := d.Int32(), d.Bool()
		d.Int32()
		if done || d.Err != nil {
			return xid, op + "(" + strings.Join(parts, ",") + ")"
		}
		parts = append(parts, jute.OpName(code))
		_ = d.String() // path
		switch code {
		case jute.OpCreate, jute.OpCreateContainer:
			d.Buffer()
			for range d.Int32() {
				d.Int32()
				_ = d.String()
				_ = d.String()
			}
		case jute.OpSetData:
			d.Buffer()
		}
		d.Int32() // flags or version
	}
}
