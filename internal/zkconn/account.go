package zkconn

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The transaction that ends a session names all its ephemeral znodes (CloseSessionTxn). No
// server can read a record above jute.maxbuffer, so if that one is larger, none of them
// starts again (ZOOKEEPER-4306).

// account adds up what the ephemeral znodes of a session add to that transaction. A znode counts
// from when its creation begins until a server tells that it is gone. What a lost reply may have
// created counts, too, until a list of the session's znodes, or the caller's search, corrects that.
// If that has a number, a deletion tells nothing: the znode that is gone may be another session's.
type account struct {
	bound int // that no transaction may exceed, unless it deletes as much as it creates
	left  func(parent string)

	mu     sync.Mutex
	weight int
	znodes map[znodeKey]znode
	begun  int64 // how many creates were begun

	counted time.Time // when the last recount began
	warned  bool      // that it is nearly full was logged, and the weight has not been below half of bound since
}

// znodeKey is a znode's path. Of sequential znodes whose numbers are not known, it is the path
// without the number.
type znodeKey struct {
	path     string
	numbered bool
}

// znode is what is known of the znode with a key, or of all of them.
type znode struct {
	known    bool  // a server has said that it exists
	underWay int   // attempts to create it
	doubtful int   // attempts whose outcome is unknown
	begun    int64 // of the account, when the last attempt began
}

// The bound is 9/10 of the servers' limit: the record has a header, and some of what lets go
// of znodes has to create one first.
func newAccount(maxBuffer int, left func(parent string)) *account {
	return &account{bound: int(int64(maxBuffer) * 9 / 10), left: left, znodes: map[znodeKey]znode{}}
}

// Weight returns what an ephemeral znode adds to the transaction that ends its session.
func Weight(path string, sequential bool) int { return znodeKey{path, sequential}.weight() }

const numberLen = 10 // of a sequential znode; 11 if it is negative

func (k znodeKey) weight() int {
	if k.numbered {
		return 4 + len(k.path) + numberLen
	}
	return 4 + len(k.path)
}

// createdBy returns the key of the znode that op creates, if that is an ephemeral one.
func createdBy(op any) (k znodeKey, ok bool) {
	create, ok := op.(*zk.CreateRequest)
	if !ok || create.Flags&zk.FlagEphemeral == 0 {
		return k, false
	}
	return znodeKey{create.Path, create.Flags&zk.FlagSequence != 0}, true
}

// begin counts what a transaction that is about to be sent creates. It returns false, and
// counts nothing, if the transaction would add znodes above the bound and what is spare.
func (a *account) begin(ops []any, spare int) (weight int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	growth := 0
	for _, op := range ops {
		if k, ok := createdBy(op); ok && (k.numbered || a.znodes[k] == znode{}) {
			growth += k.weight()
		} else if del, ok := op.(*zk.DeleteRequest); ok {
			again := func(op any) bool { k, ok := createdBy(op); return ok && k.path == del.Path }
			if k := (znodeKey{path: del.Path}); a.znodes[k] != (znode{}) && !slices.ContainsFunc(ops, again) {
				growth -= k.weight()
			}
		}
	}
	if growth > 0 && a.weight+growth > a.bound+spare {
		return a.weight + growth, false
	}
	for _, op := range ops {
		if k, ok := createdBy(op); ok {
			a.begun++
			z := a.znodes[k]
			z.underWay, z.begun = z.underWay+1, a.begun
			a.set(k, z)
		}
	}
	return a.weight, true
}

// ended notes the outcome of a transaction that begin has counted. Without results it was not
// carried out or, if doubtful, it may have been.
func (a *account) ended(ops []any, results []zk.MultiResponse, doubtful bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, op := range ops {
		if k, ok := createdBy(op); ok {
			if results != nil {
				a.exists(results[i].String)
			}
			z := a.znodes[k]
			if z.underWay--; doubtful {
				z.doubtful++
			}
			a.set(k, z)
		} else if del, ok := op.(*zk.DeleteRequest); ok && results != nil {
			a.remove(del.Path)
		}
	}
}

// begins returns how many creates were begun.
func (a *account) begins() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// appliedBefore notes that a transaction was carried out whose reply was lost: from now on, what it
// has deleted must not be there again, unless its creation has begun after that many creates.
func (a *account) appliedBefore(ops []any, begun int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, op := range ops {
		if k, ok := createdBy(op); ok && !k.numbered {
			a.exists(k.path)
		} else if del, ok := op.(*zk.DeleteRequest); ok && a.znodes[znodeKey{path: del.Path}].begun <= begun {
			a.remove(del.Path)
		}
	}
}

// missed notes that a server has found no znode for op, the first of a transaction.
func (a *account) missed(op any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch op := op.(type) {
	case *zk.DeleteRequest:
		a.remove(op.Path)
	case *zk.SetDataRequest:
		a.remove(op.Path)
	case *zk.CheckVersionRequest:
		a.remove(op.Path)
	}
}

// deleted notes an event. What a lost reply may have created since still counts.
func (a *account) deleted(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := znodeKey{path: path}
	if z := a.znodes[k]; z.known {
		z.known = false
		a.set(k, z)
	}
}

// The methods below are called with a.mu held.

// at returns the key under which the znode at path counts, if it does.
func (a *account) at(path string) (k znodeKey, ok bool) {
	if k = (znodeKey{path: path}); a.znodes[k] != (znode{}) {
		return k, true
	}
	for n := numberLen; n <= min(numberLen+1, len(path)); n++ {
		k = znodeKey{path[:len(path)-n], true}
		if a.znodes[k].doubtful > 0 && isNumber(path[len(path)-n:]) {
			return k, true
		}
	}
	return k, false
}

// isNumber reports whether the server ends the name of a sequential znode like that.
func isNumber(s string) bool {
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && fmt.Sprintf("%0*d", numberLen, n) == s
}

// found notes that there is a znode of the session's at path.
func (a *account) found(path string) {
	k, ok := a.at(path)
	if a.exists(path); ok && k.numbered {
		z := a.znodes[k]
		z.doubtful--
		a.set(k, z)
	}
}

func (a *account) exists(path string) {
	k := znodeKey{path: path}
	z := a.znodes[k]
	z.known, z.doubtful = true, 0
	a.set(k, z)
}

func (a *account) remove(path string) {
	k := znodeKey{path: path}
	if z := a.znodes[k]; z != (znode{}) {
		z.known, z.doubtful = false, 0
		a.set(k, z)
	}
}

// set changes what is known of the znode with that key.
func (a *account) set(k znodeKey, z znode) {
	if !k.numbered { // there is one at most
		z.doubtful = min(z.doubtful, 1)
	}
	a.weight += z.weight(k) - a.znodes[k].weight(k)
	if a.znodes[k] = z; z.weight(k) == 0 {
		delete(a.znodes, k)
		a.left(Parent(k.path))
	}
	if a.weight < a.bound/2 {
		a.counted, a.warned = time.Time{}, false
	}
}

func (z znode) weight(k znodeKey) int {
	switch n := z.underWay + z.doubtful; {
	case k.numbered:
		return n * k.weight()
	case z.known || n > 0:
		return k.weight()
	}
	return 0
}

// Load is how much the end of a session would cost the servers.
type Load struct {
	Bytes  int // of the paths of its ephemeral znodes, as in the record
	Znodes int // how many there are
	Bound  int // that Bytes may not exceed
}

// Load returns the session's load, with what may exist.
func (s *Session) Load() Load {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	return Load{Bytes: a.weight, Znodes: len(a.znodes), Bound: a.bound}
}

// NoteFound notes that a create whose reply was lost has created the znode at path, as a list showed.
// If the znode has gone since, the caller's next request for it must tell.
func (s *Session) NoteFound(path string) {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found(path)
}

// NoteAbsent notes that nothing stands of what creates whose replies were lost may have created at
// path, with a number or without: so a list showed that was asked for when they had ended.
func (s *Session) NoteAbsent(path string) {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, numbered := range []bool{false, true} {
		k := znodeKey{path, numbered}
		if z := a.znodes[k]; z != (znode{}) && z.underWay == 0 {
			a.set(k, znode{})
		}
	}
}

// Parents returns the paths right below which the session has, or may have, ephemeral znodes.
func (s *Session) Parents() map[string]bool {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	parents := map[string]bool{}
	for k := range a.znodes {
		parents[Parent(k.path)] = true
	}
	return parents
}

// CheckRoom returns ErrSessionFull if there is no room for so many bytes: for callers that
// would otherwise write something before the transaction that is refused.
func (s *Session) CheckRoom(n int) error {
	if weight := s.Load().Bytes + n; weight > s.account.bound {
		return s.checkWeight(weight, false)
	}
	return nil
}

// checkWeight returns ErrSessionFull if a session of that weight is not ok.
func (s *Session) checkWeight(weight int, ok bool) error {
	if weight > s.account.bound/4*3 {
		s.recount()
	}
	if ok {
		return nil
	}
	return Errorf(ErrSessionFull, "the session is full: the paths of its ephemeral znodes would have %d bytes, and may have %d, "+
		"9/10 of the servers' jute.maxbuffer (Options.MaxBuffer): no server could read the end of a larger session. "+
		"Use another Client for some of them, let fewer calls wait, or use KeepFor", weight, s.account.bound)
}

// recountInterval is between two recounts.
const recountInterval = time.Minute

// recount has the servers list the znodes of a session that is nearly full, in the background:
// some that count may not exist. If it is nearly full all the same, it says so.
func (s *Session) recount() {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.counted) < recountInterval {
		return
	}
	a.counted = time.Now()
	until := a.begun
	s.cfg.Tasks.Start(func() {
		if _, _, _, err := s.strangeZnodes(until); Transient(err) { // it may be tried again at once
			a.mu.Lock()
			defer a.mu.Unlock()
			a.counted = time.Time{}
			return
		}
		load := s.Load()
		a.mu.Lock()
		warn := load.Bytes > load.Bound/4*3 && !a.warned
		a.warned = a.warned || warn
		a.mu.Unlock()
		if warn {
			s.cfg.Log(slog.LevelWarn, "session is getting full",
				"session", s.Name(), "znodes", load.Znodes, "bytes", load.Bytes, "max", load.Bound)
		}
	})
}

// Parent returns the path of the znode above path, "" for one at the top.
func Parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }
