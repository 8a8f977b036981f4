// Package jute implements the parts of ZooKeeper's wire format that this module
// needs: the codes of operations and errors, the reserved xids, and the
// primitive types of the record format (big-endian integers, length-prefixed
// strings and buffers; org.apache.jute.BinaryOutputArchive).
package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the largest body of a frame that a server with the default
// jute.maxbuffer (0xfffff) accepts. If the body is one byte longer, the server
// closes the connection.
const MaxFrame = 1048575

// ErrShort is the error of a Decoder whose record ends before its fields do.
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

// ReadFrame reads one frame, whose body may have at most limit bytes. It returns
// the frame with its length.
func ReadFrame(r io.Reader, limit int) ([]byte, error) { return ReadFrameInto(r, nil, limit) }

// readStep is how much memory a frame gets before any of it has come.
const readStep = 64 << 10

// ReadFrameInto is like ReadFrame, but reads into buf if it is large enough. A
// longer frame gets memory as its bytes come, whatever length it announces.
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
	frame, end := head, 4+n
	for read := 4; read < end; read = len(frame) {
		next := min(end, max(cap(frame), 2*read, readStep))
		if cap(frame) < next {
			frame = append(make([]byte, 0, next), frame...)
		}
		frame = frame[:next]
		if _, err := io.ReadFull(r, frame[read:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// Decoder reads fields from a record. At the first field that is missing, Err is
// set, and from then on every field reads as zero.
type Decoder struct {
	b    []byte
	Err  error
	Null bool // the last vector of strings was null
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

// Buffer reads a buffer. It returns nil for length -1. The result aliases the
// record.
func (d *Decoder) Buffer() []byte {
	n := d.Int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

// String reads a string.
func (d *Decoder) String() string { return string(d.Buffer()) }

// Strings reads a vector of strings. It returns an empty one for length -1.
func (d *Decoder) Strings() []string {
	n := d.Int32()
	d.Null = n < 0
	var v []string
	for i := int32(0); i < n && d.Err == nil; i++ {
		v = append(v, d.String())
	}
	return v
}

// Len returns the number of unread bytes.
func (d *Decoder) Len() int { return len(d.b) }

// Rest reads all unread bytes.
func (d *Decoder) Rest() []byte { return d.take(len(d.b)) }

// Text is like String, but a length of -1 is an error.
func (d *Decoder) Text() string { return string(d.Bytes()) }

// Bytes is like Buffer, but a length of -1 is an error.
func (d *Decoder) Bytes() []byte { return d.take(int(d.Int32())) }

// Count reads the length of a vector. A negative one is an error.
func (d *Decoder) Count() int {
	n := int(d.Int32())
	if n < 0 {
		d.Err = ErrShort
		return 0
	}
	return n
}

// Stat is a znode's metadata (org.apache.zookeeper.data.Stat). Times are in
// milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid                int64
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// ACL is one entry of an access control list (org.apache.zookeeper.data.ACL).
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// AppendStat appends s to b.
func AppendStat(b []byte, s *Stat) []byte {
	b = AppendInt64(AppendInt64(b, s.Czxid), s.Mzxid)
	b = AppendInt64(AppendInt64(b, s.Ctime), s.Mtime)
	b = AppendInt32(AppendInt32(AppendInt32(b, s.Version), s.Cversion), s.Aversion)
	b = AppendInt64(b, s.EphemeralOwner)
	b = AppendInt32(AppendInt32(b, s.DataLength), s.NumChildren)
	return AppendInt64(b, s.Pzxid)
}

// Stat reads a Stat.
func (d *Decoder) Stat() Stat {
	return Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(),
		Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(),
		DataLength:     d.Int32(), NumChildren: d.Int32(),
		Pzxid: d.Int64(),
	}
}

// AppendACLs appends a vector of ACLs to b.
func AppendACLs[A ~struct {
	Perms  int32
	Scheme string
	ID     string
}](b []byte, acls []A) []byte {
	b = AppendInt32(b, int32(len(acls)))
	for _, acl := range acls {
		a := ACL(acl)
		b = AppendString(AppendString(AppendInt32(b, a.Perms), a.Scheme), a.ID)
	}
	return b
}

// ACLs reads a vector of ACLs. It returns an empty one for length -1.
func (d *Decoder) ACLs() []ACL {
	n := d.Int32()
	d.Null = n == -1
	var v []ACL
	for i := int32(0); i < n && d.Err == nil; i++ {
		v = append(v, ACL{Perms: d.Int32(), Scheme: d.String(), ID: d.String()})
	}
	return v
}

// AppendStrings appends a vector of strings to b.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// AppendNullableBuffer appends p with its length to b. The length of nil is -1.
func AppendNullableBuffer(b, p []byte) []byte {
	if p == nil {
		return AppendInt32(b, -1)
	}
	return AppendBuffer(b, p)
}

// AppendBool appends v to b.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
