package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// A Reply is a reply, or an event.
type Reply struct {
	Xid, Err int32
	Failure  int32 // Err or, of a multi that fails, the error of the operation that has failed
	Zxid     int64
	Path     string
	Data     []byte
	Children []string
	Stat     jute.Stat
	ACL      []jute.ACL
	Results  []int32  // of a multi: the error of each operation, or 0
	Created  []string // of a multi: the paths of its creates

	Events  []Event // those that came before the reply
	Closed  bool    // the server closed the connection instead
	isEvent bool
}

// An Event is a notification.
type Event struct {
	Type int32
	Path string
}

func errorName(code int32) string {
	if code == 0 {
		return "OK"
	}
	name, _, _ := strings.Cut(jute.ErrorName(code), " (")
	return name
}

// A decoding decodes and describes a frame.
type decoding struct {
	*jute.Decoder
	s     *Script
	reply *Reply
	text  []string
}

func (d *decoding) addf(format string, args ...any) {
	d.text = append(d.text, fmt.Sprintf(format, args...))
}

// decode decodes a frame and adds it to the transcript.
func (c *Client) decode(frame []byte) Reply {
	d := &decoding{Decoder: jute.NewDecoder(frame), s: c.s}
	reply := Reply{Xid: d.Int32(), Zxid: d.Int64(), Err: d.Int32()}
	reply.Failure, d.reply = reply.Err, &reply
	request, known := c.sent[reply.Xid]
	switch {
	case reply.Xid == jute.XidEvent && !known:
		c.event(d)
		return reply
	case !known:
		d.addf("reply to no request: xid %d", reply.Xid)
	}
	delete(c.sent, reply.Xid)
	if known && reply.Err == 0 {
		d.body(request.Op)
	}
	if d.Len() > 0 {
		d.addf("and %d bytes", d.Len())
	}
	c.s.Note("%s < %d %s zxid=%s: %s", c.name, reply.Xid, errorName(reply.Err), c.s.zxid(reply.Zxid), strings.Join(d.text, " "))
	return reply
}

// event decodes and describes a notification. The zxid of its header is -1 before
// 3.9, and that of the change since then (ZOOKEEPER-4655).
func (c *Client) event(d *decoding) {
	kind, state, path := d.Int32(), d.Int32(), d.String()
	d.reply.isEvent = true
	d.reply.Events = []Event{{Type: kind, Path: path}}
	c.s.Note("%s < %s %q zxid=%s state=%d err=%d rest=%d", c.name, zk.EventType(kind), path,
		c.s.zxid(d.reply.Zxid), state, d.reply.Err, d.Len())
}

// body decodes the record of a successful reply.
func (d *decoding) body(op int32) {
	switch op {
	case jute.OpCreate, jute.OpSync:
		d.path()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		d.path()
		d.stat()
	case jute.OpExists, jute.OpSetData, jute.OpSetACL, jute.OpCheck:
		d.stat()
	case jute.OpSasl:
		d.data()
	case jute.OpGetData, jute.OpReconfig:
		d.data()
		d.stat()
	case jute.OpGetEphemerals:
		// Their order depends on the name that the server has for root.
		slices.Sort(d.names())
		d.addf("paths=%q", d.reply.Children)
	case jute.OpGetChildren:
		d.children()
	case jute.OpGetChildren2:
		d.children()
		d.stat()
	case jute.OpGetACL:
		d.acl()
		d.stat()
	case jute.OpGetAllChildrenNumber, jute.OpAddWatch: // the reply to addWatch is an ErrorResponse
		d.addf("number=%d", d.Int32())
	case jute.OpMulti, jute.OpMultiRead:
		d.results(op)
	case jute.OpWhoAmI:
		d.identities()
	}
	if d.Err != nil {
		d.addf("(record is too short)")
	}
}

func (d *decoding) path() {
	d.reply.Path = d.String()
	d.addf("path=%q", d.reply.Path)
}

func (d *decoding) data() {
	d.reply.Data = bytes.Clone(d.Buffer())
	d.addf("data=%s", describeData(d.reply.Data))
}

// names decodes a list of names.
func (d *decoding) names() []string {
	n := d.Int32()
	if n < 0 {
		d.addf("null(%d)", n)
		return nil
	}
	d.reply.Children = []string{}
	for i := int32(0); i < n && d.Err == nil; i++ {
		d.reply.Children = append(d.reply.Children, d.String())
	}
	return d.reply.Children
}

// children decodes a list of children. The transcript has them in the server's order,
// that of a hash set (DataNode), and the Reply has them sorted.
func (d *decoding) children() {
	d.addf("children=%q", d.names())
	slices.Sort(d.reply.Children)
}

func (d *decoding) acl() {
	n := d.Int32()
	if n < 0 {
		d.addf("acl=null(%d)", n)
		return
	}
	d.reply.ACL = []jute.ACL{}
	for i := int32(0); i < n && d.Err == nil; i++ {
		d.reply.ACL = append(d.reply.ACL, jute.ACL{Perms: d.Int32(), Scheme: d.String(), ID: d.String()})
	}
	d.addf("acl=%s", describeACL(d.reply.ACL))
}

// identities decodes the reply to whoAmI and sorts it: the server keeps identities
// in a hash set (ServerCnxn.authInfo).
func (d *decoding) identities() {
	var all []string
	for n := d.Int32(); n > 0 && d.Err == nil; n-- {
		scheme, id := d.String(), d.String()
		if scheme == "ip" {
			id = "(an address)"
		}
		all = append(all, scheme+":"+id)
	}
	slices.Sort(all)
	d.addf("identities=%q", all)
}

func (d *decoding) stat() {
	s, st := d.s, d.Stat()
	d.reply.Stat = st
	order := ""
	if st.Mtime < st.Ctime {
		order = ", mtime before ctime"
	}
	d.addf("{czxid=%s mzxid=%s pzxid=%s ctime=%s mtime=%s%s version=%d cversion=%d aversion=%d owner=%s length=%d children=%d}",
		s.zxid(st.Czxid), s.zxid(st.Mzxid), s.zxid(st.Pzxid), s.time(st.Ctime), s.time(st.Mtime), order,
		st.Version, st.Cversion, st.Aversion, s.owner(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

// results decodes the reply to a multi or multiRead: a header and a record for
// each operation, and a final header (org.apache.zookeeper.MultiResponse).
func (d *decoding) results(multi int32) {
	for d.Err == nil {
		op, done, code := d.Int32(), d.Bool(), d.Int32()
		if d.Err != nil {
			return
		}
		if done {
			d.addf("end(%d,%d)", op, code)
			return
		}
		result := code
		name := jute.OpName(op)
		if op == jute.OpError {
			name = "error"
		}
		d.addf("[%s(%d)", name, code)
		switch {
		case op == jute.OpError:
			result = d.Int32()
			d.addf("%s", errorName(result))
			if multi == jute.OpMulti && result != jute.ErrRuntimeInconsistency && result != 0 {
				d.reply.Failure = result
			}
		case multi == jute.OpMultiRead || op == jute.OpCreate || op == jute.OpCreate2 ||
			op == jute.OpCreateContainer || op == jute.OpSetData:
			d.body(op)
			if d.reply.Path != "" {
				d.reply.Created, d.reply.Path = append(d.reply.Created, d.reply.Path), ""
			}
		}
		d.addf("]")
		d.reply.Results = append(d.reply.Results, result)
	}
}
