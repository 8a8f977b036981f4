package zkconn

import (
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// The transaction that ends a session names all its ephemeral znodes (CloseSessionTxn). No
// server can read a record above jute.maxbuffer, so if that one is larger, none of them
// starts again (ZOOKEEPER-4306).

// account counts the ephemeral znodes of a session: what they add to the transaction that
// ends it. Those whose creation is under way count, and so do those of which it is not
// known whether they were created, or deleted.
type account struct {
	bound int // that no transaction may exceed, unless it deletes as much as it creates
	spare int // what may be added to bound for transactions that let go of something

	mu     sync.Mutex
	weight int
	begun  int64 // how many creates were begun, see goneSince
	full   bool  // nearlyFull has returned true, and the weight has not fallen by much since
	// znodes are those whose paths are known, by path.
	znodes map[string]*znode
	// numbered are the sequential ones whose numbers are not known. A transaction may be
	// sent several times, and it creates them once at most.
	numbered map[*zk.CreateRequest]*znode
	// lost has those of numbered that may exist, by their paths without the number.
	lost map[string][]*zk.CreateRequest
	// below is how many of all these stand right below a path.
	below map[string]int
	// emptied is called, with mu held, when none stands below a path any more.
	emptied func(path string)
}

// znode is one that exists or may exist.
type znode struct {
	weight   int
	underWay int   // attempts to create it
	stays    bool  // it exists, or an attempt whose outcome is unknown may have created it
	known    bool  // a server has said that it exists
	begun    int64 // of the account when the last attempt began
}

// The bound is 9/10 of the servers' limit: the record has a header, and some of what lets go
// of znodes has to create one first.
func newAccount(maxBuffer int) *account {
	return &account{
		bound: int(int64(maxBuffer) * 9 / 10), spare: maxBuffer / 20,
		znodes: map[string]*znode{}, numbered: map[*zk.CreateRequest]*znode{}, lost: map[string][]*zk.CreateRequest{},
		below: map[string]int{}, emptied: func(string) {},
	}
}

// Weight returns what an ephemeral znode adds to the transaction that ends its session.
func Weight(path string, sequential bool) int {
	n := 4 + len(path)
	if sequential {
		n += numberLen
	}
	return n
}

const numberLen = 10 // of a sequential znode; 11 if it is negative

func isEphemeral(op *zk.CreateRequest) bool { return op.Flags&zk.FlagEphemeral != 0 }
func isNumbered(op *zk.CreateRequest) bool  { return op.Flags&zk.FlagSequence != 0 }
func weightOf(op *zk.CreateRequest) int     { return Weight(op.Path, isNumbered(op)) }

// begin counts what a transaction that is about to be sent creates. It returns false, and
// counts nothing, if the transaction would add znodes above the bound. over is how much may be
// added to the bound.
func (a *account) begin(ops []any, over int) (weight int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.growth(ops); n > 0 && a.weight+n > a.bound+over {
		return a.weight + n, false
	}
	for _, op := range ops {
		if create, ok := op.(*zk.CreateRequest); ok && isEphemeral(create) {
			z := a.of(create)
			if z == nil {
				z = a.add(create)
			}
			a.begun++
			z.underWay, z.begun = z.underWay+1, a.begun
		}
	}
	return a.weight, true
}

// growth returns how much heavier the session is if the transaction is carried out.
func (a *account) growth(ops []any) (n int) {
	var gone []string
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			if isEphemeral(op) && (a.of(op) == nil || slices.Contains(gone, op.Path)) {
				n += weightOf(op)
			}
		case *zk.DeleteRequest:
			if z := a.at(op.Path); z != nil && !slices.Contains(gone, op.Path) {
				n -= z.weight
				gone = append(gone, op.Path)
			}
		}
	}
	return n
}

// of returns the znode that op creates, nil if it is not counted.
func (a *account) of(op *zk.CreateRequest) *znode {
	if isNumbered(op) {
		return a.numbered[op]
	}
	return a.znodes[op.Path]
}

func (a *account) add(op *zk.CreateRequest) *znode {
	z := &znode{weight: weightOf(op)}
	if isNumbered(op) {
		a.numbered[op] = z
	} else {
		a.znodes[op.Path] = z
	}
	a.weight += z.weight
	a.below[Parent(op.Path)]++
	return z
}

// fewerBelow notes that a znode is counted no more.
func (a *account) fewerBelow(parent string) {
	if a.below[parent]--; a.below[parent] == 0 {
		delete(a.below, parent)
		a.emptied(parent)
	}
}

// hasBelow reports whether any of the znodes stands right below path.
func (a *account) hasBelow(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.below[path] > 0
}

// at returns the znode with that path, nil if it is not counted.
func (a *account) at(path string) *znode {
	if z := a.znodes[path]; z != nil {
		return z
	}
	if ops := a.lostAt(path); len(ops) > 0 {
		return a.numbered[ops[0]]
	}
	return nil
}

// lostAt returns the creates that may have created the znode with that path.
func (a *account) lostAt(path string) []*zk.CreateRequest {
	if len(a.lost) == 0 {
		return nil
	}
	for _, n := range []int{numberLen, numberLen + 1, 0} { // 0: path is itself without the number
		if len(path) < n {
			continue
		}
		if ops := a.lost[path[:len(path)-n]]; len(ops) > 0 {
			return ops
		}
	}
	return nil
}

// remove notes that there is no znode with that path. Of a sequential one whose number is
// not known, the path without the number will do.
func (a *account) remove(path string) {
	if z := a.znodes[path]; z != nil {
		z.stays, z.known = false, false
		a.dropPath(path, z)
		return
	}
	if ops := a.lostAt(path); len(ops) > 0 {
		op := ops[0]
		a.found(op)
		a.dropNumbered(op)
	}
}

// found notes that the outcome of a lost create is known.
func (a *account) found(op *zk.CreateRequest) {
	a.numbered[op].stays = false
	rest := slices.DeleteFunc(a.lost[op.Path], func(other *zk.CreateRequest) bool { return other == op })
	if a.lost[op.Path] = rest; len(rest) == 0 {
		delete(a.lost, op.Path)
	}
}

// drop forgets the znode of a create that does not exist and that no attempt may create.
func (a *account) drop(op *zk.CreateRequest) {
	if isNumbered(op) {
		a.dropNumbered(op)
	} else {
		a.dropPath(op.Path, a.znodes[op.Path])
	}
}

func (a *account) dropPath(path string, z *znode) {
	if !z.stays && z.underWay == 0 {
		delete(a.znodes, path)
		a.lighten(z.weight)
		a.fewerBelow(Parent(path))
	}
}

func (a *account) dropNumbered(op *zk.CreateRequest) {
	if z := a.numbered[op]; !z.stays && z.underWay == 0 {
		delete(a.numbered, op)
		a.lighten(z.weight)
		a.fewerBelow(Parent(op.Path))
	}
}

func (a *account) lighten(n int) {
	if a.weight -= n; a.weight < a.bound/2 {
		a.full = false
	}
}

// carriedOut notes that a transaction was carried out. created is the path of the znode that
// the ith operation has created.
func (a *account) carriedOut(ops []any, created func(i int) string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, op := range ops {
		switch op := op.(type) {
		case *zk.DeleteRequest:
			a.remove(op.Path)
		case *zk.CreateRequest:
			switch {
			case !isEphemeral(op):
			case isNumbered(op):
				a.number(op, created(i))
			default:
				z := a.znodes[op.Path]
				z.underWay--
				z.stays, z.known = true, true
			}
		}
	}
}

// number notes the path of a sequential znode. Other attempts that are under way will be
// refused: they weigh nothing.
func (a *account) number(op *zk.CreateRequest, path string) {
	z := a.numbered[op]
	z.underWay--
	if z.stays {
		a.found(op)
	}
	if named := a.znodes[path]; named != nil { // another one had the same name before, or is about to
		named.stays, named.known, named.begun = true, true, max(named.begun, z.begun)
	} else {
		a.znodes[path] = &znode{weight: Weight(path, false), stays: true, known: true, begun: z.begun}
		a.below[Parent(path)]++
		a.weight += Weight(path, false)
	}
	a.weight -= z.weight
	z.weight = 0
	a.dropNumbered(op)
}

// refused notes that a transaction was not carried out, because the operation with that
// index was refused, -1 if none was. noNode: there is no such znode.
func (a *account) refused(ops []any, failed int, noNode bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var deletes []string
	for i, op := range ops {
		missing := i == failed && noNode
		if create, ok := op.(*zk.CreateRequest); ok {
			if isEphemeral(create) {
				// An attempt before, whose reply was lost, has not created it either if it could
				// have been created now, or if it has no parent.
				free := i < failed && !isNumbered(create) && !slices.Contains(deletes, create.Path)
				a.notCreated(create, free || missing)
			}
			continue
		}
		path := target(op)
		if missing && !slices.Contains(deletes, path) {
			a.remove(path)
		}
		if _, ok := op.(*zk.DeleteRequest); ok {
			deletes = append(deletes, path)
		}
	}
}

// target returns the path of the znode that op needs, empty for a create.
func target(op any) string {
	switch op := op.(type) {
	case *zk.DeleteRequest:
		return op.Path
	case *zk.SetDataRequest:
		return op.Path
	case *zk.CheckVersionRequest:
		return op.Path
	}
	return ""
}

// notCreated notes that an attempt to create the znode has failed. never: no attempt before
// has created it either.
func (a *account) notCreated(op *zk.CreateRequest, never bool) {
	z := a.of(op)
	z.underWay--
	if never {
		if isNumbered(op) && z.stays {
			a.found(op)
		}
		z.stays, z.known = false, false
	}
	a.drop(op)
}

// notSent notes that a transaction that was begun was not sent.
func (a *account) notSent(ops []any) { a.refused(ops, -1, false) }

// unknown notes that it is not known whether a transaction was carried out.
func (a *account) unknown(ops []any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, op := range ops {
		op, ok := op.(*zk.CreateRequest)
		if !ok || !isEphemeral(op) {
			continue
		}
		z := a.of(op)
		z.underWay--
		switch {
		case z.stays:
		case isNumbered(op) && z.weight == 0: // another attempt has created it
			a.dropNumbered(op)
		default:
			z.stays = true
			if isNumbered(op) {
				a.lost[op.Path] = append(a.lost[op.Path], op)
			}
		}
	}
}

// gone is remove for znodes that somebody else has deleted, or that were never created.
func (a *account) gone(paths ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range paths {
		a.remove(path)
	}
}

// goneSince is gone for what was learned of requests that were sent after creates had been begun so
// often. It leaves alone what was begun later, for example by the same transaction: a caller may come
// to tell after that was carried out, and the comparison with the servers' list (compare) deletes
// what the account does not know.
func (a *account) goneSince(creates int64, paths ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range paths {
		if z := a.at(path); z != nil && z.begun <= creates {
			a.remove(path)
		}
	}
}

// creates returns how many creates were begun.
func (a *account) creates() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// there notes that an ephemeral znode with that path, which is not sequential, exists.
func (a *account) there(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	z := a.znodes[path]
	if z == nil {
		z = a.add(&zk.CreateRequest{Path: path, Flags: zk.FlagEphemeral})
	}
	z.stays, z.known = true, true
}

// knows reports whether a server has said that a znode with that path exists.
func (a *account) knows(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	z := a.znodes[path]
	return z != nil && z.known
}

// compare compares the account with a list of the session's znodes, in the order of the
// replies: all that was sent before on this connection has been settled, and nothing that was
// sent later is in the list. missing exist no more, although a server has said that they do.
// strange should not exist. doubt: what may have created a znode in the list is under way.
func (a *account) compare(listed []string) (missing, strange []string, doubt bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	there := make(map[string]bool, len(listed))
	for _, path := range listed {
		there[path] = true
		switch z := a.at(path); {
		case z == nil:
			strange = append(strange, path)
		case !z.stays:
			doubt = true
		}
	}
	for path, z := range a.znodes {
		if z.known && z.underWay == 0 && !there[path] {
			missing = append(missing, path)
		}
	}
	return missing, strange, doubt
}

// nearlyFull reports, once, that the weight has passed 3/4 of the bound. It does so again
// once the weight has been below half of it.
func (a *account) nearlyFull() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full || a.weight <= a.bound/4*3 {
		return false
	}
	a.full = true
	return true
}

// state returns the weight, and how many znodes there are.
func (a *account) state() (weight, znodes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.weight, len(a.znodes) + len(a.numbered)
}
