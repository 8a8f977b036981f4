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
// again once that is settled; it ends with its session, as must every attempt.

// slot is a receipt, of a name that no other session uses.
type slot struct {
	path    string
	version int32 // of its data, -1 before there is a znode
}

func (st *stock) receipts() string { return st.path + "/puts" }

// slot returns a receipt that no other transaction uses. Its parent was there by
// then: where it is missing when a transaction is sent again, somebody has deleted
// it, perhaps with the receipt of the first time.
func (st *stock) slot(ctx context.Context) (*slot, error) {
	st.mu.Lock()
	if n := len(st.free); n > 0 {
		sl := st.free[n-1]
		st.free = st.free[:n-1]
		st.mu.Unlock()
		return sl, nil
	}
	parented := st.parented
	st.mu.Unlock()
	if !parented {
		_, _, err := st.s.get(ctx, st.receipts())
		if errors.Is(err, zk.ErrNoNode) {
			err = st.s.c.createContainer(ctx, st.s, st.receipts(), nil)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		st.parent(true)
	}
	return &slot{fmt.Sprintf("%s/%016x-%d", st.receipts(), uint64(st.s.wire.ID()), st.s.nextSlot.Add(1)), -1}, nil
}

// parent notes whether there is a parent of receipts.
func (st *stock) parent(parented bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.parented = parented
}

// write is the operation that comes first. Nobody but this session may write a
// receipt, where the server can tell.
func (st *stock) write(sl *slot, what string) []any {
	if sl.version >= 0 {
		return []any{&zk.SetDataRequest{Path: sl.path, Data: []byte(what), Version: sl.version}}
	}
	c, acl := st.s.c, st.s.c.acl
	if owner := st.s.ownerID(); owner != "" {
		acl = placeACL(c.acl, owner)
	}
	return []any{&zk.CreateRequest{Path: sl.path, Data: []byte(what), Acl: acl, Flags: zk.FlagEphemeral}}
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
	create := sl.version < 0
	if errors.Is(err, zk.ErrNoNode) {
		st.parent(false)
	}
	switch {
	case again && (create && errors.Is(err, zk.ErrNodeExists) || !create && errors.Is(err, zk.ErrBadVersion)):
		st.written(sl)
		return true, nil
	case again:
		st.discard(sl)
		return false, fmt.Errorf("%w: receipt: %w", ErrUncertain, err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists),
		!create && errors.Is(err, zk.ErrNoAuth):
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
		if sl.version >= 0 {
			st.discard(sl)
		}
	}
}
