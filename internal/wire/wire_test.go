package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// Here the test is both go-zookeeper, above the wrapper, and the server below
// it. It runs in testing/synctest: time is exact, and after settle everything
// that could happen has happened, so what has not come will not come.

const (
	asked   = 10 * time.Second
	session = 0x5e55
)

// rig is a Session and what it has told.
type rig struct {
	*Session
	t      *testing.T
	leases atomic.Bool
	mu     sync.Mutex
	told   []string
}

// scripted runs a test with a Session in a bubble of its own.
func scripted(t *testing.T, creds []Credential, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		tell := func(format string, args ...any) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, fmt.Sprintf(format, args...))
		}
		r.Session = NewSession(Config{
			Timeout:     asked,
			Credentials: creds,
			Leases:      r.leases.Load,
			Armed:       func(path string, conn uint64) { tell("armed %s on %d", path, conn) },
			Event:       func(e Event) { tell("event %d %s on %d", e.Type, e.Path, e.Conn) },
			Up:          func(conn uint64) { tell("up %d", conn) },
			Down:        func(conn uint64, err error) { tell("down %d: %v", conn, err) },
		})
		f(t, r)
	})
}

// heard returns what the Session has told since the last time.
func (r *rig) heard() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return told
}

// link is a connection with both its ends.
type link struct {
	t      *testing.T
	conn   *Conn // go-zookeeper's end
	socket *breakable
	server net.Conn // the server's end

	mu     sync.Mutex
	below  [][]byte // frames that reached the server
	above  [][]byte // frames that go-zookeeper has read
	ended  error    // what Read failed with
	closed bool     // the server's end has seen the connection go
}

// breakable is a connection whose writes can be made to fail.
type breakable struct {
	net.Conn
	broken atomic.Bool
}

var errBroken = errors.New("broken")

func (c *breakable) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errBroken
	}
	return c.Conn.Write(p)
}

// bare makes a connection on which go-zookeeper does not read yet.
func (r *rig) bare() *link {
	client, server := net.Pipe()
	l := &link{t: r.t, server: server, socket: &breakable{Conn: client}}
	client.SetDeadline(time.Now().Add(HandshakeBudget(r.Timeout())))
	l.conn = r.Wrap(l.socket, r.Attempt())
	go func() {
		for {
			frame, err := jute.ReadFrame(server, 1<<30)
			l.mu.Lock()
			l.closed = err != nil
			if err == nil {
				l.below = append(l.below, frame)
			}
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	r.t.Cleanup(func() {
		l.conn.Close()
		server.Close()
	})
	return l
}

// dial makes a connection.
func (r *rig) dial() *link {
	l := r.bare()
	go func() {
		for {
			frame, err := jute.ReadFrame(l.conn, 1<<30)
			l.mu.Lock()
			l.ended = err
			if err == nil {
				l.above = append(l.above, frame)
			}
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l
}

// connect makes a connection and the handshake, and forgets what was sent and
// told for it.
func (r *rig) connect() *link {
	r.t.Helper()
	l := r.dial()
	l.write(connectRequest(r.ID()))
	l.answer(welcoming(asked, session))
	l.sent()
	l.read()
	return l
}

// resume loses the connection and makes the next one.
func (r *rig) resume(l *link) *link {
	r.t.Helper()
	l.server.Close()
	r.heard()
	return r.connect()
}

// write is what go-zookeeper's sending side does: it reuses its buffer, and
// must not hear of errors.
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
		l.server.Write(frame) // fails once the wrapper has closed
	}
	synctest.Wait()
}

// sent returns which requests have reached the server since the last time.
func (l *link) sent() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, frame := range l.below {
		d := jute.NewDecoder(frame[4:])
		xid, op := d.Int32(), d.Int32()
		names = append(names, fmt.Sprintf("%s %d", jute.OpName(op), xid))
	}
	l.below = nil
	return names
}

// frames returns the requests themselves.
func (l *link) frames() [][]byte {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	frames := l.below
	l.below = nil
	return frames
}

// read returns what go-zookeeper has read since the last time.
func (l *link) read() [][]byte {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	frames := l.above
	l.above = nil
	return frames
}

// down returns what ended the connection, nil while it lives. Both sides must
// have heard of it.
func (l *link) down() error {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Equal(l.t, l.ended != nil, l.closed, "one side is down: %v", l.ended)
	require.Equal(l.t, l.conn.Cause(), l.ended)
	return l.ended
}

func (l *link) requireUp() {
	l.t.Helper()
	require.NoError(l.t, l.down())
}

func connectRequest(id int64) []byte {
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
	b = jute.AppendInt32(b, int32(asked/time.Millisecond))
	return jute.Frame(jute.AppendBuffer(jute.AppendInt64(b, id), make([]byte, 16)))
}

func welcoming(timeout time.Duration, id int64) []byte {
	b := jute.AppendInt32(jute.AppendInt32(nil, 0), int32(timeout/time.Millisecond))
	b = jute.AppendBuffer(jute.AppendInt64(b, id), []byte("sixteen bytes..."))
	return jute.Frame(append(b, 0)) // not read-only
}

func requesting(xid, op int32, body ...byte) []byte {
	return jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, xid), op), body...))
}

// reading is a request that reads path, with a watch or without.
func reading(xid, op int32, path string, watch bool) []byte {
	body := append(jute.AppendString(nil, path), 0)
	if watch {
		body[len(body)-1] = 1
	}
	return requesting(xid, op, body...)
}

func setWatches(xid int32, data, exist, child []string) []byte {
	b := jute.AppendInt64(nil, 0)
	for _, paths := range [][]string{data, exist, child} {
		b = jute.AppendInt32(b, int32(len(paths)))
		for _, path := range paths {
			b = jute.AppendString(b, path)
		}
	}
	return requesting(xid, jute.OpSetWatches, b...)
}

func ping() []byte { return requesting(jute.XidPing, jute.OpPing) }

func reply(xid int32, zxid int64, code int32, body ...byte) []byte {
	b := jute.AppendInt64(jute.AppendInt32(nil, xid), zxid)
	return jute.Frame(append(jute.AppendInt32(b, code), body...))
}

func event(typ int32, path string) []byte {
	b := jute.AppendInt32(jute.AppendInt32(nil, typ), 3) // SyncConnected
	return reply(jute.XidEvent, -1, 0, jute.AppendString(b, path)...)
}

// watching sets a data watch on each path and has it answered.
func (l *link) watching(paths ...string) {
	for i, path := range paths {
		xid := int32(1000 + i)
		l.write(reading(xid, jute.OpGetData, path, true))
		l.answer(reply(xid, 0, 0))
	}
	l.sent()
	l.read()
}

// The handshake.

func TestAConnectionIsUpWhenTheResponseHasBeenHandedUp(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		require.Empty(t, r.heard())
		require.Zero(t, r.ID())
		response := welcoming(4*time.Second, session)
		l.answer(response)
		require.Equal(t, []string{"up 1"}, r.heard())
		require.Equal(t, [][]byte{response}, l.read(), "unchanged")
		require.Equal(t, int64(session), r.ID())
		require.Equal(t, 4*time.Second, r.Timeout(), "the server's, not the one asked for")
		l.requireUp()
	})
}

func TestTheTimeoutMayChangeWithTheServer(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		require.Equal(t, asked, r.Timeout())
		l.server.Close()
		l = r.dial()
		l.write(connectRequest(session))
		l.answer(welcoming(6*time.Second, session))
		l.requireUp()
		require.Equal(t, 6*time.Second, r.Timeout())
		require.Equal(t, 5940*time.Millisecond, time.Until(r.ValidUntil()))
	})
}

func TestCredentialsAreAnsweredBeforeTheResponseIsHandedUp(t *testing.T) {
	creds := []Credential{{Scheme: "digest", Auth: []byte("user:password")}, {Scheme: "x509", Auth: []byte{1}, Optional: true}}
	scripted(t, creds, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		l.frames()
		response := welcoming(asked, session)
		l.answer(response)

		frames := l.frames()
		require.Len(t, frames, 2)
		for i, frame := range frames {
			d := jute.NewDecoder(frame[4:])
			require.Equal(t, jute.XidAuth, d.Int32())
			require.Equal(t, jute.OpAuth, d.Int32())
			require.Zero(t, d.Int32())
			require.Equal(t, creds[i].Scheme, d.String())
			require.Equal(t, creds[i].Auth, d.Buffer())
			require.NoError(t, d.Err)
		}
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Empty(t, l.read(), "one answer is missing")
		require.Empty(t, r.heard())
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Equal(t, [][]byte{response}, l.read(), "and nothing of the answers")
		require.Equal(t, []string{"up 1"}, r.heard())
	})
}

func TestARefusedCredentialIsAnAuthErrorThatHoldsNoSecret(t *testing.T) {
	scripted(t, []Credential{{Scheme: "digest", Auth: []byte("user:hush")}}, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		l.answer(welcoming(asked, session), reply(jute.XidAuth, 0, jute.ErrAuthFailed))
		var refused *AuthError
		require.ErrorAs(t, l.down(), &refused)
		require.Equal(t, "digest", refused.Scheme)
		require.NotContains(t, refused.Error(), "hush")
		require.Empty(t, l.read())
		require.False(t, r.Refused(0), "it is not optional, and is tried again")
		require.Zero(t, r.ID(), "not adopted")
	})
}

func TestAnOptionalCredentialThatWasRefusedIsLeftOutNextTime(t *testing.T) {
	creds := []Credential{{Scheme: "x509"}, {Scheme: "digest", Optional: true}}
	scripted(t, creds, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		l.answer(welcoming(asked, session), reply(jute.XidAuth, 0, 0), reply(jute.XidAuth, 0, jute.ErrAuthFailed))
		require.Error(t, l.down())
		require.True(t, r.Refused(1))

		l = r.dial()
		l.write(connectRequest(0))
		l.sent()
		l.answer(welcoming(asked, session))
		require.Equal(t, []string{"auth -4"}, l.sent())
		l.answer(reply(jute.XidAuth, 0, 0))
		l.requireUp()
		require.Len(t, l.read(), 1)
	})
}

func TestAConnectionCutAmongTheCredentialsLeavesTheSessionAsItWas(t *testing.T) {
	creds := []Credential{{Scheme: "digest"}, {Scheme: "digest", Optional: true}}
	for _, answers := range []int{0, 1} {
		scripted(t, creds, func(t *testing.T, r *rig) {
			l := r.dial()
			l.write(connectRequest(0))
			l.answer(welcoming(asked, session), reply(jute.XidAuth, 0, 0), reply(jute.XidAuth, 0, 0))
			l.requireUp()
			before := r.ValidUntil()
			l.server.Close()
			time.Sleep(time.Second)

			l = r.dial()
			l.write(connectRequest(session))
			l.answer(welcoming(asked, session))
			for range answers {
				l.answer(reply(jute.XidAuth, 0, 0))
			}
			l.server.Close()
			require.ErrorContains(t, l.down(), "handshake")
			require.Empty(t, l.read())
			require.False(t, r.Over())
			require.False(t, r.Refused(1))
			require.Equal(t, before, r.ValidUntil(), "answers to credentials prove nothing")
		})
	}
}

func TestIDZeroEndsTheSessionAndTheSocket(t *testing.T) {
	scripted(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		l.answer(welcoming(asked, session), reply(jute.XidAuth, 0, 0))
		l.requireUp()
		l.server.Close()
		r.heard()

		l = r.dial()
		l.write(connectRequest(session))
		l.sent()
		expired := welcoming(0, 0)
		l.answer(expired)
		require.Equal(t, [][]byte{expired}, l.read(), "go-zookeeper has to hear of it")
		require.ErrorIs(t, l.down(), errExpired)
		require.Empty(t, l.sent(), "no credentials for a session that is over")
		require.Equal(t, []string{"down 2: session has expired"}, r.heard())
		require.True(t, r.Over())

		// go-zookeeper asks for a new session next.
		l = r.dial()
		l.write(connectRequest(0))
		require.Error(t, l.down())
		require.Empty(t, l.sent())
	})
}

func TestAConnectRequestForAnotherSessionDoesNotReachTheServer(t *testing.T) {
	for _, id := range []int64{0, session + 1} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.server.Close()
			l = r.dial()
			l.write(connectRequest(id))
			require.ErrorContains(t, l.down(), "0x5e55")
			require.Empty(t, l.sent())
			require.False(t, r.Over())
		})
	}
}

func TestAnAnswerWithAnotherSessionIsRefused(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.server.Close()
		l = r.dial()
		l.write(connectRequest(session))
		l.answer(welcoming(asked, session+1))
		require.ErrorContains(t, l.down(), "0x5e56 instead of 0x5e55")
		require.Empty(t, l.read())
		require.Equal(t, int64(session), r.ID())
		require.False(t, r.Over())
	})
}

func TestGarbageInsteadOfAConnectResponse(t *testing.T) {
	for name, garbage := range map[string][]byte{
		"a web server":    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a TLS alert":     {0x15, 3, 1, 0, 2, 2, 0x46},
		"an SSH server":   []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"zeros":           make([]byte, 64),
		"an empty frame":  jute.Frame(nil),
		"half a response": jute.Frame(welcoming(asked, session)[4:16]),
		"no password":     jute.Frame(welcoming(asked, session)[4:20]),
		"a password too long": jute.Frame(jute.AppendInt32(
			slices.Clone(welcoming(asked, session)[4:20]), 1<<20)),
		"a frame too long":  jute.AppendInt32(nil, maxConnectResponse+1),
		"a negative length": jute.AppendInt32(nil, -1),
		"nothing":           nil,
		"half a length":     {0, 0},
		"half a frame":      welcoming(asked, session)[:20],
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, nil, func(t *testing.T, r *rig) {
				l := r.dial()
				l.write(connectRequest(0))
				l.answer(garbage)
				l.server.Close()
				require.ErrorContains(t, l.down(), "handshake")
				require.Empty(t, l.read(), "go-zookeeper must not see it")
				require.Zero(t, r.ID())
				require.False(t, r.Over())
				require.Len(t, r.heard(), 1)
			})
		})
	}
}

func TestGarbageInsteadOfAnAnswerToACredential(t *testing.T) {
	for _, garbage := range [][]byte{
		[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), jute.Frame(nil), reply(7, 0, 0), event(jute.EventDeleted, "/a"),
		jute.Frame(jute.AppendInt32(nil, jute.XidAuth)),
	} {
		scripted(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
			l := r.dial()
			l.write(connectRequest(0))
			l.answer(welcoming(asked, session), garbage)
			require.ErrorContains(t, l.down(), "handshake")
			require.Empty(t, l.read())
			require.Zero(t, r.ID())
		})
	}
}

func TestAServerThatNeverAnswersIsLeftWhenTheBudgetIsSpent(t *testing.T) {
	for _, answer := range [][]byte{nil, welcoming(asked, session)[:10], welcoming(asked, session)} {
		scripted(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
			l := r.dial()
			l.write(connectRequest(0))
			l.conn.SetReadDeadline(time.Now().Add(time.Hour)) // go-zookeeper's
			l.answer(answer)
			time.Sleep(HandshakeBudget(asked) - 1)
			l.requireUp()
			time.Sleep(time.Nanosecond)
			var late net.Error
			require.ErrorAs(t, l.down(), &late)
			require.True(t, late.Timeout())
		})
	}
}

func TestTheHandshakeMayTakeASixthOfTheTimeoutButNotTooLittle(t *testing.T) {
	for timeout, budget := range map[time.Duration]time.Duration{
		60 * time.Second: 10 * time.Second,
		12 * time.Second: 2 * time.Second,
		6 * time.Second:  time.Second,
		5 * time.Second:  time.Second,
		4 * time.Second:  time.Second,
		2 * time.Second:  500 * time.Millisecond,
	} {
		require.Equal(t, budget, HandshakeBudget(timeout), "%v", timeout)
	}
}

// The zxid.

// relative returns the zxid in a setWatches that reached the server.
func relative(t *testing.T, frames [][]byte) int64 {
	t.Helper()
	require.Len(t, frames, 1)
	d := jute.NewDecoder(frames[0][4:])
	d.Int32()
	require.Equal(t, jute.OpSetWatches, d.Int32())
	return d.Int64()
}

// lastSeen returns the zxid in a ConnectRequest that reached the server.
func lastSeen(t *testing.T, frames [][]byte) int64 {
	t.Helper()
	require.Len(t, frames, 1)
	d := jute.NewDecoder(frames[0][4:])
	require.Zero(t, d.Int32())
	return d.Int64()
}

func TestGoZookeeperSeesNoZxid(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(reading(1, jute.OpGetData, "/a", false), reading(2, jute.OpGetData, "/b", false))
		l.answer(reply(1, 70, 0, 'x'), reply(2, 71, jute.ErrNoNode))
		require.Equal(t, [][]byte{reply(1, 0, 0, 'x'), reply(2, 0, jute.ErrNoNode)}, l.read())
	})
}

func TestConnectRequestsAndSetWatchesBearTheHighestZxidOfAReply(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.watching("/a")
		l.write(reading(1, jute.OpGetData, "/b", false), requesting(2, jute.OpDelete), ping())
		l.answer(reply(1, 70, 0), reply(2, 71, jute.ErrNoNode)) // an error has a zxid too
		l.answer(reply(jute.XidPing, 90, 0), event(jute.EventDeleted, "/c"))
		l.server.Close()

		l = r.dial()
		l.write(connectRequest(session))
		require.Equal(t, int64(71), lastSeen(t, l.frames()))
		l.answer(welcoming(asked, session))
		l.write(setWatches(3, []string{"/a"}, nil, nil))
		require.Equal(t, int64(71), relative(t, l.frames()))
	})
}

// A drop after the first of two setWatches must not make the second be compared
// with a moment at which its watches were not armed.
func TestTheReplyToSetWatchesAdvancesNoZxid(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.watching("/a", "/b")
		l.write(reading(1, jute.OpGetData, "/", false))
		l.answer(reply(1, 70, 0))
		l = r.resume(l)
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 99, 0))
		l.sent()
		l.write(setWatches(3, []string{"/b"}, nil, nil))
		require.Equal(t, int64(70), relative(t, l.frames()), "nor on the same connection")
		l.server.Close()
		l = r.dial()
		l.write(connectRequest(session))
		require.Equal(t, int64(70), lastSeen(t, l.frames()))
	})
}

// Like everything else that a reply brings about: go-zookeeper has to have read
// it whole, or its table of watches and the mirror differ.
func TestAReplyCountsWhenItsLastByteHasBeenHandedUp(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.bare()
		take := func(n int) {
			_, err := io.ReadFull(l.conn, make([]byte, n))
			require.NoError(t, err)
			synctest.Wait()
		}
		l.write(connectRequest(0))
		response := welcoming(asked, session)
		go l.server.Write(response)
		take(len(response) - 1)
		require.Empty(t, r.heard())
		require.Zero(t, r.ID())
		take(1)
		require.Equal(t, []string{"up 1"}, r.heard())
		require.Equal(t, int64(session), r.ID())

		l.write(reading(1, jute.OpGetData, "/a", true))
		answer := reply(1, 70, 0, 'd', 'a', 't', 'a')
		go l.server.Write(answer)
		take(len(answer) - 1)
		require.Empty(t, r.heard())
		require.Zero(t, r.lastSeenZxid())
		take(1)
		require.Equal(t, []string{"armed /a on 1"}, r.heard())
		require.Equal(t, int64(70), r.lastSeenZxid())

		fired := event(jute.EventDeleted, "/a")
		go l.server.Write(fired)
		take(len(fired) - 1)
		require.Empty(t, r.heard())
		take(1)
		require.Equal(t, []string{"event 2 /a on 1"}, r.heard())
	})
}

// The mirror of go-zookeeper's table of watches.

// armed returns the watches that the next connection has to arm again.
func (r *rig) armed() []string {
	r.Session.mu.Lock()
	defer r.Session.mu.Unlock()
	var names []string
	for w := range r.watches {
		names = append(names, [...]string{"data ", "exist ", "child "}[w.kind]+w.path)
	}
	slices.Sort(names)
	return names
}

func TestTheMirrorHoldsWhatGoZookeeperHolds(t *testing.T) {
	type setting struct {
		op    int32
		watch bool
		code  int32
		armed string // "" for none
	}
	for _, c := range []setting{
		{jute.OpGetData, true, 0, "data /a"},
		{jute.OpGetData, false, 0, ""},
		{jute.OpGetData, true, jute.ErrNoNode, ""},
		{jute.OpGetData, true, -102, ""}, // NoAuth
		{jute.OpExists, true, 0, "data /a"},
		{jute.OpExists, true, jute.ErrNoNode, "exist /a"},
		{jute.OpExists, true, -102, ""},
		{jute.OpExists, false, 0, ""},
		{jute.OpGetChildren, true, 0, "child /a"},
		{jute.OpGetChildren2, true, 0, "child /a"},
		{jute.OpGetChildren2, true, jute.ErrNoNode, ""},
		{jute.OpGetChildren2, false, 0, ""},
	} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.write(reading(1, c.op, "/a", c.watch))
			require.Empty(t, r.armed(), "not answered yet")
			l.answer(reply(1, 1, c.code))
			var want []string
			if c.armed != "" {
				want = []string{c.armed}
			}
			require.Equal(t, want, r.armed(), "%+v", c)
			told := slices.Contains(r.heard(), "armed /a on 1")
			require.Equal(t, c.armed == "data /a", told, "%+v", c)
		})
	}
}

func TestEventsTakeFromTheMirrorWhatGoZookeeperDrops(t *testing.T) {
	for typ, left := range map[int32][]string{
		jute.EventCreated:         {"child /a", "data /a", "data /b"},
		jute.EventDataChanged:     {"child /a", "data /b"},
		jute.EventChildrenChanged: {"data /a", "data /b", "exist /a"},
		jute.EventDeleted:         {"data /b"},
		-2:                        {"child /a", "data /a", "data /b", "exist /a"},
	} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.watching("/a", "/b")
			l.write(reading(1, jute.OpExists, "/a", true), reading(2, jute.OpGetChildren2, "/a", true))
			l.answer(reply(1, 0, jute.ErrNoNode), reply(2, 0, 0))
			require.Equal(t, []string{"child /a", "data /a", "data /b", "exist /a"}, r.armed())
			l.answer(event(typ, "/a"))
			require.Equal(t, left, r.armed(), "event %d", typ)
		})
	}
}

// The gate.

func TestANewSessionHasNoGate(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		r.leases.Store(true)
		l := r.connect()
		require.Equal(t, []string{"up 1"}, r.heard())
		l.write(reading(1, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 1"}, l.sent())
	})
}

func TestAResumedConnectionWithoutWatchesHasNoGate(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.resume(r.connect())
		require.Equal(t, []string{"up 2"}, r.heard())
		l.write(reading(1, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 1"}, l.sent())
	})
}

func TestTheGateHoldsAllButSetWatchesPingAndClose(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a")
		l := r.resume(first)
		require.Empty(t, r.heard(), "not up yet")
		var held []string
		for i, op := range []int32{
			jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpGetACL, jute.OpSetACL,
			jute.OpGetChildren, jute.OpSync, jute.OpGetChildren2, jute.OpCheck, jute.OpMulti, jute.OpCreateContainer,
			jute.OpAuth, 21, 16, // createTTL, reconfig
		} {
			l.write(reading(int32(i+1), op, "/a", false))
			held = append(held, fmt.Sprintf("%s %d", jute.OpName(op), i+1))
		}
		require.Empty(t, l.sent())
		l.write(ping(), setWatches(50, []string{"/a"}, nil, nil))
		require.Equal(t, []string{"ping -2", "setWatches 50"}, l.sent())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Empty(t, l.sent())
		require.Empty(t, r.heard())
		l.answer(reply(50, 0, 0))
		require.Equal(t, held, l.sent(), "in order")
		require.Equal(t, []string{"up 2"}, r.heard())
		require.Len(t, l.read(), 2, "the replies to ping and setWatches are go-zookeeper's")
		l.write(reading(60, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 60"}, l.sent(), "open for good")

		l = r.resume(l)
		l.write(requesting(61, jute.OpDelete), requesting(62, jute.OpClose))
		require.Equal(t, []string{"closeSession 62"}, l.sent())
	})
}

func TestHeldFramesAreCopies(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a")
		l := r.resume(first)
		frames := [][]byte{
			requesting(1, jute.OpSetData, []byte("first")...), requesting(2, jute.OpSetData, []byte("second")...),
		}
		l.write(frames...) // and clears its buffer
		l.write(setWatches(3, []string{"/a"}, nil, nil))
		l.frames()
		l.answer(reply(3, 0, 0))
		require.Equal(t, frames, l.frames())
	})
}

func TestTheGateOpensWhenEveryWatchIsCovered(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a", "/b")
		first.write(reading(1, jute.OpExists, "/a", true), reading(2, jute.OpGetChildren2, "/a", true))
		first.answer(reply(1, 0, jute.ErrNoNode), reply(2, 0, 0))
		l := r.resume(first)
		l.write(requesting(3, jute.OpSync))
		for xid, chunk := range [][]byte{
			setWatches(10, []string{"/a"}, nil, nil),
			setWatches(11, []string{"/other"}, nil, nil), // late, of an earlier connection
			setWatches(12, nil, []string{"/a"}, nil),
			setWatches(13, nil, nil, []string{"/a"}),
		} {
			l.write(chunk)
			l.answer(reply(int32(10+xid), 0, 0))
			require.NotContains(t, l.sent(), "sync 3")
		}
		l.write(setWatches(14, []string{"/b"}, nil, nil))
		require.Equal(t, []string{"setWatches 14"}, l.sent(), "sent, but not answered")
		l.answer(reply(14, 0, 0))
		require.Equal(t, []string{"sync 3"}, l.sent())
	})
}

// The server answers a setWatches for what changed meanwhile with events, which
// go before its reply.
func TestEventsOnTheWayDoNotKeepTheGateShut(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a", "/b")
		l := r.resume(first)
		l.write(requesting(1, jute.OpSync), setWatches(2, []string{"/a", "/b"}, nil, nil))
		l.answer(event(jute.EventDeleted, "/a"))
		require.Equal(t, []string{"event 2 /a on 2"}, r.heard())
		require.NotContains(t, l.sent(), "sync 1")
		l.answer(reply(2, 0, 0))
		require.Equal(t, []string{"sync 1"}, l.sent())
		require.Equal(t, []string{"data /b"}, r.armed())
	})
}

func TestSetWatchesAfterTheGateHasOpenedDoNoHarm(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a")
		l := r.resume(first)
		for xid := range int32(3) {
			l.write(setWatches(xid, []string{"/a"}, nil, nil))
			l.answer(reply(xid, 0, 0))
		}
		require.Equal(t, []string{"up 2"}, r.heard())
		l.write(requesting(9, jute.OpSync))
		require.Contains(t, l.sent(), "sync 9")
		l.requireUp()
	})
}

func TestAnErrorAnswerToSetWatchesEndsTheConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a")
		l := r.resume(first)
		l.write(requesting(1, jute.OpSync), setWatches(2, []string{"/a"}, nil, nil))
		l.sent()
		l.answer(reply(2, 0, -6)) // Unimplemented
		require.ErrorContains(t, l.down(), "error -6")
		require.Empty(t, l.sent())
		require.Equal(t, []string{"data /a"}, r.armed(), "the next connection tries again")
	})
}

func TestWatchesNotCoveredWithinHalfTheTimeoutEndTheConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a", "/b")
		l := r.resume(first)
		began := time.Now()
		l.write(requesting(1, jute.OpSync), setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		for time.Since(began) < asked/2-time.Second { // it answers everything else
			time.Sleep(time.Second)
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
		}
		time.Sleep(asked/2 - time.Since(began) - 1)
		l.requireUp()
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, l.sent(), "sync 1")
		require.Len(t, r.heard(), 1)
	})
}

func TestWithALeaseOutTheGateOpensBehindASync(t *testing.T) {
	for _, watches := range [][]string{nil, {"/a"}} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			first := r.connect()
			first.watching(watches...)
			r.leases.Store(true)
			first.server.Close()
			r.heard()
			l := r.dial()
			l.write(connectRequest(session))
			l.answer(welcoming(asked, session))
			l.read()
			l.write(reading(1, jute.OpGetData, "/x", false))
			if watches != nil {
				l.write(setWatches(2, watches, nil, nil))
				time.Sleep(time.Second)
				require.NotContains(t, l.sent(), "sync -1000", "the watches come first")
				l.answer(reply(2, 0, 0))
				require.Len(t, l.read(), 1)
				require.Equal(t, []string{"sync -1000"}, l.sent())
			} else {
				require.Contains(t, l.sent(), "sync -1000")
			}
			require.Empty(t, r.heard(), "not up yet")
			sent := time.Now()
			time.Sleep(time.Second)
			l.answer(reply(xidSync, 80, 0, jute.AppendString(nil, "/")...))
			require.Equal(t, []string{"getData 1"}, l.sent())
			require.Empty(t, l.read(), "the answer is not go-zookeeper's")
			require.Equal(t, []string{"up 2"}, r.heard())
			require.Equal(t, int64(80), r.lastSeenZxid())
			require.Equal(t, sent.Add(granted), r.ValidUntil(), "it proves the session alive")
		})
	}
}

func TestASyncThatFailsOrIsNotAnsweredEndsTheConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		r.leases.Store(true)
		l := r.resume(r.connect())
		l.write(requesting(1, jute.OpDelete))
		l.answer(reply(xidSync, 0, jute.ErrConnectionLoss))
		require.ErrorContains(t, l.down(), "sync")

		l = r.connect()
		l.write(requesting(2, jute.OpDelete))
		for range 4 {
			l.requireUp()
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
			time.Sleep(asked / 8)
		}
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, l.sent(), "delete 2")
	})
}

func TestWhatIsHeldDoesNotOutliveTheConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a")
		l := r.resume(first)
		l.write(requesting(1, jute.OpDelete))
		l = r.resume(l) // go-zookeeper fails the request
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		require.Equal(t, []string{"setWatches 2"}, l.sent())
	})
}

// The clock.

func TestThereIsNoValidUntilBeforeAHandshake(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		require.Zero(t, r.ValidUntil())
		l.server.Close()
	})
}

const granted = asked - asked/100 // what an answer proves, from the sending on

func TestTheHandshakeCountsFromTheSendingOfTheConnectRequest(t *testing.T) {
	scripted(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
		l := r.dial()
		time.Sleep(100 * time.Millisecond)
		sent := time.Now()
		l.write(connectRequest(0))
		time.Sleep(100 * time.Millisecond)
		l.answer(welcoming(asked, session))
		time.Sleep(100 * time.Millisecond)
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Equal(t, sent.Add(granted), r.ValidUntil())
	})
}

func TestAnAnswerCountsFromTheSendingOfItsRequest(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for xid, code := range []int32{0, jute.ErrNoNode, -102, jute.ErrConnectionLoss} {
			time.Sleep(time.Second)
			sent := time.Now()
			l.write(requesting(int32(xid), jute.OpDelete))
			time.Sleep(time.Second)
			require.NotEqual(t, sent.Add(granted), r.ValidUntil(), "not answered yet")
			l.answer(reply(int32(xid), 0, code))
			require.Equal(t, sent.Add(granted), r.ValidUntil(), "error %d", code)
		}
	})
}

func TestAnswersThatSayNothingOfTheSessionDoNotCount(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l.write(requesting(1, jute.OpDelete), requesting(2, jute.OpDelete), requesting(3, jute.OpDelete))
		l.answer(
			reply(1, 0, jute.ErrSessionExpired), reply(2, 0, jute.ErrSessionMoved),
			reply(jute.XidAuth, 0, 0), event(jute.EventCreated, "/a"),
			reply(jute.XidPing, 0, 0), reply(77, 0, 0)) // nobody asked
		require.Equal(t, before, r.ValidUntil())
		require.Len(t, l.read(), 6)
		l.requireUp()
	})
}

func TestPingsAreMatchedInOrder(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		var sent []time.Time
		for range 3 {
			time.Sleep(time.Second)
			sent = append(sent, time.Now())
			l.write(ping())
		}
		for _, at := range sent {
			time.Sleep(100 * time.Millisecond)
			l.answer(reply(jute.XidPing, 0, 0))
			require.Equal(t, at.Add(granted), r.ValidUntil())
		}
	})
}

func TestAPingOfALostConnectionIsNotAnsweredOnTheNext(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(ping())
		time.Sleep(time.Second)
		l = r.resume(l)
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, sent.Add(granted), r.ValidUntil())
	})
}

func TestTheClockNeverGoesBack(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(requesting(1, jute.OpDelete))
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0), reply(1, 0, 0))
		require.Equal(t, sent.Add(granted), r.ValidUntil())
	})
}

// A request that waits at the gate is sent when the gate opens.
func TestAHeldRequestCountsFromWhenItWasSent(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.watching("/a")
		l := r.resume(first)
		l.write(requesting(1, jute.OpDelete))
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		require.Contains(t, l.sent(), "delete 1")
		time.Sleep(time.Second)
		l.answer(reply(1, 0, 0))
		require.Equal(t, sent.Add(granted), r.ValidUntil())
	})
}

// Errors, ends, deadlines.

func TestErrorsThatGoZookeeperHasNoNameForAreTranslated(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for code, seen := range map[int32]int32{
			jute.ErrConnectionLoss:   jute.ErrNothing,
			jute.ErrOperationTimeout: jute.ErrNothing,
			jute.ErrThrottled:        jute.ErrNothing,
			0:                        0,
			-5:                       -5,
			jute.ErrNoNode:           jute.ErrNoNode,
			jute.ErrSessionExpired:   jute.ErrSessionExpired,
			jute.ErrSessionMoved:     jute.ErrSessionMoved,
		} {
			l.write(requesting(1, jute.OpDelete))
			l.answer(reply(1, 5, code, 'x'))
			require.Equal(t, [][]byte{reply(1, 0, seen, 'x')}, l.read())
		}
	})
}

func TestWriteNeverFailsAndReadTellsWhy(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.socket.broken.Store(true)
		r.heard()
		l.write(requesting(1, jute.OpDelete)) // requires that there is no error
		require.ErrorIs(t, l.down(), errBroken)
		l.write(requesting(2, jute.OpDelete), ping())
		require.Equal(t, []string{"down 1: write: broken"}, r.heard(), "told once")

		l = r.dial()
		l.socket.broken.Store(true)
		l.write(connectRequest(session))
		require.ErrorIs(t, l.down(), errBroken)
		l.write([]byte{0, 0}, nil)

		l = r.dial()
		l.write([]byte{0, 0})
		require.ErrorIs(t, l.down(), jute.ErrShort)
		l = r.connect()
		l.write(jute.Frame([]byte{1, 2}))
		require.ErrorIs(t, l.down(), jute.ErrShort)
	})
}

func TestAServerThatDoesNotReadIsLeftAfterHalfTheTimeout(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		client, server := net.Pipe()
		defer server.Close()
		client.SetDeadline(time.Now().Add(time.Second))
		conn := r.Wrap(client, r.Attempt())
		go jute.ReadFrame(server, 100)
		conn.Write(connectRequest(0))
		go server.Write(welcoming(asked, session))
		_, err := jute.ReadFrame(conn, 100)
		require.NoError(t, err)
		began := time.Now()
		n, err := conn.Write(requesting(1, jute.OpDelete))
		require.NoError(t, err)
		require.Equal(t, 12, n)
		require.Equal(t, asked/2, time.Since(began))
		require.ErrorContains(t, conn.Cause(), "write")
	})
}

func TestSilenceForHalfTheTimeoutEndsTheConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.conn.SetDeadline(time.Now().Add(time.Hour)) // go-zookeeper's do not count
		l.conn.SetReadDeadline(time.Now().Add(time.Hour))
		for range 3 {
			time.Sleep(asked/2 - 1)
			l.requireUp()
			l.answer(event(jute.EventCreated, "/a")) // anything will do
		}
		time.Sleep(asked/2 - 1)
		l.write(ping()) // sending is not hearing
		l.requireUp()
		time.Sleep(time.Nanosecond)
		var late net.Error
		require.ErrorAs(t, l.down(), &late)
		require.True(t, late.Timeout())
	})
}

func TestDeadlinesOfGoZookeeperAreIgnored(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.dial()
		past := time.Now().Add(-time.Second)
		set := func() {
			require.NoError(t, l.conn.SetDeadline(past))
			require.NoError(t, l.conn.SetReadDeadline(past))
			require.NoError(t, l.conn.SetWriteDeadline(past))
		}
		set()
		l.write(connectRequest(0))
		l.answer(welcoming(asked, session))
		set()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Len(t, l.read(), 2)
		l.requireUp()
	})
}

func TestTheEndIsToldOnceWithItsFirstReason(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		r.heard()
		var wg sync.WaitGroup
		l.server.Close()
		for range 8 {
			wg.Go(func() { l.conn.Close() })
		}
		wg.Wait()
		require.Len(t, r.heard(), 1)
		require.Error(t, l.down())
		require.Equal(t, uint64(2), r.Attempt())
	})
}

// Whether the session still exists.

// answered returns a connection to a server that answers each frame with the
// next of answers and closes after the last.
func answered(t *testing.T, answers ...[]byte) (nc net.Conn, asked func() [][]byte) {
	client, server := net.Pipe()
	frames := make(chan [][]byte, 1)
	go func() {
		var got [][]byte
		defer func() {
			server.Close()
			frames <- got
		}()
		for {
			frame, err := jute.ReadFrame(server, 1<<20)
			if err != nil {
				return
			}
			got = append(got, frame)
			if len(answers) == 0 {
				return
			}
			server.Write(answers[0])
			answers = answers[1:]
		}
	}()
	t.Cleanup(func() { client.Close() })
	return client, func() [][]byte {
		client.Close()
		return <-frames
	}
}

func TestAskingPresentsTheSessionAndTheZxidOnlyIfItIsTo(t *testing.T) {
	for _, seen := range []bool{true, false} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.write(requesting(1, jute.OpDelete))
			l.answer(reply(1, 70, 0))
			l.server.Close()
			nc, sent := answered(t, welcoming(asked, session))
			known, err := r.Probe(nc, seen)
			require.NoError(t, err)
			require.True(t, known)
			require.False(t, r.Over())

			frames := sent()
			require.Len(t, frames, 1, "the session is not ended")
			zxid := int64(0) // which any server answers
			if seen {
				zxid = 70
			}
			require.Equal(t, zxid, lastSeen(t, frames))
			d := jute.NewDecoder(frames[0][16:])
			require.Equal(t, int32(asked/time.Millisecond), d.Int32())
			require.Equal(t, int64(session), d.Int64())
			require.Equal(t, "sixteen bytes...", d.String())
		})
	}
}

func TestAskingEndsTheSessionWhereItIsNotKnown(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		r.connect().server.Close()
		nc, _ := answered(t, welcoming(0, 0))
		known, err := r.Probe(nc, true)
		require.NoError(t, err)
		require.False(t, known)
		require.True(t, r.Over())

		l := r.dial() // go-zookeeper has not heard of it
		l.write(connectRequest(session))
		require.Error(t, l.down())
		require.Empty(t, l.sent())
	})
}

func TestAskingLeavesItOpenWhereThereIsNoAnswer(t *testing.T) {
	for name, answers := range map[string][][]byte{
		"closed without a word": nil,
		"another session":       {welcoming(asked, session+1)},
		"garbage":               {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n")},
		"too short":             {jute.Frame([]byte{1, 2, 3})},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, nil, func(t *testing.T, r *rig) {
				r.connect().server.Close()
				nc, _ := answered(t, answers...)
				known, err := r.Probe(nc, true)
				require.Error(t, err)
				require.False(t, known)
				require.False(t, r.Over())
			})
		})
	}
}

func TestCloseSessionEndsTheSession(t *testing.T) {
	for name, answers := range map[string][][]byte{
		"answered":       {welcoming(asked, session), reply(1, 80, 0)},
		"closed at once": {welcoming(asked, session)},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, nil, func(t *testing.T, r *rig) {
				r.connect().server.Close()
				nc, sent := answered(t, answers...)
				known, err := r.Probe(nc, false)
				require.NoError(t, err)
				require.True(t, known)
				require.NoError(t, r.CloseSession(nc))
				require.True(t, r.Over())
				require.Equal(t, requesting(1, jute.OpClose), sent()[1])
			})
		})
	}
	t.Run("garbage", func(t *testing.T) {
		scripted(t, nil, func(t *testing.T, r *rig) {
			r.connect().server.Close()
			nc, _ := answered(t, []byte{0xff, 0xff, 0xff, 0xff})
			require.Error(t, r.CloseSession(nc))
			require.False(t, r.Over())
		})
	})
}

func TestAConnectionIsSnubbedWhereTheServerClosesInPlaceOfAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(l *link)
		snubbed bool
	}{
		"closed":            {func(l *link) { l.server.Close() }, true},
		"silent":            {func(*link) { time.Sleep(asked) }, false},
		"closed by us":      {func(l *link) { l.conn.Close() }, false},
		"not at all":        {func(*link) {}, false},
		"id 0":              {func(l *link) { l.answer(welcoming(0, 0)) }, false},
		"closed afterwards": {func(l *link) { l.answer(welcoming(asked, session)); l.server.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
				l := r.dial()
				l.write(connectRequest(0))
				c.end(l)
				synctest.Wait()
				require.Equal(t, c.snubbed, !l.conn.Answered() && IsRejected(l.conn.Cause()))
			})
		})
	}
}

// Whatever bytes come, nothing panics and the reading ends.

func FuzzServer(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, random.IntN(64))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b, random.IntN(2) == 0)
	}
	for _, frame := range [][]byte{
		reply(1, 1, 0, 1, 2, 3), reply(2, 1, 0), reply(3, 1, 0), reply(jute.XidPing, 1, 0), reply(jute.XidAuth, 1, 0),
		reply(xidSync, 1, 0), event(jute.EventDeleted, "/a"), event(99, "\xff\x00"), jute.Frame(nil),
		reply(jute.XidEvent, 1, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xf0),
	} {
		f.Add(frame, true)
		f.Add(frame[:len(frame)-1], true)
		f.Add(append(slices.Clone(frame), frame...), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if !whole {
			data = jute.Frame(data)
		}
		for rest := data; len(rest) >= 4; { // lengths that would only cost memory
			n := int32(binary.BigEndian.Uint32(rest))
			if n > 1<<20 {
				t.Skip()
			}
			if n < 0 || int(n) > len(rest)-4 {
				break
			}
			rest = rest[4+n:]
		}
		client, server := net.Pipe()
		s := NewSession(Config{
			Timeout: asked, Leases: func() bool { return true },
			Armed: func(string, uint64) {}, Event: func(Event) {}, Up: func(uint64) {}, Down: func(uint64, error) {},
		})
		conn := s.Wrap(client, s.Attempt())
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, server) })
		wg.Go(func() {
			server.Write(welcoming(asked, session))
			server.Write(data)
			server.Close()
		})
		conn.Write(connectRequest(0))
		conn.Write(reading(1, jute.OpGetData, "/a", true))
		conn.Write(setWatches(2, []string{"/a"}, nil, nil))
		conn.Write(requesting(3, jute.OpDelete))
		conn.Write(ping())
		_, err := io.Copy(io.Discard, conn)
		wg.Wait()
		if err != nil || conn.Cause() != nil {
			return
		}
		t.Fatal("the connection has not ended")
	})
}

func FuzzHandshake(f *testing.F) {
	response := welcoming(asked, session)
	f.Add(response[4:])
	for _, n := range []int{0, 1, 4, 8, 16, 20, 30} {
		f.Add(response[4 : 4+n])
	}
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := net.Pipe()
		s := NewSession(Config{Timeout: asked, Credentials: []Credential{{Scheme: "digest"}},
			Leases: func() bool { return false }, Up: func(uint64) {}, Down: func(uint64, error) {}})
		conn := s.Wrap(client, s.Attempt())
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, server) })
		wg.Go(func() {
			server.Write(jute.Frame(data))
			server.Write(reply(jute.XidAuth, 0, 0))
			server.Close()
		})
		conn.Write(connectRequest(0))
		io.Copy(io.Discard, conn)
		wg.Wait()
		if id := s.ID(); id != 0 && s.Timeout() <= 0 {
			t.Fatalf("go-zookeeper panics on a timeout of %v", s.Timeout())
		}
	})
}
