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

// entry is an operation on one lock, as its caller saw it: the moments are
// counted, not timed, since in simulated time many have the same.
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

// history is what was done to locks, to be judged.
type lockHistory struct {
	mu     sync.Mutex
	ops    []lockOp
	writes map[string][]fencedWrite
}

// committed is a write that was made under a lock.
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

// state of the lock that a history is held against: who holds it, by token, and
// the highest tokens so far. A mutex is a lock without readers.
type lockState struct {
	writer  zkrecipes.Token // 0: none
	readers string          // their tokens, sorted, so that states compare
	// A token is its place's in the line, so a reader's lies between those of the
	// writers before and behind it. Readers have no order among themselves.
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

// judge holds the whole history against the model of a lock with tokens, and the
// writes made under a lock against the order of tokens.
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
		to.violation("no lock could have had this history")
	}
	for lock, writes := range h.writes {
		slices.SortFunc(writes, func(a, b fencedWrite) int { return cmp.Compare(a.version, b.version) })
		var last, lastWriter fencedWrite
		for _, c := range writes {
			before := last // of whom this one has to come behind
			if !c.exclusive {
				before = lastWriter
			}
			if c.token < before.token {
				to.violation("%s: a commit under token 0x%x came after one under 0x%x", lock, int64(c.token), int64(before.token))
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

// turn: by the server's word, which leaves no room for clocks, a place that is
// granted has been the first of its line, or a reader's with no writer ahead.
func (w *lockWorld) checkGranted(who int, place string, reads bool) {
	s, ok := parsePlace(place[strings.LastIndexByte(place, '/')+1:])
	w.observer.mu.Lock()
	turn := w.observer.mayHold[place]
	w.observer.mu.Unlock()
	switch {
	case !ok || s.reader != reads:
		w.log.violation("worker %d is granted %s, a place of another kind", who, place)
	case !turn:
		w.log.violation("worker %d is granted %s, whose turn it never was", who, place)
	case s.number < 0 || s.number > math.MaxInt32-1_000_000:
		w.log.violation("worker %d is granted %s, a number beyond the limit", who, place)
	}
}

// deletedByNobody: a lease does not end by a deletion that nobody makes. (Who is
// expired may hear of the deletion before the end of the session.)
func (w *lockWorld) checkNotDeleted(err error) {
	if err != nil && !w.forcedExpiry && strings.Contains(err.Error(), "deleted by somebody else") {
		w.log.violation("nobody deletes places here: %v", err)
	}
}
