package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// errExpired is the cause of a connection that ends because the server reported
// on it that the session has expired.
var errExpired = errors.New("session has expired")

// maxConnectResponse bounds the first frame from a server. The port may speak
// another protocol, and the client must not wait for a gigabyte of it.
const maxConnectResponse = 4096

// maxPassword is the longest session password that go-zookeeper can present: its
// ConnectRequest has room for 252 bytes, of which 28 are taken.
const maxPassword = 224

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
	switch {
	case d.Err != nil:
		return r, fmt.Errorf("malformed ConnectResponse: %w", d.Err)
	case r.id != 0 && r.timeout <= 0:
		return r, fmt.Errorf("server granted a session timeout of %v", r.timeout) // go-zookeeper would panic
	case len(r.password) > maxPassword:
		return r, fmt.Errorf("session password of %d bytes, at most %d expected", len(r.password), maxPassword)
	}
	return r, nil
}

// HandshakeBudget returns how long dialling, TLS and the handshake may take
// together. It is a sixth of the session timeout, so that several servers can
// be tried within it. It is at least a second, but not more than a quarter of a
// short timeout.
func HandshakeBudget(timeout time.Duration) time.Duration {
	return max(timeout/6, min(time.Second, timeout/4))
}

// rewriteConnectRequest writes the session's last zxid into go-zookeeper's ConnectRequest, because
// go-zookeeper sees few replies. It fails if the request names another session than this one.
func (c *Conn) rewriteConnectRequest(body []byte) error {
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
	if s.over || id != s.id { // W3
		return fmt.Errorf("connect request for session %s on a connection of session %s", SessionName(id), SessionName(s.id))
	}
	jute.AppendInt64(body[:4], s.seenZxid) // in place: body[4:12]
	return nil
}

// finishHandshake reads the ConnectResponse, logs in and presents the credentials. It
// runs inside go-zookeeper's Read of the response, so nothing else is on the
// connection yet. go-zookeeper's own AddAuth hangs forever if the connection is
// lost halfway.
func (c *Conn) finishHandshake() error {
	if head, err := c.r.Peek(4); err == nil && speaks(head) != "" {
		return fmt.Errorf("handshake: the server speaks %s, not ZooKeeper's protocol: is the port wrong?", speaks(head))
	}
	frame, err := jute.ReadFrame(c.r, maxConnectResponse)
	if IsRejected(err) {
		c.session.noteRefused()
		return fmt.Errorf("handshake: %w: the server closed the connection without an answer: it has no quorum, "+
			"has not seen what the session has, refuses more connections of this address (maxClientCnxns), or expects TLS", err)
	}
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
		s.markOver()
		// go-zookeeper would drop the connection without closing it.
		c.onDelivered = func() { c.closeWith(errExpired) }
		return nil
	}
	if id := s.ID(); id != 0 && r.id != id { // W3
		return fmt.Errorf("handshake: server answered with session %s instead of %s", SessionName(r.id), SessionName(id))
	}
	// The timeout holds from now on, even if this connection fails at the credentials.
	if s.shorten(r.timeout, c.connectSent) {
		s.cfg.OnShortened()
	}
	unasked := c.login == nil && s.ID() == 0 // a resumed session asks for its znodes in any case
	if err := c.logIn(); err != nil {
		return err
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	if unasked {
		if err := c.checkNotRequired(); err != nil {
			return err
		}
	}
	c.onDelivered = func() { c.establish(r) }
	return nil
}

// speaks returns which other protocol the first bytes of a server's answer belong to, and
// nothing if they may be ZooKeeper's.
func speaks(head []byte) string {
	switch {
	case string(head) == "HTTP":
		return "HTTP"
	case head[0] == 0x15 && head[1] == 3, head[0] == 0x16 && head[1] == 3: // an alert, or a handshake
		return "TLS"
	case !bytes.ContainsFunc(head, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Sprintf("something that begins with %q", head)
	}
	return ""
}

func (c *Conn) authenticate() error {
	s := c.session
	var out []byte
	for _, cred := range s.cfg.Credentials {
		b := jute.AppendInt32(header(jute.XidAuth, jute.OpAuth), 0) // its type is unused
		b = jute.AppendBuffer(jute.AppendString(b, cred.Scheme), cred.Auth)
		out = append(out, jute.Frame(b)...)
	}
	if len(out) == 0 {
		return nil
	}
	if _, err := c.Conn.Write(out); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	for _, cred := range s.cfg.Credentials {
		code, _, err := c.answerTo(jute.XidAuth, "a credential", maxConnectResponse)
		switch {
		case err != nil:
			return fmt.Errorf("handshake: %w", err)
		case code == jute.ErrAuthFailed:
			return &AuthError{Scheme: cred.Scheme}
		case code != 0: // the server's trouble, not the credential's
			return fmt.Errorf("handshake: %s in answer to a credential", jute.ErrorName(code))
		}
	}
	return nil
}

// answerTo reads the answer to a request of the handshake, which errors call what. rest is its record.
func (c *Conn) answerTo(xid int32, what string, limit int) (code int32, rest *jute.Decoder, err error) {
	frame, err := jute.ReadFrame(c.r, limit)
	if err != nil {
		return 0, nil, err
	}
	d := jute.NewDecoder(frame[4:])
	answered, _, code := d.Int32(), d.Int64(), d.Int32()
	if d.Err != nil || answered != xid {
		return 0, nil, fmt.Errorf("answer %d to %s", answered, what)
	}
	return code, d, nil
}

// establish makes this the session's connection. It runs once go-zookeeper has
// read the whole ConnectResponse.
func (c *Conn) establish(r connectResponse) {
	s := c.session
	resumed := s.ID() != 0
	s.accept(r)
	c.established = true
	c.mu.Lock()
	c.gateClosed = resumed
	c.alive, c.lastSent = c.connectSent, c.connectSent
	if resumed && c.cause == nil {
		c.gateTimer = time.AfterFunc(r.timeout/2, func() { c.closeWith(errRearmTimeout) })
	}
	c.mu.Unlock()
	if !resumed {
		s.markAlive(c.connectSent)
		s.cfg.Up(c.number)
		return
	}
	c.armAgain()
	c.passGate()
}
