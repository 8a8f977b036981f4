package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// In these tests the test itself is both go-zookeeper, above the Conn, and the
// server below it. They run in testing/synctest: time is exact, and after
// synctest.Wait everything that could happen has happened.

const (
	sessionTimeout = 10 * time.Second
	sessionID      = 0x5e55
)

// rig is a Session and a record of what it has reported.
type rig struct {
	*Session
	t       *testing.T
	login   *Login // of the next connections
	watches Watches
	mu      sync.Mutex
	reports []string
}

// inBubble runs a test with a Session in a synctest bubble of its own.
func inBubble(t *testing.T, creds []Credential, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		report := func(format string, args ...any) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, fmt.Sprintf(format, args...))
		}
		r.Session = NewSession(Config{
			Timeout:     sessionTimeout,
			MaxRequest:  jute.MaxFrame,
			Credentials: creds,
			Watches:     func() Watches { return r.watches },
			Event:       func(e Event) { report("event %d %s on %d", e.Type, e.Path, e.Conn) },
			Up:          func(conn uint64) { report("up %d", conn) },
			Down:        func(conn uint64, lost Lost) { report("down %d: %v", conn, lost.Cause) },
			OnShortened: func() { report("sooner") },
			Ephemerals: func(paths []string, mayHaveLost bool) {
				if len(paths) > 0 || mayHaveLost {
					report("ephemerals %v, may have lost: %v", paths, mayHaveLost)
				}
			},
		})
		f(t, r)
	})
}

// eachInBubble is inBubble for each case.
func eachInBubble[C any](t *testing.T, creds []Credential, cases map[string]C, f func(t *testing.T, r *rig, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { inBubble(t, creds, func(t *testing.T, r *rig) { f(t, r, c) }) })
	}
}

// reported returns what the Session has reported since the last call.
func (r *rig) reported() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	reports := r.reports
	r.reports = nil
	return reports
}

// link is both ends of a connection.
type link struct {
	t      *testing.T
	conn   *Conn // go-zookeeper's end
	socket *breakableConn
	server net.Conn // the server's end

	mu       sync.Mutex
	toServer [][]byte // frames that have reached the server
	toClient [][]byte // frames that go-zookeeper has read
	ended    error    // the error of Read
	closed   bool     // the server has seen the connection close

	hasPing   bool // the test answers the ping of the handshake
	hasZnodes bool // the test answers the request for the session's ephemeral znodes
}

// breakableConn is a connection whose writes can be made to fail.
type breakableConn struct {
	net.Conn
	broken atomic.Bool
}

var errBroken = errors.New("broken")

func (c *breakableConn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errBroken
	}
	return c.Conn.Write(p)
}

// pipe makes a connection whose two ends nobody reads yet.
func (r *rig) pipe() *link {
	client, server := net.Pipe()
	l := &link{t: r.t, server: server, socket: &breakableConn{Conn: client}}
	client.SetDeadline(time.Now().Add(HandshakeBudget(r.Timeout())))
	l.conn = r.Wrap(l.socket, r.Attempt(), r.login)
	r.t.Cleanup(func() {
		l.conn.Close()
		server.Close()
	})
	return l
}

// collect appends the frames that come from one end, and calls ended with the error
// that follows them.
func (l *link) collect(from io.Reader, frames *[][]byte, ended func(error)) {
	for {
		frame, err := jute.ReadFrame(from, 1<<30)
		l.mu.Lock()
		if err != nil {
			ended(err)
			l.mu.Unlock()
			return
		}
		if !l.comparesNothing(frame) && !l.requiresNothing(frame) {
			*frames = append(*frames, frame)
		}
		l.mu.Unlock()
	}
}

// comparesNothing answers a resumed connection's own request for the session's ephemeral znodes,
// unless the test does so: there are none.
func (l *link) comparesNothing(frame []byte) bool {
	if l.hasZnodes || jute.NewDecoder(frame[4:]).Int32() != xidEphemerals {
		return false
	}
	go l.server.Write(reply(xidEphemerals, 0, 0, 0, 0, 0, 0))
	return true
}

// requiresNothing answers the ping of a handshake, unless the test does so: the server requires no
// Login.
func (l *link) requiresNothing(frame []byte) bool {
	if l.hasPing || jute.NewDecoder(frame[4:]).Int32() != jute.XidPing || l.conn.session.ID() != 0 {
		return false
	}
	go l.server.Write(pong())
	return true
}

// dialWithoutReader makes a connection on which go-zookeeper does not read yet.
func (r *rig) dialWithoutReader() *link {
	l := r.pipe()
	go l.collect(l.server, &l.toServer, func(error) { l.closed = true })
	return l
}

// dial makes a connection on which go-zookeeper reads.
func (r *rig) dial() *link {
	l := r.dialWithoutReader()
	go l.collect(l.conn, &l.toClient, func(err error) { l.ended = err })
	return l
}

// handshake makes a connection and sends the ConnectRequest, which the server answers.
func (r *rig) handshake(answers ...[]byte) *link {
	r.t.Helper()
	l := r.dial()
	l.write(connectRequest(r.ID()))
	l.answer(answers...)
	return l
}

// connect makes a connection and does the handshake. It discards the frames of
// the handshake.
func (r *rig) connect() *link {
	r.t.Helper()
	l := r.handshake(welcome())
	l.sent()
	l.read()
	return l
}

// resume closes the connection on the server's side and makes the next one.
func (r *rig) resume(l *link) *link {
	r.t.Helper()
	l.server.Close()
	r.reported()
	return r.connect()
}

// resumeAlone is like resume, but the test itself answers the request for the session's ephemeral
// znodes. The frames of the handshake are not discarded.
func (r *rig) resumeAlone(last *link) *link {
	r.t.Helper()
	last.server.Close()
	r.reported()
	l := r.dial()
	l.mu.Lock()
	l.hasZnodes = true
	l.mu.Unlock()
	l.write(connectRequest(r.ID()))
	l.answer(welcome())
	return l
}

// gated returns the second connection of a session, which is told about watches on the data of paths.
// Its gate is shut until armed is called.
func (r *rig) gated(paths ...string) *link {
	r.t.Helper()
	first := r.connect()
	r.watches.Data = paths
	return r.resume(first)
}

// armed answers the first setWatches.
func (l *link) armed() { l.answer(reply(xidFirstCall, 0, 0)) }

// connectStalled makes a connection whose server reads nothing after the
// handshake.
func (r *rig) connectStalled() *link {
	r.t.Helper()
	l := r.pipe()
	go func() {
		if _, err := jute.ReadFrame(l.server, 4096); err == nil {
			go jute.ReadFrame(l.server, 4096)
			l.server.Write(append(welcome(), pong()...))
		}
	}()
	l.write(connectRequest(r.ID()))
	_, err := jute.ReadFrame(l.conn, 4096)
	require.NoError(r.t, err)
	go io.Copy(io.Discard, l.conn)
	r.reported()
	return l
}

// wrapQuiet returns a Session without a record, and its first Conn.
func wrapQuiet(nc net.Conn, timeout time.Duration, creds ...Credential) (*Session, *Conn) {
	s := NewSession(Config{
		Timeout: timeout, Credentials: creds, MaxRequest: jute.MaxFrame,
		Watches: func() Watches { return Watches{} }, Event: func(Event) {}, Up: func(uint64) {}, Down: func(uint64, Lost) {}, Ephemerals: func([]string, bool) {},
	})
	return s, s.Wrap(nc, s.Attempt(), nil)
}

// write sends frames as go-zookeeper does: it reuses its buffer, and must not
// get an error.
func (l *link) write(frames ...[]byte) {
	l.t.Helper()
	for _, frame := range frames {
		buf := slices.Clone(frame)
		n, err := l.conn.Write(buf)
		require.NoError(l.t, err)
		require.Equal(l.t, len(frame), n)
		clear(buf)
	}
	synctest.Wait()
}

// answer sends frames from the server.
func (l *link) answer(frames ...[]byte) {
	for _, frame := range frames {
		l.server.Write(frame) // fails once the Conn has closed
	}
	synctest.Wait()
}

// sent describes the requests that have reached the server since the last call.
func (l *link) sent() []string { return opNames(l.frames()) }

// opNames returns the operation and the xid of each request.
func opNames(frames [][]byte) []string {
	var names []string
	for _, frame := range frames {
		d := jute.NewDecoder(frame[4:])
		xid, op := d.Int32(), d.Int32()
		names = append(names, fmt.Sprintf("%s %d", jute.OpName(op), xid))
	}
	return names
}

// frames is like sent, but returns the frames.
func (l *link) frames() [][]byte { return l.take(&l.toServer) }

// read returns the frames that go-zookeeper has read since the last call.
func (l *link) read() [][]byte { return l.take(&l.toClient) }

func (l *link) take(from *[][]byte) [][]byte {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	frames := *from
	*from = nil
	return frames
}

// down returns why the connection was closed, or nil while it is open. Both
// sides must agree.
func (l *link) down() error {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Equal(l.t, l.ended != nil, l.closed, "only one side is closed: %v", l.ended)
	require.Equal(l.t, l.conn.closedBy(), l.ended)
	return l.ended
}

func (l *link) requireUp() {
	l.t.Helper()
	require.NoError(l.t, l.down())
}

func connectRequest(id int64) []byte {
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
	b = jute.AppendInt32(b, int32(sessionTimeout/time.Millisecond))
	return jute.Frame(jute.AppendBuffer(jute.AppendInt64(b, id), make([]byte, 16)))
}

func connectReply(timeout time.Duration, id int64) []byte {
	b := jute.AppendInt32(jute.AppendInt32(nil, 0), int32(timeout/time.Millisecond))
	b = jute.AppendBuffer(jute.AppendInt64(b, id), []byte("sixteen bytes..."))
	return jute.Frame(append(b, 0)) // not read-only
}

// welcome is the answer to a ConnectRequest of this session.
func welcome() []byte { return connectReply(sessionTimeout, sessionID) }

func requestFrame(xid, op int32, body ...byte) []byte {
	return jute.Frame(append(header(xid, op), body...))
}

func ping() []byte { return requestFrame(jute.XidPing, jute.OpPing) }
func pong() []byte { return reply(jute.XidPing, 0, 0) }

func reply(xid int32, zxid int64, code int32, body ...byte) []byte {
	b := jute.AppendInt64(jute.AppendInt32(nil, xid), zxid)
	return jute.Frame(append(jute.AppendInt32(b, code), body...))
}

func event(typ int32, path string) []byte { return eventOf(-1, typ, path) }

// eventOf is an event of the transaction with that zxid, as servers since 3.9 send it.
func eventOf(zxid int64, typ int32, path string) []byte {
	b := jute.AppendInt32(jute.AppendInt32(nil, typ), 3) // SyncConnected
	return reply(jute.XidEvent, zxid, 0, jute.AppendString(b, path)...)
}
