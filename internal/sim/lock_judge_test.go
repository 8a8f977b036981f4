package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/zkrecipes/zkrecipes"
)

// lockOp is an operation on one lock, as its caller saw it, between two logical
// times.
type lockOp struct {
	lock      string
	worker    int
	kind      opKind
	token     zkrecipes.Token
	call, ret int64
}

type opKind string

const (
	opWriterGranted opKind = "granted to a writer"
	opReaderGranted opKind = "granted to a reader"
	opDowngraded    opKind = "downgraded"
	opEnded         opKind = "ended"
)

// lockHistory is what the workers did to locks.
type lockHistory struct {
	mu     sync.Mutex
	ops    []lockOp
	writes map[string][]fencedWrite
}

// fencedWrite is a write that was made under a lock, with its token.
type fencedWrite struct {
	version   int32
	token     zkrecipes.Token
	exclusive bool
}

func newLockHistory() *lockHistory { return &lockHistory{writes: map[string][]fencedWrite{}} }

func (h *lockHistory) add(e lockOp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, e)
}

func (h *lockHistory) addWrite(lock string, c fencedWrite) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[lock] = append(h.writes[lock], c)
}

// lockState is the state of the model of a lock: the tokens of its holders, and the
// highest tokens so far. A mutex is a lock without readers.
type lockState struct {
	writer  zkrecipes.Token // 0 if there is none
	readers string          // their tokens, sorted, so that states can be compared
	// Tokens are in the order of the line, so a reader's is between those of the
	// writers before and after it. Readers have no order among themselves.
	lastWriter, lastReader zkrecipes.Token
}

func (s lockState) step(op opKind, t zkrecipes.Token) (bool, lockState) {
	key := fmt.Sprintf("%016x ", int64(t))
	reader := strings.Index(s.readers, key)
	enter := func() {
		i := 0
		for i < len(s.readers) && s.readers[i:] > key {
			i += len(key)
		}
		s.readers = s.readers[:i] + key + s.readers[i:]
		s.lastReader = max(s.lastReader, t)
	}
	ok := false
	switch op {
	case opWriterGranted:
		ok = s.writer == 0 && s.readers == "" && t > s.lastWriter && t > s.lastReader
		s.writer, s.lastWriter = t, t
	case opReaderGranted:
		ok = s.writer == 0 && t > s.lastWriter
		enter()
	case opDowngraded:
		ok = s.writer == t
		s.writer = 0
		enter()
	case opEnded:
		switch {
		case s.writer == t:
			ok, s.writer = true, 0
		case reader >= 0:
			ok, s.readers = true, s.readers[:reader]+s.readers[reader+len(key):]
		}
	}
	return ok, s
}

var lockModel = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, op := range ops {
			lock := op.Input.(lockOp).lock
			by[lock] = append(by[lock], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return lockState{} },
	Step: func(s, input, _ any) (bool, any) {
		e := input.(lockOp)
		return s.(lockState).step(e.kind, e.token)
	},
	DescribeOperation: func(input, _ any) string {
		e := input.(lockOp)
		return fmt.Sprintf("%s %d %s 0x%x", e.lock, e.worker, e.kind, int64(e.token))
	},
}

// check checks that the history is linearizable as that of a lock with tokens, and
// that the writes under a lock came in the order of their tokens.
func (h *lockHistory) check(to *runLog) {
	h.mu.Lock()
	var ops []porcupine.Operation
	for _, e := range h.ops {
		ret := e.ret
		if ret == 0 {
			ret = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: e.worker, Input: e, Call: e.call, Return: ret})
	}
	h.mu.Unlock()
	if porcupine.CheckOperationsTimeout(lockModel, ops, 0) != porcupine.Ok {
		to.violation("the history is not that of a lock")
	}
	for lock, writes := range h.writes {
		slices.SortFunc(writes, func(a, b fencedWrite) int { return cmp.Compare(a.version, b.version) })
		var last, lastWriter fencedWrite
		for _, c := range writes {
			before := last // the write whose token this one's must not be below
			if !c.exclusive {
				before = lastWriter
			}
			if c.token < before.token {
				to.violation("%s: a write under token 0x%x came after one under 0x%x", lock, int64(c.token), int64(before.token))
			}
			if c.token > last.token {
				last = c
			}
			if c.exclusive {
				lastWriter = c
			}
		}
	}
}

// checkGranted checks that a granted place was the first of its line at some moment,
// or a reader's with no writer ahead. It goes by the order of the server's changes,
// so that no clock is involved.
func (w *lockWorld) checkGranted(worker int, place string, reads bool) {
	s, ok := parsePlace(place[strings.LastIndexByte(place, '/')+1:])
	w.observer.mu.Lock()
	turn := w.observer.mayHold[place]
	w.observer.mu.Unlock()
	switch {
	case !ok || s.reader != reads:
		w.log.violation("worker %d was granted %s, a place of another kind", worker, place)
	case !turn:
		w.log.violation("worker %d was granted %s, which could never hold", worker, place)
	case w.isBeyondLimit(s.number):
		w.log.violation("worker %d was granted %s, a number beyond the limit", worker, place)
	}
}

// checkNotDeleted checks that a lease ends by a deletion only in worlds that have an
// operator to delete places, or in which the server may expire the session of a live
// client: that client may see the deletion before the expiry.
func (w *lockWorld) checkNotDeleted(err error) {
	switch {
	case err == nil || !strings.Contains(err.Error(), textDeleted):
	case w.forcedExpiry:
		w.events.add("lease ended by a deletion")
	default:
		w.log.violation("a place was deleted, and here no operator deletes places: %v", err)
	}
}
