package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Probe makes a handshake on nc and reports whether the server knows the
// session. If the server does not, the session is over.
//
// With sendZxid the handshake has the last zxid that the session has seen, as
// the handshakes of its connections do. A server that has lost its data, or is
// behind, then closes nc without an answer (see IsRejected). Without it any
// server answers. Either way nc is of no use for requests, except those of
// CloseSession. Closing nc leaves the session alive.
func (s *Session) Probe(nc net.Conn, sendZxid bool) (known bool, err error) {
	s.mu.Lock()
	id, zxid := s.id, int64(0)
	if sendZxid {
		zxid = s.seenZxid
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
		s.markOver()
		return false, nil
	case r.id != id:
		return false, fmt.Errorf("server answered with session %s instead of %s", SessionName(r.id), SessionName(id))
	}
	return true, nil
}

// CloseSession closes the session on a connection on which Probe returned true, and reports whether it
// did: with ifBehind, only if the servers are behind what the session has seen.
// The server deletes the session's ephemeral znodes. A server that requires SASL refuses that and does
// not tell whether it is behind. It deletes them once the session has timed out: this process does not
// resume it any more.
func (s *Session) CloseSession(nc net.Conn, ifBehind bool) (closed bool, err error) {
	if ifBehind {
		behind, err := s.isBehind(nc)
		switch {
		case err == errRequiresSASL:
			s.markOver()
			return true, nil
		case err != nil || !behind:
			return false, err
		}
	}
	_, err = nc.Write(jute.Frame(header(1, jute.OpClose)))
	if err == nil {
		_, err = jute.ReadFrame(nc, maxConnectResponse)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	s.markOver()
	return true, nil
}

// isBehind asks by a sync, before which the server catches up with its leader.
func (s *Session) isBehind(nc net.Conn) (bool, error) {
	if _, err := nc.Write(jute.Frame(jute.AppendString(header(1, jute.OpSync), "/"))); err != nil {
		return false, err
	}
	frame, err := jute.ReadFrame(nc, maxConnectResponse)
	if err != nil {
		return false, err
	}
	d := jute.NewDecoder(frame[4:])
	d.Int32() // xid
	zxid, code := d.Int64(), d.Int32()
	switch {
	case d.Err != nil:
		return false, d.Err
	case code == jute.ErrSASL:
		return false, errRequiresSASL
	case code != 0:
		return false, fmt.Errorf("asking for the zxid: %s", jute.ErrorName(code))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return zxid < s.seenZxid, nil
}
