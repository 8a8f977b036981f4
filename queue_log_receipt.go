package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// A receipt is an ephemeral znode that a transaction writes first of all: sent
// again after a lost reply, it fails there, and so says that it was carried out.
// To look for what it did would prove nothing, since an item may have been put,
// taken and acked by then. A receipt is used by one transaction at a time, and
// again once that is settled; it ends with its session, as must every attempt. It
// is made before, on its own: one that the transaction made could be deleted, by
// somebody who deletes the queue, and be made once more when it is sent again.

// slot is a receipt, of a name that no other session uses.
type slot struct {
	path    string
	version int32 // of its data, -1 while it is not known to be there
}

func (st *stock) receipts() string { return st.path + "/puts" }

// slot returns a receipt that no other transaction uses, and makes it if need be.
func (st *stock) slot(ctx context.Context) (*slot, error) {
	st.mu.Lock()
	var sl *slot
	if n := len(st.free); n > 0 {
		sl = st.free[n-1]
		st.free = st.free[:n-1]
	} else {
		sl = &slot{fmt.Sprintf("%s/%016x-%d", st.receipts(), uint64(st.s.wire.ID()), st.s.nextSlot.Add(1)), -1}
	}
	st.mu.Unlock()
	if sl.version < 0 {
		if err := st.makeReceipt(ctx, sl); err != nil {
			st.unused(sl)
			return nil, err
		}
		sl.version = 0
	}
	return sl, nil
}

// makeReceipt makes a receipt. Nobody but this session may write it, where the
// server can tell.
func (st *stock) makeReceipt(ctx context.Context, sl *slot) error {
	c, acl := st.s.c, st.s.c.acl
	if owner := st.s.ownerID(); owner != "" {
		acl = placeACL(c.acl, owner)
	}
	for tries := 0; tries < maxTries; {
		_, _, err := st.s.multi(ctx, &zk.CreateRequest{Path: sl.path, Acl: acl, Flags: zk.FlagEphemeral})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists): // by an attempt whose reply was lost
			return nil
		case unsettled(err):
		case errors.Is(err, zk.ErrNoNode):
			tries++
			err := c.createContainer(ctx, st.s, st.receipts(), nil)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		default:
			return err
		}
	}
	return errContended
}

// write is the operation that comes first.
func (sl *slot) write(what string) []any {
	return []any{&zk.SetDataRequest{Path: sl.path, Data: []byte(what), Version: sl.version}}
}

// written takes a receipt back that a transaction has written.
func (st *stock) written(sl *slot) {
	sl.version++
	st.unused(sl)
}

// unused takes a receipt back that a transaction, settled, has not written.
func (st *stock) unused(sl *slot) {
	st.mu.Lock()
	closed := st.closed
	if !closed {
		st.free = append(st.free, sl)
	}
	st.mu.Unlock()
	if closed {
		st.discard(sl)
	}
}

// discard deletes a receipt of which it is not known whether it was written.
func (st *stock) discard(sl *slot) {
	st.s.c.tasks.start(func() {
		for {
			_, _, err := st.s.multi(context.Background(), // ends with the session
				&zk.DeleteRequest{Path: sl.path, Version: -1})
			if !unsettled(err) {
				return // where that is refused, it goes with the session
			}
		}
	})
}

// refused tells what a transaction means that failed at its receipt: again, that
// an earlier one may have been carried out.
func (st *stock) refused(sl *slot, again bool, err error) (done bool, _ error) {
	switch {
	case again && errors.Is(err, zk.ErrBadVersion):
		st.written(sl)
		return true, nil
	case again:
		st.discard(sl)
		return false, fmt.Errorf("%w: receipt: %w", ErrUncertain, err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoAuth):
		st.discard(sl) // somebody has been at it; the next transaction has another one
		return false, nil
	}
	st.unused(sl)
	return false, err
}

// close deletes the receipts, of a queue that is forgotten.
func (st *stock) close() {
	st.mu.Lock()
	free := st.free
	st.free, st.closed = nil, true
	st.mu.Unlock()
	for _, sl := range free {
		st.discard(sl)
	}
}
