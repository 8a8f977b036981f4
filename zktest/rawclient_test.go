package zktest

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// rawClient is a client that reads and writes single frames.
type rawClient struct {
	t       testing.TB
	nc      net.Conn
	id      int64
	timeout time.Duration
	pass    []byte
}

func dialRaw(t testing.TB, srv *Server) *rawClient {
	t.Helper()
	nc, err := srv.Dial("", "", time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &rawClient{t: t, nc: nc}
}

// dialSession returns a client that has a session: a new one if id is 0, or the
// one with this ID. If the server refuses the session, the client's id is 0.
func dialSession(t testing.TB, srv *Server, id int64, pass []byte, seen int64) *rawClient {
	t.Helper()
	c := dialRaw(t, srv)
	c.handshake(id, pass, seen)
	return c
}

func (c *rawClient) handshake(id int64, pass []byte, seen int64) {
	c.t.Helper()
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), seen)
	b = jute.AppendBuffer(jute.AppendInt64(jute.AppendInt32(b, 10000), id), pass)
	c.write(jute.Frame(jute.AppendBool(b, false))) // readOnly
	frame, err := jute.ReadFrame(c.nc, 1<<20)
	if err != nil {
		return // refused
	}
	require.Len(c.t, frame, 4+4+4+8+20+1)
	d := jute.NewDecoder(frame[4:])
	d.Int32()
	c.timeout = time.Duration(d.Int32()) * time.Millisecond
	c.id, c.pass = d.Int64(), d.Buffer()
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	_, err := c.nc.Write(b)
	require.NoError(c.t, err)
}

func frame(xid, op int32, record []byte) []byte {
	return jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, xid), op), record...))
}

type response struct {
	xid, err int32
	zxid     int64
	*jute.Decoder
}

func (c *rawClient) read() response {
	c.t.Helper()
	f, err := jute.ReadFrame(c.nc, 1<<24)
	require.NoError(c.t, err)
	d := jute.NewDecoder(f[4:])
	a := response{xid: d.Int32(), zxid: d.Int64(), err: d.Int32(), Decoder: d}
	require.NoError(c.t, d.Err)
	return a
}

// roundTrip sends a request and returns its reply. The reply must be the next
// frame.
func (c *rawClient) roundTrip(op int32, record []byte) response {
	c.t.Helper()
	c.write(frame(7, op, record))
	a := c.read()
	require.Equal(c.t, int32(7), a.xid)
	return a
}

// create creates a znode.
func (c *rawClient) create(path string, flags int32) {
	c.t.Helper()
	require.Zero(c.t, c.roundTrip(jute.OpCreate, createRecord(path, flags)).err)
}

// exists reports whether there is a znode.
func (c *rawClient) exists(path string) bool {
	c.t.Helper()
	code := c.roundTrip(jute.OpExists, append(pathRecord(path), 0)).err
	require.Contains(c.t, []int32{0, jute.ErrNoNode}, code)
	return code == 0
}

// list returns the children of path.
func (c *rawClient) list(path string) []string {
	c.t.Helper()
	reply := c.roundTrip(jute.OpGetChildren, append(pathRecord(path), 0))
	require.Zero(c.t, reply.err)
	return reply.Strings()
}

// waitClosed waits for the server to close the connection.
func (c *rawClient) waitClosed() {
	c.t.Helper()
	_, err := c.nc.Read(make([]byte, 1))
	require.ErrorIs(c.t, err, io.EOF)
}

// event reads the next frame, which must be a watch event.
func (c *rawClient) event() (event int32, path string) {
	c.t.Helper()
	a := c.read()
	require.Equal(c.t, []int32{jute.XidEvent, 0}, []int32{a.xid, a.err})
	event = a.Int32()
	require.Equal(c.t, jute.StateConnected, a.Int32())
	return event, a.String()
}

type watchEvent struct {
	event int32
	path  string
}

// requireEvents reads events, which must be the next frames.
func (c *rawClient) requireEvents(want ...watchEvent) {
	c.t.Helper()
	for _, e := range want {
		event, path := c.event()
		require.Equal(c.t, e, watchEvent{event, path})
	}
}

func pathRecord(path string) []byte { return jute.AppendString(nil, path) }

func watchRecord(path string) []byte { return jute.AppendBool(pathRecord(path), true) }

func createRecord(path string, flags int32) []byte {
	return jute.AppendInt32(jute.AppendACLs(jute.AppendInt32(pathRecord(path), -1), openACL), flags)
}

func versionRecord(path string, version int32) []byte {
	return jute.AppendInt32(pathRecord(path), version)
}

func dataRecord(path, data string, version int32) []byte {
	return jute.AppendInt32(jute.AppendString(pathRecord(path), data), version)
}
