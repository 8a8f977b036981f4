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
type entry struct {
	lock      string
	who       int
	op        operation
	token     zkrecipes.Token
	call, ret int64
}

type operation string

const (
	asWriter   operation = "granted to a writer"
	asReader   operation = "granted to a reader"
	downgraded operation = "downgraded"
	ended      operation = "ended"
)

// history is what was done to locks, to be judged.
type history struct {
	mu      sync.Mutex
	entries []entry
	commits map[string][]committed
}

// committed is a write that was made under a lock.
type committed struct {
	version   int32
	token     zkrecipes.Token
	exclusive bool
}

func newHistory() *history { return &history{commits: map[string][]committed{}} }

func (h *history) add(e entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(h.entries, e)
}

func (h *history) commit(lock string, c committed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits[lock] = append(h.commits[lock], c)
}

// state of the lock that a history is held against: who holds it, by token, and
// the highest tokens so far. A mutex is a lock without readers.
type state struct {
	writer  zkrecipes.Token // 0: none
	readers string          // their tokens, sorted, so that states compare
	// A token is its place's in the line, so a reader's lies between those of the
	// writers before and behind it. Readers have no order among themselves.
	lastWriter, lastReader zkrecipes.Token
}

func (s state) step(op operation, t zkrecipes.Token) (bool, state) {
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
	case asWriter:
		ok = s.writer == 0 && s.readers == "" && t > s.lastWriter && t > s.lastReader
		s.writer, s.lastWriter = t, t
	case asReader:
		ok = s.writer == 0 && t > s.lastWriter
		enter()
	case downgraded:
		ok = s.writer == t
		s.writer = 0
		enter()
	case ended:
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
			lock := op.Input.(entry).lock
			by[lock] = append(by[lock], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) {
		e := input.(entry)
		return s.(state).step(e.op, e.token)
	},
	DescribeOperation: func(input, _ any) string {
		e := input.(entry)
		return fmt.Sprintf("%s %d %s 0x%x", e.lock, e.who, e.op, int64(e.token))
	},
}

// judge holds the whole history against the model of a lock with tokens, and the
// writes made under a lock against the order of tokens.
func (h *history) judge(to *record) {
	h.mu.Lock()
	var ops []porcupine.Operation
	for _, e := range h.entries {
		ret := e.ret
		if ret == 0 {
			ret = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: e.who, Input: e, Call: e.call, Return: ret})
	}
	h.mu.Unlock()
	if porcupine.CheckOperationsTimeout(lockModel, ops, 0) != porcupine.Ok {
		to.violation("no lock could have had this history")
	}
	for lock, writes := range h.commits {
		slices.SortFunc(writes, func(a, b committed) int { return cmp.Compare(a.version, b.version) })
		var last, lastWriter committed
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
