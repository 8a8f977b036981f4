package zktest

import (
	"fmt"
	"strings"
	"time"
)

// Action is what a Fault does.
type Action string

// The actions. Drop, Withhold, Delay, Answer and Expire act on a request, either
// before the server applies it or, with Fault.After, between applying it and
// sending the reply. Miscount acts on a request before it is applied. Refuse, Silence
// and Lag act on a connection. When a connection is closed or falls silent, its session
// lives on until it expires or the client reconnects.
const (
	// Drop closes the connection. Before, the request is lost. After, only the
	// reply is lost.
	Drop Action = "drop"

	// Withhold keeps the connection open but sends nothing on it any more.
	// Before, neither this request nor later ones are applied. After, all of
	// them are.
	Withhold Action = "withhold"

	// Delay waits for Fault.For. Before, it delays this request and those behind
	// it. After, it delays the reply and everything that is sent after it.
	Delay Action = "delay"

	// Answer replies with the error Fault.Code, for example -7 for
	// OperationTimeout. Before, the request is not applied. After, it is.
	Answer Action = "answer"

	// Expire expires the session. Before, the request is not applied. After, it
	// is.
	Expire Action = "expire"

	// Miscount finds one child too many below each znode that the request deletes and
	// that has lost a child with the child's session, so the server answers that it is not
	// empty. ZooKeeper's leader does so while the end of the session is prepared and not
	// applied yet: for requests behind it the session's znodes are gone, but not from the
	// counts of their parents (PrepRequestProcessor, OpCode.closeSession).
	Miscount Action = "miscount"

	// Refuse closes a new connection. In memory, Dial fails.
	Refuse Action = "refuse"

	// Silence accepts a new connection and never replies on it.
	Silence Action = "silence"

	// Lag connects the client to a replica that is behind the leader, by up to
	// Fault.Behind transactions, of which none is older than Fault.For. Reads
	// and watches use the replica. A sync, a write through the connection and
	// opening a session bring the replica up to date. The server closes the
	// connection of a client that has seen a higher zxid than the replica's. The
	// plan must contain the fault when the server starts.
	Lag Action = "lag"
)

// Fault is an entry of a Plan. It ignores the first Skip requests that match Op
// and Path, then fires on the following ones, Times times. Refuse, Silence and
// Lag count connections instead. A field that the Action ignores must not be set: NewPlan
// and Plan.Add panic.
type Fault struct {
	Do    Action
	After bool // fire after the request is applied, not before; not for Miscount, nor for actions on connections

	// Op is an operation, named as in Counts. "connect" is the handshake, and
	// "multi" is any multi. An empty Op matches everything but pings.
	Op string

	// Path is the path of a znode. With a * at the end it is a prefix. A multi
	// matches if one of its operations does. An empty Path matches everything.
	Path string

	Skip  int
	Times int // 0 means once, -1 means always

	For    time.Duration // for Delay and Lag
	Code   int32         // for Answer
	Behind int           // for Lag
}

// check refuses an unknown action, and fields that the action ignores: a test that sets
// them expects what does not happen.
func (f Fault) check() error {
	connects := false
	after := true
	var uses [3]bool // For, Code, Behind
	switch f.Do {
	case Drop, Withhold, Expire:
	case Miscount:
		after = false
	case Delay:
		uses[0] = true
	case Answer:
		uses[1] = true
	case Refuse, Silence:
		connects = true
	case Lag:
		connects = true
		uses[0], uses[2] = true, true
	default:
		return fmt.Errorf("unknown action %q", f.Do)
	}
	for _, field := range []struct {
		name string
		set  bool
		used bool
	}{
		{"After", f.After, after && !connects},
		{"Op", f.Op != "", !connects},
		{"Path", f.Path != "", !connects},
		{"For", f.For != 0, uses[0]},
		{"Code", f.Code != 0, uses[1]},
		{"Behind", f.Behind != 0, uses[2]},
	} {
		if field.set && !field.used {
			return fmt.Errorf("%s is of no use for the action %q", field.name, f.Do)
		}
	}
	return nil
}

func (f Fault) String() string {
	var b strings.Builder
	when := "before"
	if f.After {
		when = "after"
	}
	switch f.Do {
	case Refuse, Silence, Lag:
		fmt.Fprintf(&b, "%s connections", f.Do)
	default:
		op := f.Op
		if op == "" {
			op = "any"
		}
		fmt.Fprintf(&b, "%s %s %s", f.Do, when, op)
		if f.Path != "" {
			fmt.Fprintf(&b, " %s", f.Path)
		}
	}
	switch f.Do {
	case Delay:
		fmt.Fprintf(&b, " for=%v", f.For)
	case Answer:
		fmt.Fprintf(&b, " code=%d", f.Code)
	case Lag:
		fmt.Fprintf(&b, " behind=%d for=%v", f.Behind, f.For)
	}
	times := f.Times
	if times == 0 {
		times = 1
	}
	fmt.Fprintf(&b, " skip=%d times=%d", f.Skip, times)
	return b.String()
}

// kind returns the key of the fault in Plan.Fired.
func (f Fault) kind() string {
	switch {
	case f.Do == Refuse || f.Do == Silence || f.Do == Lag:
		return string(f.Do)
	case f.After:
		return string(f.Do) + " after"
	}
	return string(f.Do) + " before"
}

// requestInfo is what a plan needs to know of a request.
type requestInfo struct {
	op    string   // named as in Counts
	paths []string // a multi has several
}

// matches reports whether the fault applies to a request.
func (f *Fault) matches(e requestInfo) bool {
	switch {
	case f.Do == Refuse || f.Do == Silence || f.Do == Lag:
		return false
	case f.Op == "" && e.op == "ping":
		return false
	case f.Op != "" && f.Op != e.op && !(f.Op == "multi" && strings.HasPrefix(e.op, "multi(")):
		return false
	case f.Path == "":
		return true
	}
	for _, path := range e.paths {
		if prefix, cut := strings.CutSuffix(f.Path, "*"); path == f.Path || cut && strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
