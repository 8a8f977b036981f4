package zkrecipes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Op is an operation of Lease.Commit or Item.Ack: OpCreate, OpSet, OpDelete or OpCheck
// makes one. Its path is under Options.Prefix. The zero Op is no operation, and the call
// that gets it returns an error. An Op can be used again, also by several calls at the
// same time. It keeps data and acl as they are, so do not change them until the call has
// returned.
type Op struct {
	request any // *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest
}

// OpCreate creates a znode, with the arguments of zk.Conn.Create. flags are 0,
// zk.FlagEphemeral and zk.FlagSequence: a transaction cannot create containers or znodes
// with a TTL. With zk.FlagSequence the path may end with "/": then the znode's name is the
// number alone. A nil acl means Options.ACL. Entries of the scheme "auth" are replaced by
// the ids of Options.SASL and Options.Auth. It fails with zk.ErrNodeExists if there is such a znode, and
// with zk.ErrNoNode if there is no parent.
//
// An ephemeral znode counts towards ErrSessionFull. If somebody else deletes it, the Client may
// not notice: it counts until the servers list the session's znodes, see Status.Znodes.
func OpCreate(path string, data []byte, flags int32, acl []zk.ACL) Op {
	return Op{&zk.CreateRequest{Path: path, Data: data, Flags: flags, Acl: acl}}
}

// OpSet sets a znode's data. It fails with zk.ErrBadVersion if the data have another
// version. Version -1 stands for any.
func OpSet(path string, data []byte, version int32) Op {
	return Op{&zk.SetDataRequest{Path: path, Data: data, Version: version}}
}

// OpDelete deletes a znode. It fails with zk.ErrBadVersion if its data have another
// version, and with zk.ErrNotEmpty if it has children. Version -1 stands for any.
func OpDelete(path string, version int32) Op {
	return Op{&zk.DeleteRequest{Path: path, Version: version}}
}

// OpCheck changes nothing. It fails with zk.ErrBadVersion if the znode's data have another
// version, and with zk.ErrNoNode if there is none. Version -1 stands for any.
func OpCheck(path string, version int32) Op {
	return Op{&zk.CheckVersionRequest{Path: path, Version: version}}
}

// OpResult is the result of an Op that was carried out.
type OpResult struct {
	// Path is that of the znode that an OpCreate has created, with the number of
	// zk.FlagSequence and without Options.Prefix. It is empty for other operations.
	Path string
	// Stat is that of the znode whose data an OpSet has set. It is nil for other
	// operations.
	Stat *zk.Stat
}

// mapOps returns a caller's operations as they are to be sent. They share the data.
func mapOps(c *session.Client, ops []Op) ([]any, error) {
	mapped := make([]any, len(ops))
	for i, op := range ops {
		var err error
		if mapped[i], err = mapOp(c, op); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return mapped, nil
}

// cloneData gives mapped operations data of their own, for those that may be sent after
// the caller has returned.
func cloneData(mapped []any) {
	for _, op := range mapped {
		switch op := op.(type) {
		case *zk.CreateRequest:
			op.Data = slices.Clone(op.Data)
		case *zk.SetDataRequest:
			op.Data = slices.Clone(op.Data)
		}
	}
}

// opResults returns the results of a caller's operations.
func opResults(c *session.Client, rs []zk.MultiResponse) []OpResult {
	results := make([]OpResult, len(rs))
	for i, r := range rs {
		results[i] = OpResult{Path: strings.TrimPrefix(r.String, c.Prefix), Stat: r.Stat}
	}
	return results
}

// mapOp returns a caller's operation as it is to be sent. The two share the data.
func mapOp(c *session.Client, op Op) (_ any, err error) {
	switch op := op.request.(type) {
	case *zk.CreateRequest:
		return mapCreate(c, op)
	case *zk.SetDataRequest:
		m := &zk.SetDataRequest{Data: op.Data, Version: op.Version}
		if m.Path, err = c.Resolve(op.Path); err != nil {
			return nil, fmt.Errorf("set data of %q: %w", op.Path, err)
		}
		return m, nil
	case *zk.DeleteRequest:
		m := &zk.DeleteRequest{Version: op.Version}
		if m.Path, err = c.Resolve(op.Path); err != nil {
			return nil, fmt.Errorf("delete %q: %w", op.Path, err)
		}
		return m, nil
	case *zk.CheckVersionRequest:
		m := &zk.CheckVersionRequest{Version: op.Version}
		if m.Path, err = c.Resolve(op.Path); err != nil {
			return nil, fmt.Errorf("check %q: %w", op.Path, err)
		}
		return m, nil
	}
	return nil, errors.New("the zero Op (OpCreate, OpSet, OpDelete and OpCheck make operations)")
}

func mapCreate(c *session.Client, op *zk.CreateRequest) (_ any, err error) {
	if op.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
		return nil, fmt.Errorf("create %s: flags %d: a transaction cannot create containers or TTL nodes", op.Path, op.Flags)
	}
	m := &zk.CreateRequest{Data: op.Data, Acl: c.ACL, Flags: op.Flags}
	path, suffix := op.Path, ""
	if op.Flags&zk.FlagSequence != 0 && strings.HasSuffix(path, "/") {
		path, suffix = path+"0", "0" // a name that is only the number is fine
	}
	if m.Path, err = c.Resolve(path); err != nil {
		return nil, fmt.Errorf("create %q: %w", op.Path, err)
	}
	m.Path = strings.TrimSuffix(m.Path, suffix)
	if op.Acl != nil {
		if m.Acl, err = c.ExpandACL(op.Acl); err != nil {
			return nil, fmt.Errorf("create %s: %w", op.Path, err)
		}
	}
	return m, nil
}
