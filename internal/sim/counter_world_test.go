package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// counterWorld is the workload of Counter.
type counterWorld struct {
	*waitWorld
	rival bool          // somebody else, such as kazoo, writes, too
	pause time.Duration // for how long a worker rests between its calls, at most

	mu  sync.Mutex
	ops []counterOp
}

var counterEvents = []string{
	"canceled at a step", "added", "set", "swapped", "not swapped", "read", "uncertain", "canceled", "evicted", "member deleted", "place deleted", "place written to", "rival added",
	"written together", "written in turn", "judged",
}

func newCounterWorld(seed uint64) *world {
	g, r := newWaitWorld(seed, fixed(
		"multi(setData,setData)", "multi(setData,setData,setData,delete)", "multi(setData,setData,delete)", "create2",
		"multi(create,setData)", "getData", "sync", "multi(createContainer,create,delete)",
	), "/app/counters/a", "/app/counters/b")
	w := &counterWorld{waitWorld: g, pause: time.Second}
	w.lags = true
	w.rival = r.IntN(3) == 0
	w.idleLine = min(w.idleLine, 3*time.Second) // at rest, no receipt is just being deleted
	if r.IntN(2) == 0 {                         // the workers write all the time
		w.latency, w.pause = 20*time.Millisecond, 50*time.Millisecond
	}
	w.operated(w.disturbLines(4*w.pause, "/line"), w.evictMembers("/puts"))
	if w.rival {
		w.others = append(w.others, w.compete())
	}
	return w.with(w)
}

func (w *counterWorld) onChange(c zktest.Change) {
	if strings.HasPrefix(c.Path, "/app/counters/") {
		if strings.Contains(c.Path, "/line/") && c.Deleted {
			w.events.add("written in turn")
		}
		w.faultAtStep(c)
	}
}

// compete adds as kazoo does: it reads the value, and writes over the version that it has read.
func (w *counterWorld) compete() fault {
	return w.operate(2500, 4*w.pause, func(r *rand.Rand, conn *zk.Conn) {
		path := w.paths[r.IntN(len(w.paths))]
		op := counterOp{path: path, kind: "add", a: 1 + r.Int64N(1_000_000), call: w.log.tick()}
		data, stat, err := conn.Get(path)
		if err != nil {
			return
		}
		v, _ := strconv.ParseInt(string(data), 10, 64)
		_, err = conn.Set(path, []byte(strconv.FormatInt(v+op.a, 10)), stat.Version)
		op.ret = w.log.tick()
		switch {
		case err == nil:
			op.value = v + op.a
			w.events.add("rival added")
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
			return
		default:
			op.unknown = true
		}
		w.note(op)
	})
}

// counterOp is a call, and what it returned.
type counterOp struct {
	path      string
	kind      string // add, set, swap or read
	a, b      int64  // the arguments
	value     int64  // that add and read returned
	swapped   bool
	unknown   bool  // it may have been carried out, or may still be
	call, ret int64 // logical times
}

func (w *counterWorld) note(op counterOp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, op)
}

// counterModel is the sequential counter. What is unknown returns nothing.
var counterModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		v, op := state.(int64), input.(counterOp)
		switch op.kind {
		case "add":
			v += op.a
			return op.unknown || op.value == v, v
		case "set":
			return true, op.a
		case "swap":
			if v == op.a {
				return op.unknown || op.swapped, op.b
			}
			return op.unknown || !op.swapped, v
		}
		return op.value == v, v
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// checkAtRest checks that the history of each counter, and the value that it has in the end,
// are those of a counter.
func (w *counterWorld) checkAtRest() {
	conn, done := w.rawConn()
	defer done()
	for _, path := range w.paths {
		data, _, err := conn.Get(path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			w.log.violation("%s: %v", path, err)
		}
		v, err := strconv.ParseInt("0"+string(data), 10, 64)
		if strings.HasPrefix(string(data), "-") {
			v, err = strconv.ParseInt(string(data), 10, 64)
		}
		if err != nil {
			w.log.violation("%s: %v", path, err)
		}
		w.note(counterOp{path: path, kind: "read", value: v, call: w.log.tick(), ret: w.log.tick()})
		w.checkHistory(path)
		w.checkEmpty(path + "/line")
		w.checkEmpty(path + "/puts")
	}
}

// maxUnknown is how many calls of a history may be uncertain: each of them may be put anywhere
// behind its call, and the judge tries all sets of them.
const maxUnknown = 8

func (w *counterWorld) checkHistory(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ops []porcupine.Operation
	unknown := 0
	for i, op := range w.ops {
		if op.path != path {
			continue
		}
		if op.unknown {
			op.ret = math.MaxInt64 // it may be carried out at any time from its call on
			unknown++
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: op, Call: op.call, Return: op.ret})
	}
	if unknown > maxUnknown {
		w.events.add("too uncertain to judge")
		return
	}
	w.events.add("judged")
	if porcupine.CheckOperationsTimeout(counterModel, ops, 0) != porcupine.Ok {
		w.log.violation("%s: the history is not that of a counter", path)
		for _, op := range ops {
			w.log.note("%+v", op.Input)
		}
	}
}
