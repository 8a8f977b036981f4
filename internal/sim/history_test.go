package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkrecipes/zkrecipes"
)

// entry is an operation on one lock, as its caller saw it: the moments are
// counted, not timed, since in simulated time many have the same.
type entry struct {
	lock      string
	who       int
	ends      bool // the end of a grant, not a grant
	token     zkrecipes.Token
	call, ret int64
}

// history is what happened, in order.
type history struct {
	began time.Time

	mu      sync.Mutex
	moment  int64
	entries []entry
	lines   []string
	broken  []string
	commits map[string][]committed
}

// committed is a write that was made under a lock.
type committed struct {
	version int32
	token   zkrecipes.Token
}

func newHistory() *history {
	return &history{began: time.Now(), commits: map[string][]committed{}}
}

// now returns the next moment.
func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moment++
	return h.moment
}

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%10v  ", time.Since(h.began).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// violation notes what must never happen.
func (h *history) violation(format string, args ...any) {
	h.note("VIOLATION "+format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

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
// the highest token so far.
type state struct{ holder, last zkrecipes.Token }

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
		st, e := s.(state), input.(entry)
		if e.ends {
			return st.holder == e.token, state{last: st.last}
		}
		return st.holder == 0 && e.token > st.last, state{holder: e.token, last: e.token}
	},
	DescribeOperation: func(input, _ any) string {
		e := input.(entry)
		return fmt.Sprintf("%s %d ends=%v 0x%x", e.lock, e.who, e.ends, int64(e.token))
	},
}

// judge holds the whole history against the model of a lock with tokens, and the
// writes made under a lock against the order of tokens.
func (h *history) judge() {
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
		h.violation("no lock could have had this history")
	}
	for lock, writes := range h.commits {
		slices.SortFunc(writes, func(a, b committed) int { return cmp.Compare(a.version, b.version) })
		for i := 1; i < len(writes); i++ {
			if writes[i].token < writes[i-1].token {
				h.violation("%s: a commit under token 0x%x came after one under 0x%x", lock, int64(writes[i].token), int64(writes[i-1].token))
			}
		}
	}
}

// problem returns what was violated, nil if nothing was.
func (h *history) problem() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.broken) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(h.broken, "; "))
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}
