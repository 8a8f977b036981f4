// Package jute holds what this module needs of ZooKeeper's wire format: the
// numbers of operations, errors and reserved xids, and the primitive types of
// its record format (big-endian integers, length-prefixed strings and buffers;
// org.apache.jute.BinaryOutputArchive).
package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Operation codes (org.apache.zookeeper.ZooDefs.OpCode).
const (
	OpCreate          int32 = 1
	OpDelete          int32 = 2
	OpExists          int32 = 3
	OpGetData         int32 = 4
	OpSetData         int32 = 5
	OpGetACL          int32 = 6
	OpSetACL          int32 = 7
	OpGetChildren     int32 = 8
	OpSync            int32 = 9
	OpPing            int32 = 11
	OpGetChildren2    int32 = 12
	OpCheck           int32 = 13
	OpMulti           int32 = 14
	OpCreateContainer int32 = 19
	OpAuth            int32 = 100
	OpSetWatches      int32 = 101
	OpClose           int32 = -11
)

var opNames = map[int32]string{
	OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData",
	OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren",
	OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2", OpCheck: "check",
	OpMulti: "multi", OpCreateContainer: "createContainer", OpAuth: "auth",
	OpSetWatches: "setWatches", OpClose: "closeSession",
}

// OpName returns the operation's name as ZooKeeper's documentation spells it.
func OpName(op int32) string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("op(%d)", op)
}

// Error codes (org.apache.zookeeper.KeeperException.Code), those that are
// looked at somewhere.
const (
	ErrConnectionLoss   int32 = -4
	ErrOperationTimeout int32 = -7
	ErrNoNode           int32 = -101
	ErrSessionExpired   int32 = -112
	ErrAuthFailed       int32 = -115
	ErrNothing          int32 = -117 // no server sends it
	ErrSessionMoved     int32 = -118
	ErrThrottled        int32 = -127
)

// Xids that the protocol reserves. Clients count their own up from 1.
const (
	XidEvent int32 = -1
	XidPing  int32 = -2
	XidAuth  int32 = -4
)

// Event types (org.apache.zookeeper.Watcher.Event.EventType).
const (
	EventCreated         int32 = 1
	EventDeleted         int32 = 2
	EventDataChanged     int32 = 3
	EventChildrenChanged int32 = 4
)

// MaxFrame is the largest body of a frame that a server with the default
// jute.maxbuffer (0xfffff) accepts; one byte more and it closes the connection.
const MaxFrame = 1048575

// ErrShort is what a Decoder reports when a record ends before its fields do.
var ErrShort = errors.New("jute: record is too short")

// AppendInt32 appends v to b.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends v to b.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendString appends s with its length to b.
func AppendString(b []byte, s string) []byte { return append(AppendInt32(b, int32(len(s))), s...) }

// AppendBuffer appends p with its length to b.
func AppendBuffer(b, p []byte) []byte { return append(AppendInt32(b, int32(len(p))), p...) }

// Frame returns body with its length before it.
func Frame(body []byte) []byte {
	return append(AppendInt32(make([]byte, 0, 4+len(body)), int32(len(body))), body...)
}

// ReadFrame reads one frame of at most limit bytes and returns it whole, its
// length included.
func ReadFrame(r io.Reader, limit int) ([]byte, error) { return ReadFrameInto(r, nil, limit) }

// ReadFrameInto is ReadFrame into buf, if that is large enough.
func ReadFrameInto(r io.Reader, buf []byte, limit int) ([]byte, error) {
	if cap(buf) < 4 {
		buf = make([]byte, 4, 512)
	}
	head := buf[:4]
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < 0 || n > limit {
		return nil, fmt.Errorf("jute: frame of %d bytes, at most %d expected", n, limit)
	}
	frame := head
	if cap(buf) < 4+n {
		frame = append(make([]byte, 0, 4+n), head...)
	}
	frame = frame[:4+n]
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, err
	}
	return frame, nil
}

// Decoder reads fields from a record. After the first field that is not there
// Err is set and everything reads as zero.
type Decoder struct {
	b   []byte
	Err error
}

// NewDecoder returns a Decoder over b, which it does not copy.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

func (d *Decoder) take(n int) []byte {
	if d.Err != nil || n < 0 || n > len(d.b) {
		d.Err = ErrShort
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

// Int32 reads an int.
func (d *Decoder) Int32() int32 {
	if p := d.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Int64 reads a long.
func (d *Decoder) Int64() int64 {
	if p := d.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// Bool reads a boolean.
func (d *Decoder) Bool() bool {
	p := d.take(1)
	return p != nil && p[0] != 0
}

// Buffer reads a buffer; one of length -1 is nil. The bytes are the record's.
func (d *Decoder) Buffer() []byte {
	n := d.Int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

// String reads a string.
func (d *Decoder) String() string { return string(d.Buffer()) }

// Strings reads a vector of strings; one of length -1 is empty.
func (d *Decoder) Strings() []string {
	n := d.Int32()
	var v []string
	for i := int32(0); i < n && d.Err == nil; i++ {
		v = append(v, d.String())
	}
	return v
}
