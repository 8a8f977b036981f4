package semaphore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// slotGrant is what an acquisition got.
type slotGrant struct {
	Handle  *hold.Handle
	Numbers []int
}

// slots are those of one acquisition. The names of their znodes end in its uuid.
type slotSet struct {
	hold.Znode // the first one's
	x          *Semaphore
	paths      []string
	numbers    []int32
}

// The containers below a semaphore's path.
const (
	semaphoreLine  = "/line"
	semaphoreSlots = "/slots"
)

func (x *Semaphore) slotsPath() string { return x.At.Abs() + semaphoreSlots }

func (x *Semaphore) slotPath(i int, uuid string) string {
	return x.slotsPath() + "/" + strconv.Itoa(i) + "-" + uuid
}

// slotIn returns the number of the slot whose znode has that name.
func slotIn(name string) (number int32, uuid string, ok bool) {
	digits, uuid, ok := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), uuid, ok && err == nil && n >= 0 && layout.IsUUID(uuid)
}

// SlotsAmong returns the numbers of the slots among children, by name.
func SlotsAmong(children []string) map[string]int32 {
	taken := make(map[string]int32, len(children))
	for _, name := range children {
		if i, _, ok := slotIn(name); ok {
			taken[strings.Clone(name)] = i
		}
	}
	return taken
}

// newSlots returns slots that are yet to be taken.
func (x *Semaphore) newSlots(s *session.Session, numbers []int32) *slotSet {
	uuid := layout.NewUUID()
	paths := make([]string, len(numbers))
	for i, n := range numbers {
		paths[i] = x.slotPath(int(n), uuid)
	}
	return &slotSet{Znode: hold.Znode{Session: s, Path: paths[0]}, x: x, paths: paths, numbers: numbers}
}

// Paths returns the paths of the slots' znodes.
func (h *slotSet) Paths() []string { return slices.Clone(h.paths) }

// Delete gives the slots back, once.
func (h *slotSet) Delete(_ bool, begin hold.BeginFunc) error {
	err := h.release(begin)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		h.x.forget(h.names())
	}
	return err
}

// abandon gives the slots back in the background.
func (h *slotSet) abandon() { h.x.At.Background(func() { hold.Withdraw(h) }) }

// names returns the names of the slots' znodes.
func (h *slotSet) names() []string {
	names := h.Paths()
	for i, path := range names {
		names[i] = path[strings.LastIndexByte(path, '/')+1:]
	}
	return names
}

// addTo adds the slots to what is known to be taken.
func (h *slotSet) addTo(taken map[string]int32) {
	for i, name := range h.names() {
		taken[name] = h.numbers[i]
	}
}

// take creates the slots and carries out ops, in one transaction. The outcome has no results
// if it was applied and its reply was lost. errStale: what a check of ops rests
// on has changed, or the slots' parent was missing and is there now. If ctx ends first,
// the slots are given back in the background.
//
// The creates must come first: if the transaction is sent again, the first of them tells
// whether it was carried out before, whatever has changed since.
func (h *slotSet) take(ctx context.Context, ops ...any) zkconn.Outcome {
	// The background work that this starts must be counted before Close waits for it.
	h.x.At.Client.Tasks.Add()
	defer h.x.At.Client.Tasks.End()
	creates := make([]any, 0, len(h.numbers))
	for _, path := range h.Paths() {
		creates = append(creates, &zk.CreateRequest{
			Path: path, Data: []byte(h.x.At.Client.Identity), Acl: h.Session.ACL(), Flags: zk.FlagEphemeral,
		})
	}
	t := h.Session.Retry(nil, creates, ops)
	o := t.Wait(ctx)
	switch {
	case o.Applied():
		return o
	case o.RefusedAt(creates[0], zk.ErrNodeExists): // nobody else has this name
		return t.AppliedBefore()
	case o.RefusedIn(creates, zk.ErrNodeExists): // somebody has deleted the first one
		o = o.Because(errSlotsLost)
	case o.RefusedIn(creates, zk.ErrNoNode):
		o = o.Because(h.makeParent(ctx))
	case o.RefusedCheck() != nil && o.Is(zk.ErrNoNode, zk.ErrBadVersion):
		o = o.Because(errStale)
	}
	if t.Unknown() {
		h.abandon()
	}
	return o
}

// makeParent creates the parent of the slots, and returns errStale if it is there.
func (h *slotSet) makeParent(ctx context.Context) error {
	err := h.Session.CreateContainer(ctx, zkconn.Parent(h.Path), nil)
	if err == nil || errors.Is(err, zk.ErrNodeExists) {
		return errStale
	}
	return err
}

// granted makes the grant of slots that were taken.
func (h *slotSet) granted(ctx context.Context) (*slotGrant, error) {
	g, err := hold.New(ctx, h.x.At, h, 0)
	var l *hold.Handle
	if err == nil {
		l, err = g.AddHandle(true)
	}
	if err != nil {
		h.abandon()
		if errors.Is(err, errs.ErrEvicted) || errors.Is(err, errs.ErrLost) {
			err = errSlotsLost
		}
		return nil, err
	}
	numbers := make([]int, len(h.numbers))
	for i, n := range h.numbers {
		numbers[i] = int(n)
	}
	return &slotGrant{l, numbers}, nil
}

// release deletes the slots: in one transaction, or one by one if one of them is gone, or if
// they are too many for one that the servers accept.
// zk.ErrNoNode: one of them was gone, and now all are.
func (h *slotSet) release(begin hold.BeginFunc) error {
	ops := h.deleteOps()
	gone := h.await(begin(ops...))
	tooMany := errors.Is(gone, zkconn.ErrTooLarge)
	if !errors.Is(gone, zk.ErrNoNode) && !tooMany || len(ops) == 1 {
		return gone
	}
	for _, op := range ops {
		// Any other error must not be joined with gone: the callers would take all the
		// slots for gone.
		if err := h.await(begin(op)); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	if tooMany {
		return nil
	}
	return gone
}

func (h *slotSet) deleteOps() []any {
	paths := h.Paths()
	ops := make([]any, len(paths))
	for i, path := range paths {
		ops[i] = &zk.DeleteRequest{Path: path, Version: -1}
	}
	return ops
}

// await waits for the outcome of a transaction, if it was sent.
func (h *slotSet) await(t *zkconn.Transaction, err error) error {
	if err == nil {
		err = t.Wait(h.Session.UntilAnswered()).Err()
	}
	return err
}
