package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Op is an operation of a Commit, Ack or AckPut: OpCreate, OpSet, OpDelete or OpCheck makes one.
// Its path is under Options.Prefix. The zero Op is no operation, and the call that gets it returns
// an error. An Op can be used again, also by several calls at the same time. It keeps data and acl
// as they are, so do not change them until the call has returned.
type Op struct {
	request any // *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest
	parents bool
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
	return Op{request: &zk.CreateRequest{Path: path, Data: data, Flags: flags, Acl: acl}}
}

// OpSet sets a znode's data. It fails with zk.ErrBadVersion if the data have another
// version. Version -1 stands for any.
func OpSet(path string, data []byte, version int32) Op {
	return Op{request: &zk.SetDataRequest{Path: path, Data: data, Version: version}}
}

// OpDelete deletes a znode. It fails with zk.ErrBadVersion if its data have another
// version, and with zk.ErrNotEmpty if it has children. Version -1 stands for any.
func OpDelete(path string, version int32) Op {
	return Op{request: &zk.DeleteRequest{Path: path, Version: version}}
}

// OpCheck changes nothing. It fails with zk.ErrBadVersion if the znode's data have another
// version, and with zk.ErrNoNode if there is none. Version -1 stands for any.
func OpCheck(path string, version int32) Op {
	return Op{request: &zk.CheckVersionRequest{Path: path, Version: version}}
}

// WithParents returns the operation for a Client.Commit that first creates the missing parents of
// an OpCreate: persistent znodes without data, with Options.ACL. They are created by requests of
// their own, and stay if the transaction is then refused. If an operation before it creates the
// parent, there is nothing else to create. Other operations stay as they are. It costs one request,
// and two for each missing parent. Lease.Commit and Item.Ack return an error for such an operation.
func (o Op) WithParents() Op {
	_, create := o.request.(*zk.CreateRequest)
	return Op{o.request, create}
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

// Commit carries out the operations in one transaction, without a lock. The results are those of
// ops, in order. It blocks, through disconnections and into the next session, until a server
// answers, ctx ends (its error is returned) or the Client is closed (ErrClosed).
//
//   - An operation's own error, which names the operation, is returned if the servers
//     refuse it. Nothing was done.
//   - ErrTooLarge is returned for a request above the servers' limit (Options.MaxBuffer). Nothing
//     was done, unless the error is ErrUncertain, too.
//   - ErrUncertain is returned if the reply was lost, or if ctx ended first. The
//     operations may have been carried out.
//   - ErrSessionFull is returned if the session has no room for an ephemeral znode.
//     Nothing was done.
//
// If two processes must not both write, use Lease.Commit, an OpCheck, or the version of an OpSet. An
// ephemeral znode lives as long as the session in which the Client has created it. The Client does
// not create it again in the next one.
//
// Commit costs one request and one commit. See also Op.WithParents.
func (c *Client) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	rs, err := c.commit(ctx, ops)
	return rs, fail("commit on", c.servers(), err)
}

func (c *Client) commit(ctx context.Context, given []Op) ([]OpResult, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	if len(given) == 0 {
		return nil, errors.New("no operations")
	}
	ops, err := mapOps(c.client, given, true)
	if err != nil {
		return nil, err
	}
	if !c.client.Writes.Begin() {
		return nil, ErrClosed
	}
	defer c.client.Writes.End()
	ctx, done := c.client.Bind(ctx)
	defer done()
	rs, err := session.InSessions(ctx, c.client, func(s *session.Session) ([]zk.MultiResponse, error) {
		for i, op := range given {
			if !op.parents || creates(ops[:i], parentOf(ops[i])) {
				continue
			}
			for above := parentOf(ops[i]); above != ""; above = zkconn.Parent(above) {
				if creates(ops[:i], above) {
					return nil, fmt.Errorf("operation %d: parents are created before the transaction, and one before it creates %s", i, strings.TrimPrefix(above, c.client.Prefix))
				}
			}
			if err := s.CreateParents(ctx, ops[i].(*zk.CreateRequest).Path); err != nil {
				return nil, fmt.Errorf("operation %d: parents: %w", i, err)
			}
		}
		return commitIn(ctx, s, ops)
	})
	if err != nil {
		return nil, err
	}
	return opResults(c.client, rs), nil
}

// parentOf returns the parent of what op, which is a create, creates.
func parentOf(op any) string { return zkconn.Parent(op.(*zk.CreateRequest).Path) }

// creates reports whether one of the operations creates a znode with that path.
func creates(ops []any, path string) bool {
	return slices.ContainsFunc(ops, func(op any) bool {
		create, ok := op.(*zk.CreateRequest)
		return ok && create.Path == path && create.Flags&zk.FlagSequence == 0
	})
}

// commitIn sends the operations in that session. zkconn.ErrSessionOver: nothing was sent.
func commitIn(ctx context.Context, s *session.Session, ops []any) ([]zk.MultiResponse, error) {
	for {
		t, err := s.Begin(ctx, ops...)
		if err != nil {
			return nil, err
		}
		o := t.Wait(ctx)
		switch {
		case o.Applied():
			return o.Results(), nil
		case o.RefusedIn(ops):
			return nil, fmt.Errorf("operation %d: %w", o.IndexIn(ops), o.Err())
		case o.Unsent():
			continue
		case o.Transient(), o.SessionOver(), errs.IsContextErr(ctx, o.Err()):
			return nil, fmt.Errorf("%w: %w", ErrUncertain, o.Err())
		}
		return nil, o.Err()
	}
}

// mapOps returns a caller's operations as they are to be sent. They share the data. parents: some
// may be WithParents.
func mapOps(c *session.Client, ops []Op, parents bool) ([]any, error) {
	mapped := make([]any, len(ops))
	for i, op := range ops {
		var err error
		if op.parents && !parents {
			return nil, fmt.Errorf("operation %d: only Client.Commit creates parents", i)
		}
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

// opResults returns the results of a caller's operations. A server returns a Stat of a created znode, too,
// if the operation was sent alone.
func opResults(c *session.Client, rs []zk.MultiResponse) []OpResult {
	results := make([]OpResult, len(rs))
	for i, r := range rs {
		if r.String != "" {
			results[i].Path = cmp.Or(strings.TrimPrefix(r.String, c.Prefix), "/")
		} else {
			results[i].Stat = r.Stat
		}
	}
	return results
}

// mapOp returns a caller's operation as it is to be sent. The two share the data.
func mapOp(c *session.Client, op Op) (m any, err error) {
	resolve := func(what, path string) (abs string) {
		if abs, err = c.Resolve(path); err != nil {
			err = fmt.Errorf("%s %q: %w", what, path, err)
		}
		return abs
	}
	switch op := op.request.(type) {
	case *zk.CreateRequest:
		m, err = mapCreate(c, op)
	case *zk.SetDataRequest:
		m = &zk.SetDataRequest{Path: resolve("set data of", op.Path), Data: op.Data, Version: op.Version}
	case *zk.DeleteRequest:
		m = &zk.DeleteRequest{Path: resolve("delete", op.Path), Version: op.Version}
	case *zk.CheckVersionRequest:
		m = &zk.CheckVersionRequest{Path: resolve("check", op.Path), Version: op.Version}
	default:
		err = errors.New("the zero Op (OpCreate, OpSet, OpDelete and OpCheck make operations)")
	}
	return m, err
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
