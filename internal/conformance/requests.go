package conformance

import (
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// A Request is an operation, its record, and its description for the transcript.
type Request struct {
	Op   int32
	Text string
	Body []byte
}

func (r Request) frame(xid int32) []byte {
	return jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, xid), r.Op), r.Body...))
}

// ACLs that cases use. A nil ACL is sent as a null vector.
var (
	Open     = []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}
	ReadOnly = []jute.ACL{{Perms: jute.PermRead, Scheme: "world", ID: "anyone"}}
)

// Anyone returns an ACL that grants the permissions to every client.
func Anyone(perms int32) []jute.ACL {
	return []jute.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}
}

func record(op int32, text string, body []byte) Request {
	return Request{Op: op, Text: jute.OpName(op) + " " + text, Body: body}
}

func appendACL(b []byte, acl []jute.ACL) []byte {
	if acl == nil {
		return jute.AppendInt32(b, -1)
	}
	return jute.AppendACLs(b, acl)
}

// Create creates a znode. Data that is nil is sent as a null buffer.
func Create(path string, data []byte, acl []jute.ACL, flags int32) Request {
	return create(jute.OpCreate, path, data, acl, flags)
}

// Create2 is like Create, but the reply has the Stat.
func Create2(path string, data []byte, acl []jute.ACL, flags int32) Request {
	return create(jute.OpCreate2, path, data, acl, flags)
}

// CreateContainer creates a container if flags say so.
func CreateContainer(path string, data []byte, acl []jute.ACL, flags int32) Request {
	return create(jute.OpCreateContainer, path, data, acl, flags)
}

func create(op int32, path string, data []byte, acl []jute.ACL, flags int32) Request {
	b := jute.AppendNullableBuffer(jute.AppendString(nil, path), data)
	b = jute.AppendInt32(appendACL(b, acl), flags)
	return record(op, fmt.Sprintf("%q data=%s acl=%s flags=%d", path, describeData(data), describeACL(acl), flags), b)
}

// CreateTTL creates a znode with a time to live in milliseconds.
func CreateTTL(path string, data []byte, acl []jute.ACL, flags int32, ttl int64) Request {
	r := create(jute.OpCreateTTL, path, data, acl, flags)
	r.Body = jute.AppendInt64(r.Body, ttl)
	r.Text += fmt.Sprintf(" ttl=%d", ttl)
	return r
}

// Delete deletes a znode.
func Delete(path string, version int32) Request {
	return pathAndVersion(jute.OpDelete, path, version)
}

// Check checks a znode's version.
func Check(path string, version int32) Request {
	return pathAndVersion(jute.OpCheck, path, version)
}

func pathAndVersion(op int32, path string, version int32) Request {
	return record(op, fmt.Sprintf("%q version=%d", path, version),
		jute.AppendInt32(jute.AppendString(nil, path), version))
}

// Exists and the following three read a znode, and can set a watch.
func Exists(path string, watch bool) Request  { return read(jute.OpExists, path, watch) }
func GetData(path string, watch bool) Request { return read(jute.OpGetData, path, watch) }
func GetChildren(path string, watch bool) Request {
	return read(jute.OpGetChildren, path, watch)
}
func GetChildren2(path string, watch bool) Request {
	return read(jute.OpGetChildren2, path, watch)
}

func read(op int32, path string, watch bool) Request {
	text := fmt.Sprintf("%q", path)
	if watch {
		text += " watch"
	}
	return record(op, text, jute.AppendBool(jute.AppendString(nil, path), watch))
}

// SetData sets a znode's data. Data that is nil is sent as a null buffer.
func SetData(path string, data []byte, version int32) Request {
	return record(jute.OpSetData, fmt.Sprintf("%q data=%s version=%d", path, describeData(data), version),
		jute.AppendInt32(jute.AppendNullableBuffer(jute.AppendString(nil, path), data), version))
}

// GetACL and the following four send only a path.
func GetACL(path string) Request               { return pathOnly(jute.OpGetACL, path) }
func Sync(path string) Request                 { return pathOnly(jute.OpSync, path) }
func GetEphemerals(prefix string) Request      { return pathOnly(jute.OpGetEphemerals, prefix) }
func GetAllChildrenNumber(path string) Request { return pathOnly(jute.OpGetAllChildrenNumber, path) }
func DeleteContainer(path string) Request      { return pathOnly(jute.OpDeleteContainer, path) }

func pathOnly(op int32, path string) Request {
	return record(op, fmt.Sprintf("%q", path), jute.AppendString(nil, path))
}

// SetACL sets a znode's ACL. The version is that of the ACL.
func SetACL(path string, acl []jute.ACL, version int32) Request {
	return record(jute.OpSetACL, fmt.Sprintf("%q acl=%s version=%d", path, describeACL(acl), version),
		jute.AppendInt32(appendACL(jute.AppendString(nil, path), acl), version))
}

// Ping and Close have no record.
func Ping() Request  { return Request{Op: jute.OpPing, Text: "ping"} }
func Close() Request { return Request{Op: jute.OpClose, Text: "closeSession"} }

// Auth presents a credential. The type of the packet is always 0.
func Auth(scheme, credential string) Request {
	return record(jute.OpAuth, fmt.Sprintf("%s %q", scheme, credential),
		jute.AppendString(jute.AppendString(jute.AppendInt32(nil, 0), scheme), credential))
}

// Watches are the watches that a client sets again. Only setWatches2 sends
// Persistent and Recursive.
type Watches struct{ Data, Exist, Child, Persistent, Recursive []string }

// SetWatches sets watches again that were armed at zxid. The transcript calls the
// zxid seen.
func SetWatches(zxid int64, seen string, w Watches) Request {
	return setWatches(jute.OpSetWatches, zxid, seen, w.Data, w.Exist, w.Child)
}

// SetWatches2 is like SetWatches, but also sets the watches of addWatch.
func SetWatches2(zxid int64, seen string, w Watches) Request {
	return setWatches(jute.OpSetWatches2, zxid, seen, w.Data, w.Exist, w.Child, w.Persistent, w.Recursive)
}

func setWatches(op int32, zxid int64, seen string, vectors ...[]string) Request {
	b := jute.AppendInt64(nil, zxid)
	for _, v := range vectors {
		b = jute.AppendStrings(b, v)
	}
	return record(op, fmt.Sprintf("since %s: %q", seen, vectors), b)
}

// AddWatch sets a persistent watch.
func AddWatch(path string, mode int32) Request {
	return record(jute.OpAddWatch, fmt.Sprintf("%q mode=%d", path, mode),
		jute.AppendInt32(jute.AppendString(nil, path), mode))
}

// CheckWatches checks whether there is such a watch. RemoveWatches removes it.
func CheckWatches(path string, kind int32) Request {
	return watcher(jute.OpCheckWatches, path, kind)
}
func RemoveWatches(path string, kind int32) Request {
	return watcher(jute.OpRemoveWatches, path, kind)
}

func watcher(op int32, path string, kind int32) Request {
	return record(op, fmt.Sprintf("%q type=%d", path, kind),
		jute.AppendInt32(jute.AppendString(nil, path), kind))
}

// Multi is a transaction: all of ops or none. MultiRead is independent reads.
func Multi(ops ...Request) Request     { return multi(jute.OpMulti, ops) }
func MultiRead(ops ...Request) Request { return multi(jute.OpMultiRead, ops) }

func multi(op int32, ops []Request) Request {
	var b []byte
	var texts []string
	for _, op := range ops {
		b = append(multiHeader(b, op.Op, false, -1), op.Body...)
		texts = append(texts, op.Text)
	}
	return record(op, "["+strings.Join(texts, "; ")+"]", multiHeader(b, -1, true, -1))
}

func multiHeader(b []byte, op int32, done bool, code int32) []byte {
	return jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, op), done), code)
}

func describeData(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 200:
		return fmt.Sprintf("(%d bytes)", len(b))
	}
	return fmt.Sprintf("%q", b)
}

func describeACL(acl []jute.ACL) string {
	if acl == nil {
		return "null"
	}
	var all []string
	for _, a := range acl {
		all = append(all, fmt.Sprintf("%s:%s:%d", a.Scheme, a.ID, a.Perms))
	}
	return "[" + strings.Join(all, " ") + "]"
}
