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
	b    []byte
	Err  error
	Null bool // the vector of strings that was read last was null
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
	d.Null = n < 0
	var v []string
	for i := int32(0); i < n && d.Err == nil; i++ {
		v = append(v, d.String())
	}
	return v
}

// Len returns the number of bytes that have not been read.
func (d *Decoder) Len() int { return len(d.b) }

// Rest returns the bytes that have not been read, and reads them.
func (d *Decoder) Rest() []byte { return d.take(len(d.b)) }

// Text reads a string that must be there: one of length -1 is an error.
func (d *Decoder) Text() string {
	n := d.Int32()
	if n < 0 {
		d.Err = ErrShort
		return ""
	}
	return string(d.take(int(n)))
}
