package zkrecipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Transactions: their records, and callers that leave them.

// asGoZookeeper has go-zookeeper send the operations, to a server that answers
// with this record. It returns the record that was sent and how the answer was
// understood.
func asGoZookeeper(t testing.TB, answer []byte, ops ...any) (sent []byte, rs []zk.MultiResponse, err error) {
	t.Helper()
	server := make(chan []byte, 1)
	var wg sync.WaitGroup
	dial := func(string, string, time.Duration) (net.Conn, error) {
		near, far := net.Pipe()
		wg.Go(func() {
			defer far.Close()
			if _, err := jute.ReadFrame(far, 4096); err != nil {
				return
			}
			welcome := jute.AppendInt64(jute.AppendInt32(jute.AppendInt32(nil, 0), 10_000), 1)
			far.Write(jute.Frame(append(jute.AppendBuffer(welcome, make([]byte, 16)), 0)))
			for {
				frame, err := jute.ReadFrame(far, 1<<30)
				if err != nil {
					return
				}
				d := jute.NewDecoder(frame[4:])
				xid, op := d.Int32(), d.Int32()
				reply := jute.AppendInt32(jute.AppendInt64(jute.AppendInt32(nil, xid), 1), 0)
				if op == jute.OpMulti {
					server <- frame[12:]
					reply = append(reply, answer...)
				}
				far.Write(jute.Frame(reply))
				if op == jute.OpClose {
					return
				}
			}
		})
		return near, nil
	}
	conn, events, err := zk.Connect([]string{"127.0.0.1:1"}, 10*time.Second,
		zk.WithDialer(dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	rs, err = conn.Multi(ops...)
	conn.Close()
	for range events {
	}
	wg.Wait()
	return <-server, rs, err
}

// recordOf returns the record that is sent for a transaction.
func recordOf(ops ...any) []byte {
	var b []byte
	for _, op := range ops {
		b = appendOp(b, op)
	}
	return appendOpHeader(b, -1, true)
}

func TestTransactionsAreWrittenAsGoZookeeperWritesThem(t *testing.T) {
	all := []any{
		&zk.CreateRequest{Path: "/a", Data: []byte("data"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral | zk.FlagSequence},
		&zk.CreateRequest{Path: "/ä", Data: []byte{}, Acl: append(zk.DigestACL(zk.PermRead, "user", "password"), zk.WorldACL(0)...)},
		&zk.CreateRequest{Path: "/no-data", Acl: []zk.ACL{}},
		&zk.CreateRequest{Path: "/no-acl"},
		&zk.SetDataRequest{Path: "/a", Data: []byte{0, 1, 255}, Version: 7},
		&zk.SetDataRequest{Path: "/a", Data: []byte{}, Version: -1},
		&zk.SetDataRequest{Path: "/a", Version: -1},
		&zk.DeleteRequest{Path: "/a/b", Version: 1<<31 - 1},
		&zk.CheckVersionRequest{Path: "/a", Version: -1},
	}
	for _, op := range all {
		sent, _, _ := asGoZookeeper(t, nil, op)
		require.Equal(t, sent, recordOf(op), "%+v", op)
	}
	sent, _, _ := asGoZookeeper(t, nil, all...)
	require.Equal(t, sent, recordOf(all...))
	sent, _, _ = asGoZookeeper(t, nil)
	require.Equal(t, sent, recordOf())
}

// appendResult appends one result of a transaction; code is that of an error, 0 for
// one that was undone with others.
func appendResult(b []byte, op, code int32, body ...byte) []byte {
	b = jute.AppendInt32(append(jute.AppendInt32(b, op), 0), code)
	if op == -1 {
		b = jute.AppendInt32(b, code)
	}
	return append(b, body...)
}

func appendStat(b []byte, s *zk.Stat) []byte {
	b = jute.AppendInt64(jute.AppendInt64(b, s.Czxid), s.Mzxid)
	b = jute.AppendInt64(jute.AppendInt64(b, s.Ctime), s.Mtime)
	b = jute.AppendInt32(jute.AppendInt32(jute.AppendInt32(b, s.Version), s.Cversion), s.Aversion)
	b = jute.AppendInt32(jute.AppendInt32(jute.AppendInt64(b, s.EphemeralOwner), s.DataLength), s.NumChildren)
	return jute.AppendInt64(b, s.Pzxid)
}

var aStat = zk.Stat{
	Czxid: 1 << 40, Mzxid: 2 << 40, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7,
	EphemeralOwner: -8, DataLength: 9, NumChildren: 10, Pzxid: 11 << 40,
}

// aRecord is an answer with a result of each kind.
func aRecord() []byte {
	b := appendResult(nil, jute.OpCreate, 0, jute.AppendString(nil, "/a/b0000000001")...)
	b = appendResult(b, jute.OpSetData, 0, appendStat(nil, &aStat)...)
	b = appendResult(appendResult(b, jute.OpDelete, 0), jute.OpCheck, 0)
	return appendOpHeader(b, -1, true)
}

func TestResultsAreReadAsGoZookeeperReadsThem(t *testing.T) {
	ops := []any{
		&zk.CreateRequest{Path: "/a/b"}, &zk.SetDataRequest{Path: "/a"},
		&zk.DeleteRequest{Path: "/a"}, &zk.CheckVersionRequest{Path: "/a"},
	}
	_, want, err := asGoZookeeper(t, aRecord(), ops...)
	require.NoError(t, err)
	got, err := decodeMulti(aRecord())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []zk.MultiResponse{{String: "/a/b0000000001"}, {Stat: &aStat}, {}, {}}, got)
}

func TestErrorsOfATransactionAreReadAsGoZookeeperReadsThem(t *testing.T) {
	for _, code := range []int32{
		jute.ErrBadArguments, jute.ErrNoNode, jute.ErrNoAuth, jute.ErrBadVersion, jute.ErrNoChildrenForEphemerals,
		jute.ErrNodeExists, jute.ErrNotEmpty, jute.ErrSessionExpired, jute.ErrInvalidACL, jute.ErrAuthFailed,
		jute.ErrSessionMoved,
	} {
		record := appendResult(nil, -1, 0) // undone
		record = appendResult(record, -1, code)
		record = appendResult(record, -1, -2) // not tried
		record = appendOpHeader(record, -1, true)
		_, want, _ := asGoZookeeper(t, record, &zk.DeleteRequest{}, &zk.DeleteRequest{}, &zk.DeleteRequest{})
		got, err := decodeMulti(record)
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.NoError(t, got[0].Error)
		require.Error(t, got[1].Error)
		require.Equal(t, want[1].Error, got[1].Error, "error %d", code)
		require.ErrorContains(t, got[2].Error, "-2")
	}
}

func TestRecordsThatEndTooEarlyAreErrors(t *testing.T) {
	whole := aRecord()
	for n := 1; n < len(whole); n++ {
		rs, err := decodeMulti(whole[:n])
		require.Error(t, err, "%d of %d bytes", n, len(whole))
		require.LessOrEqual(t, len(rs), 4)
	}
	rs, err := decodeMulti(nil) // as under an error of the whole request
	require.NoError(t, err)
	require.Empty(t, rs)
}

func TestResultsOfUnknownKindsAreErrors(t *testing.T) {
	for _, op := range []int32{jute.OpGetData, 99, -2, 1 << 30} {
		_, err := decodeMulti(appendOpHeader(appendResult(nil, op, 0), -1, true))
		require.ErrorContains(t, err, fmt.Sprint(op))
	}
}

// Whatever a server sends, it is a list of results or an error, and no longer
// than what was sent.
func FuzzDecodeMulti(f *testing.F) {
	f.Add([]byte{})
	f.Add(aRecord())
	f.Add(aRecord()[:40])
	f.Add(appendOpHeader(nil, -1, true))
	f.Add(appendOpHeader(appendResult(appendResult(nil, -1, 0), -1, jute.ErrNodeExists), -1, true))
	f.Add(appendResult(nil, jute.OpCreate, 0, 0x7f, 0xff, 0xff, 0xff))
	f.Add(appendResult(nil, jute.OpCreate, 0, 0xff, 0xff, 0xff, 0xfe))
	f.Add(bytes.Repeat(appendResult(nil, jute.OpDelete, 0), 50))
	f.Fuzz(func(t *testing.T, record []byte) {
		rs, err := decodeMulti(record)
		if err == nil && len(record) > 0 && len(record) < 9 {
			t.Fatalf("%x is an answer", record)
		}
		if len(rs) > len(record)/9+1 {
			t.Fatalf("%d results in %d bytes", len(rs), len(record))
		}
	})
}

// Callers that leave. The server is silent: what they sent is neither answered
// nor refused, and the connection lives.

// leaves cancels the attempt and requires that it returns for that reason.
func leaves(t *testing.T, a *attempt) {
	t.Helper()
	require.True(t, a.waiting())
	why := errors.New("enough")
	a.cancel(why)
	l, err := a.wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.Nil(t, l)
}

// awaited is a context that tells when somebody begins to wait for its end: when
// there is nothing left to do but that.
type awaited struct {
	context.Context
	once *sync.Once
	done chan struct{}
}

func (c awaited) Done() <-chan struct{} {
	c.once.Do(func() { close(c.done) })
	return c.Context.Done()
}

func newAwaited(ctx context.Context) awaited {
	return awaited{ctx, new(sync.Once), make(chan struct{})}
}

// leftWaiting calls f, ends its context as soon as f waits for that, and
// returns what f does.
func leftWaiting(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	waits := newAwaited(ctx)
	go func() {
		<-waits.done
		cancel()
	}()
	return f(waits)
}

// silences are the ways in which a server can be silent: the request has not
// come to it yet, or has been carried out.
var silences = map[string]action{"before": hold, "after": holdReply}

func TestAJoinIsLeftAtOnceAndItsPlaceGoes(t *testing.T) {
	r := newRig(t, nil)
	for when, silence := range silences {
		t.Run(when, func(t *testing.T) {
			rule := r.p.on("multi(create,setData)", 1, silence)
			a := lockLater(t, r.m)
			r.p.await(rule)
			leaves(t, a)
			rule.release()
			r.p.off(rule)
			require.NoError(t, r.m.Do(r.ctx, nothing), "nobody stands in the way")
			r.queued(0)
		})
	}
}

func TestAJoinThatWasLeftIsLookedForWhenItsConnectionIsLost(t *testing.T) {
	r := newRig(t, nil)
	for _, silence := range silences {
		rule := r.p.on("multi(create,setData)", 1, silence)
		waiter := lockLater(t, r.m)
		r.p.await(rule)
		leaves(t, waiter)
		synced := r.p.countOf("sync")
		r.p.drop()
		rule.release()
		require.NoError(t, r.m.Do(r.ctx, nothing), "nobody stands in the way")
		eventually(t, "search", func() bool { return r.p.countOf("sync") > synced })
		r.queued(0)
		r.p.off(rule)
	}
}

// A server that stops reading, too: what callers wrote is in a buffer then.
func TestCallersLeaveAServerThatIsStopped(t *testing.T) {
	r := newRig(t, nil)
	other := NewMutex(r.c, r.path+"-other")
	require.NoError(t, other.Do(r.ctx, nothing))
	l := lockOn(t, other)
	r.p.stall()
	var attempts []*attempt
	for range 5 {
		attempts = append(attempts, lockLater(t, r.m))
	}
	for range 8 { // more than buffers hold
		err := leftWaiting(r.ctx, func(ctx context.Context) error {
			_, err := l.Commit(ctx, &zk.CreateRequest{Path: r.path + "-large", Data: make([]byte, 1<<20-1000)})
			return err
		})
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, leftWaiting(r.ctx, func(ctx context.Context) error {
		_, err := r.m.TryLock(ctx)
		return err
	}), context.Canceled)
	for _, a := range attempts {
		leaves(t, a)
	}
	r.p.drop() // what is in the buffers is lost, or not
	r.p.resume()
	require.NoError(t, l.Release())
	require.NoError(t, r.m.Do(r.ctx, nothing), "nobody stands in the way")
	require.NoError(t, other.Do(r.ctx, nothing), "nobody stands in the way")
	r.queued(0)
}

func TestACommitIsLeftAtOnceAndUncertain(t *testing.T) {
	r := newRig(t, nil)
	for when, silence := range silences {
		t.Run(when, func(t *testing.T) {
			l := r.lock()
			rule := r.p.on("multi(check,create)", 1, silence)
			ctx, cancel := context.WithCancelCause(r.ctx)
			done := make(chan error, 1)
			path := r.path + "-" + when
			go func() {
				_, err := l.Commit(ctx, &zk.CreateRequest{Path: path, Data: make([]byte, 1<<20-1000)})
				done <- err
			}()
			r.p.await(rule)
			why := errors.New("enough")
			cancel(why)
			err := <-done
			require.ErrorIs(t, err, ErrUncertain)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.NoError(t, l.Err(), "the lease is what it was")
			rule.release()
			r.p.off(rule)
			rs, err := l.Commit(r.ctx, &zk.SetDataRequest{Path: path, Version: 0})
			require.NoError(t, err, "it was done after all, and what follows it is done after it")
			require.Equal(t, int32(1), rs[0].Stat.Version)
			require.NoError(t, l.Release())
		})
	}
}

// Also where the caller's reason reads as if the Client had been closed.
func TestACommitLeftForWhateverReasonIsUncertain(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	rule := r.p.on("multi(check)", 1, holdReply)
	ctx, cancel := context.WithCancelCause(r.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx)
		done <- err
	}()
	r.p.await(rule)
	cancel(ErrClosed)
	require.ErrorIs(t, <-done, ErrUncertain)
	rule.release()
	require.NoError(t, l.Release())
}

func TestACommitWithAContextThatHasEndedSendsNothing(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.p.reset()
	_, err := l.Commit(ctx, &zk.SetDataRequest{Path: r.path + "-x"})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUncertain)
	require.Empty(t, r.p.count())
	require.NoError(t, l.Release())
}

func TestAReleaseThatIsNotAnsweredReturnsWithTheConnection(t *testing.T) {
	r := newRig(t, nil)
	for _, silence := range silences {
		l := r.lock()
		rule := r.p.on("multi(setData,delete)", 1, silence)
		done := make(chan error, 1)
		go func() { done <- l.Release() }()
		r.p.await(rule)
		require.ErrorIs(t, l.Err(), ErrReleased)
		r.p.refusing(true)
		require.NoError(t, <-done, "the background goes on")
		rule.release()
		r.p.off(rule)
		r.p.refusing(false)
		r.queued(0)
	}
}

// The cause of a context may be anything, also an error after which a request is
// tried again.
func TestACallEndsWithALeaseOfAnotherClient(t *testing.T) {
	r := newRig(t, nil)
	other := newRig(t, nil)
	for what, f := range map[string]func(context.Context) error{
		"reading": func(ctx context.Context) error { _, err := r.m.Contenders(ctx); return err },
		"joining": func(ctx context.Context) error { _, err := r.m.Lock(ctx); return err },
		"opening": func(ctx context.Context) error { _, err := NewMutex(r.c, r.path+"-new").Lock(ctx); return err },
	} {
		t.Run(what, func(t *testing.T) {
			l := other.lock()
			rule := r.p.on("", 1, holdReply)
			done := make(chan error, 1)
			go func() { done <- f(l.Context(r.ctx)) }()
			r.p.await(rule)
			other.p.expire()
			select {
			case err := <-done:
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, ErrLost)
			case <-time.After(20 * time.Second):
				t.Error("does not return")
			}
			rule.release()
			r.p.off(rule)
		})
	}
	r.queued(0)
}

// altered is a connection on which the replies to transactions are altered
// while on is set.
type altered struct {
	net.Conn
	on    *atomic.Bool
	alter func(frame []byte) []byte
	rest  []byte
}

func (c *altered) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		frame, err := jute.ReadFrame(c.Conn, 1<<30)
		if err != nil {
			return 0, err
		}
		if xid := jute.NewDecoder(frame[4:]).Int32(); xid <= -1001 && c.on.Load() {
			frame = c.alter(frame)
		}
		c.rest = frame
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// dialAltered returns a Client whose transactions are answered otherwise while
// the flag is set.
func dialAltered(t *testing.T, alter func(frame []byte) []byte) (*Client, *atomic.Bool) {
	on := new(atomic.Bool)
	return dial(t, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &altered{Conn: nc, on: on, alter: alter}, err
	}}), on
}

func TestABackOffEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{wire: wire.NewSession(wire.Config{Timeout: time.Hour}), over: make(chan struct{})}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.backOff(ctx, zk.ErrNothing)
		require.Equal(t, time.Second, time.Since(began), "not for longer")
		s.backOff(context.Background(), zk.ErrNothing)
		require.Equal(t, time.Second+time.Hour/50, time.Since(began))
	})
}

func TestAnAnswerWithoutResultsIsAnError(t *testing.T) {
	c, on := dialAltered(t, func(frame []byte) []byte {
		return jute.Frame(appendOpHeader(slices.Clone(frame[4:20]), -1, true))
	})
	m := NewMutex(c, newPath(t))
	require.NoError(t, m.Do(within(t, 20*time.Second), nothing))
	on.Store(true)
	_, err := m.Lock(within(t, 20*time.Second))
	require.ErrorContains(t, err, "0 results of 2 operations")
	on.Store(false)
}

// lingering is a connection that takes its time to close.
type lingering struct {
	net.Conn
	closing chan struct{} // closed when it begins
	free    chan struct{}
	once    *sync.Once
}

func (c *lingering) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closing) })
	<-c.free
	return err
}

// It neither gives up nor tries again and again.
func TestACommitWaitsForAConnectionThatTakesItsTimeToClose(t *testing.T) {
	closing, free, once := make(chan struct{}), make(chan struct{}), new(sync.Once)
	c := dial(t, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &lingering{nc, closing, free, once}, err
	}})
	l := lockOn(t, NewMutex(c, newPath(t)))
	s, _ := c.session()
	s.mu.Lock()
	nc := s.nc
	s.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { nc.Close() })
	<-closing
	waits := newAwaited(within(t, 20*time.Second))
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(waits)
		done <- err
	}()
	<-waits.done
	tx, err := s.start(l.Check())
	require.NoError(t, err)
	require.Empty(t, done)
	select {
	case <-tx.call.Done():
		t.Error("it has ended before the connection's end was told")
	default:
	}
	close(free)
	require.NoError(t, <-done)
	wg.Wait()
	require.NoError(t, l.Release())
}

// stuck is a connection whose first write of more than a page waits until it is
// closed.
type stuck struct {
	net.Conn
	once    *sync.Once
	writing chan struct{} // closed when that write has come
	gone    context.Context
	close   context.CancelFunc
}

func (c *stuck) Write(p []byte) (int, error) {
	if len(p) > 4096 {
		c.once.Do(func() {
			close(c.writing)
			<-c.gone.Done()
		})
	}
	return c.Conn.Write(p)
}

func (c *stuck) Close() error {
	err := c.Conn.Close()
	c.close()
	return err
}

// What was not written when its connection ended was not done, and is said to
// be so, or sent again.
func TestATransactionThatWasNotWrittenIsToldFromOneThatMayHaveBeen(t *testing.T) {
	writing, once := make(chan struct{}), new(sync.Once)
	c := dial(t, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		gone, end := context.WithCancel(context.Background())
		return &stuck{nc, once, writing, gone, end}, err
	}})
	ctx, path := within(t, 30*time.Second), newPath(t)
	m := NewMutex(c, path)
	require.NoError(t, m.Do(ctx, nothing))
	l := lockOn(t, m)
	first := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx, &zk.CreateRequest{Path: path + "-first", Data: make([]byte, 100_000)})
		first <- err
	}()
	<-writing
	s, _ := c.session()
	unsent, err := s.start(&zk.CreateRequest{Path: path + "-unsent", Acl: c.acl})
	require.NoError(t, err, "it does not wait")
	again := make(chan error, 1)
	waits := newAwaited(ctx)
	go func() {
		_, err := l.Commit(waits, &zk.CreateRequest{Path: path + "-again"})
		again <- err
	}()
	<-waits.done
	s.mu.Lock()
	nc := s.nc
	s.mu.Unlock()
	nc.Close()
	_, _, err = unsent.wait(ctx)
	require.ErrorIs(t, err, errNotSent)
	require.True(t, unsettled(err), "whoever does not look is careful")
	require.ErrorIs(t, <-first, ErrUncertain)
	require.NoError(t, <-again, "sent on the next connection, once")
	conn := raw(t)
	for name, want := range map[string]bool{"-first": false, "-unsent": false, "-again": true} {
		ok, _, err := conn.Exists(path + name)
		require.NoError(t, err)
		require.Equal(t, want, ok, name)
	}
	require.NoError(t, l.Release())
}

// Whatever becomes of connections and contexts, at rest nobody is left behind.
func TestJoinsThatAreLeftWhileConnectionsAreLostLeaveNothing(t *testing.T) {
	r := newRig(t, nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			before := r.p.countOf("multi(create,setData)")
			eventuallyOr(stop, func() bool { return r.p.countOf("multi(create,setData)") > before+20 })
			select {
			case <-stop:
				return
			default:
				r.p.drop()
			}
		}
	})
	var callers sync.WaitGroup
	var holding atomic.Int32
	for caller := range 8 {
		callers.Go(func() {
			for i := range 25 {
				ctx, cancel := context.WithTimeout(r.ctx, time.Duration((caller*7+i*13)%40)*time.Millisecond)
				l, err := r.m.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Lock: %v", err)
					}
					continue
				}
				if holding.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				holding.Add(-1)
				if err := l.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	wg.Wait()
	require.NoError(t, r.m.Do(r.ctx, nothing), "nobody stands in the way")
	r.queued(0)
}

// eventuallyOr waits for something to become true, or for stop.
func eventuallyOr(stop chan struct{}, f func() bool) {
	for !f() {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
