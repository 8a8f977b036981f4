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

// Frame returns the frame of the request.
func (r Request) Frame(xid int32) []byte {
	return jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, xid), r.Op), r.Body...))
}

// ACLs that cases use. A nil ACL is sent as a null vector.
var (
	Open      = Anyone(jute.PermAll)
	ReadOnly  = Anyone(jute.PermRead)
	WriteOnly = Anyone(jute.PermAll &^ jute.PermRead)
	Presented = All("auth", "") // to all identities for which the client has presented credentials
)

// Anyone returns an ACL that grants the permissions to every client.
func Anyone(perms int32) []jute.ACL { return Grant(perms, "world", "anyone") }

// All returns an ACL that grants all permissions to this id.
func All(scheme, id string) []jute.ACL { return Grant(jute.PermAll, scheme, id) }

// Grant returns an ACL that grants the permissions to this id.
func Grant(perms int32, scheme, id string) []jute.ACL {
	return []jute.ACL{{Perms: perms, Scheme: scheme, ID: id}}
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

// Plain and the following four create a znode of a kind, with null data, which every client may
// do everything with.
func Plain(path string) Request      { return Create(path, nil, Open, 0) }
func Ephemeral(path string) Request  { return Create(path, nil, Open, jute.FlagEphemeral) }
func Sequential(path string) Request { return Create(path, nil, Open, jute.FlagSequential) }
func EphemeralSequential(path string) Request {
	return Create(path, nil, Open, jute.FlagEphemeralSequential)
}
func Container(path string) Request { return CreateContainer(path, nil, Open, jute.FlagContainer) }

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

// creates are the operations that create a znode.
var creates = []func(path string, data []byte, acl []jute.ACL, flags int32) Request{Create, Create2, CreateContainer}

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

// Delete deletes a znode, and Check checks its version.
func Delete(path string, version int32) Request {
	return pathAndNumber(jute.OpDelete, path, "version", version)
}
func Check(path string, version int32) Request {
	return pathAndNumber(jute.OpCheck, path, "version", version)
}

// AddWatch sets a persistent watch. CheckWatches checks whether there is such a watch, and
// RemoveWatches removes it.
func AddWatch(path string, mode int32) Request {
	return pathAndNumber(jute.OpAddWatch, path, "mode", mode)
}
func CheckWatches(path string, kind int32) Request {
	return pathAndNumber(jute.OpCheckWatches, path, "type", kind)
}
func RemoveWatches(path string, kind int32) Request {
	return pathAndNumber(jute.OpRemoveWatches, path, "type", kind)
}

func pathAndNumber(op int32, path, name string, number int32) Request {
	return record(op, fmt.Sprintf("%q %s=%d", path, name, number), jute.AppendInt32(jute.AppendString(nil, path), number))
}

// Exists and the following three read a znode, and can set a watch.
func Exists(path string, watch bool) Request       { return read(jute.OpExists, path, watch) }
func GetData(path string, watch bool) Request      { return read(jute.OpGetData, path, watch) }
func GetChildren(path string, watch bool) Request  { return read(jute.OpGetChildren, path, watch) }
func GetChildren2(path string, watch bool) Request { return read(jute.OpGetChildren2, path, watch) }

var reads = []func(path string, watch bool) Request{Exists, GetData, GetChildren, GetChildren2}

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

// Ping and the following two have no record.
func Ping() Request   { return Request{Op: jute.OpPing, Text: "ping"} }
func Close() Request  { return Request{Op: jute.OpClose, Text: "closeSession"} }
func WhoAmI() Request { return Request{Op: jute.OpWhoAmI, Text: "whoAmI"} }

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

// Multi is a transaction: all of ops or none. MultiRead is independent reads.
func Multi(ops ...Request) Request     { return multi(jute.OpMulti, ops) }
func MultiRead(ops ...Request) Request { return multi(jute.OpMultiRead, ops) }

func multi(op int32, ops []Request) Request {
	var b []byte
	var texts []string
	header := func(op int32, done bool) {
		b = jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, op), done), -1)
	}
	for _, op := range ops {
		header(op.Op, false)
		b = append(b, op.Body...)
		texts = append(texts, op.Text)
	}
	header(-1, true)
	return record(op, "["+strings.Join(texts, "; ")+"]", b)
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
