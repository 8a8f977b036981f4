package zkconn

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Encoding transactions and decoding their results.

// asGoZookeeper has go-zookeeper send the operations to a server that replies
// with the given record. It returns the record that go-zookeeper sent and what
// it decoded from the reply.
func asGoZookeeper(t testing.TB, answer []byte, ops ...any) (sent []byte, rs []zk.MultiResponse, err error) {
	t.Helper()
	srv := zktest.NewServer(t, zktest.InMemory())
	taps := harness.NewTapsVia(harness.EditReplies(srv.DialContext, func(op string, record []byte) []byte {
		if strings.HasPrefix(op, "multi") {
			return answer
		}
		return record
	}))
	taps.OnWrite(func(_ *harness.Tap, op string, frame []byte) (bool, error) {
		if strings.HasPrefix(op, "multi") {
			sent = slices.Clone(frame[12:])
		}
		return false, nil
	})
	rs, err = harness.RawVia(t, taps.DialTimeout, srv.Addr()).Multi(ops...)
	return sent, rs, err
}

// recordOf returns the record that this package sends for a transaction.
func recordOf(ops ...any) []byte {
	return multiFrame(ops)[12:] // behind the header
}

func TestTransactionsAreEncodedAsByGoZookeeper(t *testing.T) {
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

// appendResult appends one result of a transaction. code is the error's code, or 0
// for an operation that was rolled back with others.
func appendResult(b []byte, op, code int32, body ...byte) []byte {
	b = jute.AppendInt32(append(jute.AppendInt32(b, op), 0), code)
	if op == -1 {
		b = jute.AppendInt32(b, code)
	}
	return append(b, body...)
}

func appendStat(b []byte, s *zk.Stat) []byte {
	stat := jute.Stat(*s)
	return jute.AppendStat(b, &stat)
}

var sampleStat = zk.Stat{
	Czxid: 1 << 40, Mzxid: 2 << 40, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7,
	EphemeralOwner: -8, DataLength: 9, NumChildren: 10, Pzxid: 11 << 40,
}

// sampleReply returns a reply with one result of each kind.
func sampleReply() []byte {
	b := appendResult(nil, jute.OpCreate, 0, jute.AppendString(nil, "/a/b0000000001")...)
	b = appendResult(b, jute.OpSetData, 0, appendStat(nil, &sampleStat)...)
	b = appendResult(appendResult(b, jute.OpDelete, 0), jute.OpCheck, 0)
	return appendOpHeader(b, -1, true)
}

func TestResultsAreDecodedAsByGoZookeeper(t *testing.T) {
	ops := []any{
		&zk.CreateRequest{Path: "/a/b"}, &zk.SetDataRequest{Path: "/a"},
		&zk.DeleteRequest{Path: "/a"}, &zk.CheckVersionRequest{Path: "/a"},
	}
	_, want, err := asGoZookeeper(t, sampleReply(), ops...)
	require.NoError(t, err)
	got, err := decodeMulti(sampleReply())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []zk.MultiResponse{{String: "/a/b0000000001"}, {Stat: &sampleStat}, {}, {}}, got)
}

func TestRecordsThatEndTooEarlyAreErrors(t *testing.T) {
	whole := sampleReply()
	for n := 1; n < len(whole); n++ {
		rs, err := decodeMulti(whole[:n])
		require.Error(t, err, "%d of %d bytes", n, len(whole))
		require.LessOrEqual(t, len(rs), 4)
	}
	rs, err := decodeMulti(nil) // the body of a reply with an error for the whole request
	require.NoError(t, err)
	require.Empty(t, rs)
}

func TestResultsOfUnknownKindsAreErrors(t *testing.T) {
	for _, op := range []int32{jute.OpGetData, 99, -2, 1 << 30} {
		_, err := decodeMulti(appendOpHeader(appendResult(nil, op, 0), -1, true))
		require.ErrorContains(t, err, fmt.Sprint(op))
	}
}

// Whatever a server sends is decoded to a list of results or to an error, and the
// list is never longer than the bytes allow.
func FuzzDecodeMulti(f *testing.F) {
	f.Add([]byte{})
	f.Add(sampleReply())
	f.Add(sampleReply()[:40])
	f.Add(appendOpHeader(nil, -1, true))
	f.Add(appendOpHeader(appendResult(appendResult(nil, -1, 0), -1, jute.ErrNodeExists), -1, true))
	f.Add(appendResult(nil, jute.OpCreate, 0, 0x7f, 0xff, 0xff, 0xff))
	f.Add(appendResult(nil, jute.OpCreate, 0, 0xff, 0xff, 0xff, 0xfe))
	f.Add(bytes.Repeat(appendResult(nil, jute.OpDelete, 0), 50))
	f.Fuzz(func(t *testing.T, record []byte) {
		rs, err := decodeMulti(record)
		if err == nil && len(record) > 0 && len(record) < 9 {
			t.Fatalf("%x was accepted as a reply", record)
		}
		if len(rs) > len(record)/9+1 {
			t.Fatalf("%d results in %d bytes", len(rs), len(record))
		}
	})
}

func TestBackOffEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{over: make(chan struct{})}
		s.cfg.Refused = func(string, error) {}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), firstPause/4)
		defer cancel()
		s.backOff(ctx, jute.OpMulti, zk.ErrNothing)
		require.Equal(t, firstPause/4, time.Since(began), "no longer than its context")
	})
}

func TestAnAnswerToASingleOperationIsAsInAMulti(t *testing.T) {
	ofOperations := []int32{
		jute.ErrBadArguments, jute.ErrNoNode, jute.ErrNoAuth, jute.ErrBadVersion, jute.ErrNoChildrenForEphemerals,
		jute.ErrNodeExists, jute.ErrNotEmpty, jute.ErrInvalidACL, jute.ErrLocalSession, jute.ErrQuotaExceeded,
	}
	ofSessions := []int32{
		jute.ErrRuntimeInconsistency, jute.ErrConnectionLoss, jute.ErrMarshalling, jute.ErrUnimplemented, jute.ErrOperationTimeout,
		jute.ErrSessionExpired, jute.ErrAuthFailed, jute.ErrSessionMoved, jute.ErrNotReadOnly, jute.ErrSASL, jute.ErrThrottled,
	}
	create := &zk.CreateRequest{Path: "/a", Flags: zk.FlagSequence}
	container, set, remove := &zk.CreateRequest{Path: "/a", Flags: zk.FlagContainer}, &zk.SetDataRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/a"}
	created := appendStat(jute.AppendString(nil, "/a0000000001"), &sampleStat)
	for _, tt := range []struct {
		op     any
		code   int32
		record []byte
		want   zk.MultiResponse
	}{
		{create, jute.OpCreate2, created, zk.MultiResponse{String: "/a0000000001", Stat: &sampleStat}},
		{container, jute.OpCreateContainer, created, zk.MultiResponse{String: "/a0000000001", Stat: &sampleStat}},
		{set, jute.OpSetData, appendStat(nil, &sampleStat), zk.MultiResponse{Stat: &sampleStat}},
		{remove, jute.OpDelete, nil, zk.MultiResponse{}},
	} {
		code, frame := requestOf([]any{tt.op})
		require.Equal(t, tt.code, code)
		require.Equal(t, appendOp(nil, tt.op), frame[12:])
		x := &Transaction{ops: []any{tt.op}, op: code}
		o, malformed := x.read(0, tt.record)
		require.NoError(t, malformed)
		require.Equal(t, []zk.MultiResponse{tt.want}, o.Results())
		for n := range len(tt.record) {
			_, malformed := x.read(0, tt.record[:n])
			require.Error(t, malformed, "%d of %d bytes", n, len(tt.record))
		}
		for _, code := range ofOperations {
			o, malformed := x.read(code, nil)
			require.NoError(t, malformed)
			require.True(t, o.RefusedAt(tt.op), "%d", code)
			require.Equal(t, codeError(code), o.Err())
		}
		for _, code := range ofSessions {
			o, malformed := x.read(code, nil)
			require.NoError(t, malformed)
			require.False(t, o.Refused(), "%d", code)
			require.Equal(t, codeError(code), o.Err())
		}
	}
	_, malformed := (&Transaction{ops: []any{create}, op: jute.OpCreate2}).read(0, appendStat(jute.AppendString(nil, "/b"), &sampleStat))
	require.Error(t, malformed, "another path")
	code, _ := requestOf([]any{&zk.CheckVersionRequest{Path: "/a"}})
	require.Equal(t, jute.OpMulti, code, "no request only checks")
}

// Options.MaxBuffer promises 4,096 bytes, whatever the servers do.
func TestARequestOfTheSmallestBufferIsNeverGivenUp(t *testing.T) {
	var k killers
	for range 2 * maxKilled {
		require.Zero(t, k.note(4+4096))
	}
	require.NoError(t, k.check(make([]byte, 4+4096)))
	for range maxKilled - 1 {
		require.Zero(t, k.note(4+4097))
	}
	require.NotZero(t, k.note(4+4097))
	require.NoError(t, k.check(make([]byte, 4+4096)))
	require.ErrorIs(t, k.check(make([]byte, 4+4097)), ErrTooLarge)
}
