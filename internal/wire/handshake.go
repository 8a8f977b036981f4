package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// AuthError says that the server refused a credential. It holds no secret.
type AuthError struct{ Scheme string }

func (e *AuthError) Error() string {
	return fmt.Sprintf("server refused the credential of scheme %q", e.Scheme)
}

// errExpired ends the connection on which the server said so.
var errExpired = errors.New("session has expired")

// maxConnectResponse bounds the first frame from a server: a port that speaks
// another protocol must not make us wait for a gigabyte.
const maxConnectResponse = 4096

type connectResponse struct {
	timeout  time.Duration
	id       int64
	password []byte
}

func parseConnectResponse(body []byte) (connectResponse, error) {
	d := jute.NewDecoder(body)
	d.Int32() // protocol version
	r := connectResponse{timeout: time.Duration(d.Int32()) * time.Millisecond, id: d.Int64()}
	r.password = slices.Clone(d.Buffer())
	if d.Err == nil && r.id != 0 && r.timeout <= 0 {
		return r, fmt.Errorf("server granted a session timeout of %v", r.timeout) // go-zookeeper panics on it
	}
	return r, d.Err
}

// HandshakeBudget is what dialling, TLS and the handshake may take together: a
// sixth of the timeout, so that several servers can be tried within it, but
// with short timeouts at least a quarter of it or a second.
func HandshakeBudget(timeout time.Duration) time.Duration {
	return max(timeout/6, min(time.Second, timeout/4))
}

// connect rewrites go-zookeeper's ConnectRequest: the zxid is ours to tell
// (see Conn.reply), the session is never another one than ours.
func (c *Conn) connect(body []byte) error {
	d := jute.NewDecoder(body)
	d.Int32() // protocol version
	d.Int64() // last zxid seen
	d.Int32() // timeout
	id := d.Int64()
	if d.Err != nil {
		return fmt.Errorf("connect request: %w", d.Err)
	}
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || id != s.id {
		return fmt.Errorf("connect request for session 0x%x on a connection of session 0x%x", id, s.id)
	}
	jute.AppendInt64(body[:4], s.lastZxid) // in place: body[4:12]
	return nil
}

// welcome reads the ConnectResponse and presents the credentials. It runs
// inside go-zookeeper's Read of the response, so nothing else is on the
// connection yet; go-zookeeper's own way, AddAuth, hangs for good when the
// connection is lost half way.
func (c *Conn) welcome() error {
	frame, err := jute.ReadFrame(c.r, maxConnectResponse)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	r, err := parseConnectResponse(frame[4:])
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	s := c.session
	c.mu.Lock()
	c.answered = true
	c.mu.Unlock()
	c.frame, c.off = frame, 0
	if r.id == 0 {
		s.end()
		// go-zookeeper forgets the connection without closing it.
		c.handedUp = func() { c.shut(errExpired) }
		return nil
	}
	if id := s.ID(); id != 0 && r.id != id {
		return fmt.Errorf("handshake: server answered with session 0x%x instead of 0x%x", r.id, id)
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	c.handedUp = func() { c.adopt(r) }
	return nil
}

func (c *Conn) authenticate() error {
	s := c.session
	var sent []int
	var out []byte
	for i, cred := range s.cfg.Credentials {
		if s.Refused(i) {
			continue
		}
		sent = append(sent, i)
		b := jute.AppendInt32(jute.AppendInt32(nil, jute.XidAuth), jute.OpAuth)
		b = jute.AppendInt32(b, 0) // type, unused
		b = jute.AppendBuffer(jute.AppendString(b, cred.Scheme), cred.Auth)
		out = append(out, jute.Frame(b)...)
	}
	if len(out) == 0 {
		return nil
	}
	if _, err := c.Conn.Write(out); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	for _, i := range sent {
		frame, err := jute.ReadFrame(c.r, maxConnectResponse)
		if err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		d := jute.NewDecoder(frame[4:])
		xid, _, code := d.Int32(), d.Int64(), d.Int32()
		if d.Err != nil || xid != jute.XidAuth {
			return fmt.Errorf("handshake: answer %d to a credential", xid)
		}
		if code == 0 {
			continue
		}
		if code != jute.ErrAuthFailed { // the server is in trouble, the credential is not
			return fmt.Errorf("handshake: error %d in answer to a credential", code)
		}
		if s.cfg.Credentials[i].Optional {
			s.refuse(i) // the server closes now; the next attempt does without
		}
		return &AuthError{Scheme: s.cfg.Credentials[i].Scheme}
	}
	return nil
}

// adopt makes the connection the session's, once go-zookeeper has read the
// whole response.
func (c *Conn) adopt(r connectResponse) {
	s := c.session
	rearm, resumed := s.adopt(r, c.connectSent)
	leases := resumed && s.cfg.Leases()
	c.mu.Lock()
	c.established = true
	c.rearm = rearm
	c.held = len(rearm) > 0 || leases
	held := c.held
	c.mu.Unlock()
	if !held {
		s.cfg.Up(c.number)
		return
	}
	c.mu.Lock()
	if !c.closed {
		c.gateTimer = time.AfterFunc(r.timeout/2, func() { c.shut(errRearm) })
	}
	c.mu.Unlock()
	if len(rearm) == 0 {
		c.rearmed()
	}
}

// Probe makes a handshake of its own on nc and reports whether the server knows
// the session. With seen it tells the zxid that was seen last, as the session's
// connections do: a server that lost its data, or is behind, then closes without
// a word. Without, any server answers. nc is of no use for requests then, and
// closing it leaves the session alive.
func (s *Session) Probe(nc net.Conn, seen bool) (known bool, err error) {
	s.mu.Lock()
	id, zxid := s.id, int64(0)
	if seen {
		zxid = s.lastZxid
	}
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), zxid)
	b = jute.AppendInt32(b, int32(s.cfg.Timeout/time.Millisecond))
	b = jute.AppendBuffer(jute.AppendInt64(b, id), s.password)
	s.mu.Unlock()
	if _, err := nc.Write(jute.Frame(b)); err != nil {
		return false, err
	}
	frame, err := jute.ReadFrame(nc, maxConnectResponse)
	if err != nil {
		return false, err
	}
	r, err := parseConnectResponse(frame[4:])
	switch {
	case err != nil:
		return false, err
	case r.id == 0:
		s.end()
		return false, nil
	case r.id != id:
		return false, fmt.Errorf("server answered with session 0x%x instead of 0x%x", r.id, id)
	}
	return true, nil
}

// CloseSession ends the session on a connection on which Probe found it known, and with
// it what it owns.
func (s *Session) CloseSession(nc net.Conn) error {
	closing := jute.AppendInt32(jute.AppendInt32(nil, 1), jute.OpClose)
	if _, err := nc.Write(jute.Frame(closing)); err != nil {
		return err
	}
	if _, err := jute.ReadFrame(nc, maxConnectResponse); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.end()
	return nil
}
