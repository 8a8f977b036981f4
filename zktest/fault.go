package zktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
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
	// plan must contain such a fault when the server starts, or Plan.Add panics.
	Lag Action = "lag"
)

// Fault is an entry of a Plan. It ignores the first Skip requests that match Op
// and Path, then fires on the following ones, Times times. Refuse, Silence and
// Lag count connections instead. NewPlan and Plan.Add panic if a field is set that the
// Action ignores, if one is missing that it needs, or if Op is unknown or the Action does nothing to it.
type Fault struct {
	Do    Action
	After bool // fire after the request is applied, not before; not for Miscount, nor for actions on connections

	// Op is an operation, named as in Counts. "connect" is the handshake, and
	// "multi" is any multi. An empty Op matches everything but pings. No Answer matches
	// a handshake, and no Expire matches a request without a session to expire: a
	// handshake that opens one (before) or is refused, and a closeSession (after).
	Op string

	// Path is the path of a znode. With a * at the end it is a prefix. A multi
	// matches if one of its operations does. An empty Path matches everything.
	// Operations without a path, and setWatches, which has many, match no Path.
	Path string

	Skip  int
	Times int // 0 means once, -1 means always

	For    time.Duration // for Delay and Lag
	Code   int32         // for Answer
	Behind int           // for Lag
}

// onConnections reports whether the action acts on connections. Others act on requests.
func (a Action) onConnections() bool { return a == Refuse || a == Silence || a == Lag }

// check refuses an unknown action, fields that the action ignores, and what can do
// nothing: a test with such a fault expects what does not happen.
func (f Fault) check() error {
	switch f.Do {
	case Drop, Withhold, Delay, Answer, Expire, Miscount, Refuse, Silence, Lag:
	default:
		return fmt.Errorf("unknown action %q", f.Do)
	}
	onRequests := !f.Do.onConnections()
	missing := ""
	for _, field := range []struct {
		name             string
		used, set, valid bool
	}{
		{"After", onRequests && f.Do != Miscount, f.After, true},
		{"Op", onRequests, f.Op != "", true},
		{"Path", onRequests, f.Path != "", true},
		{"For", f.Do == Delay || f.Do == Lag, f.For != 0, f.For > 0},
		{"Code", f.Do == Answer, f.Code != 0, f.Code != 0},
		{"Behind", f.Do == Lag, f.Behind != 0, f.Behind > 0},
	} {
		if field.set && !field.used {
			return fmt.Errorf("%s is of no use for the action %q", field.name, f.Do)
		}
		if field.used && !field.valid {
			missing = field.name
		}
	}
	if missing != "" {
		return fmt.Errorf("the action %q needs %s", f.Do, missing)
	}
	return f.checkOp()
}

// checkOp refuses an operation that does not exist, to which the action does nothing, or that has no
// path to match.
func (f Fault) checkOp() error {
	if !isOp(f.Op) {
		return fmt.Errorf("no operation is named %q", f.Op)
	}
	switch {
	case f.Do == Answer && f.Op == "connect", f.Do == Miscount && !mayDelete(f.Op):
		return fmt.Errorf("the action %q does nothing to %q", f.Do, f.Op)
	case f.Do == Expire && f.After && f.Op == "closeSession":
		return fmt.Errorf("the action %q does nothing after %q", f.Do, f.Op)
	case f.Path == "":
		return nil
	}
	switch f.Op {
	case "connect", "ping", "auth", "sasl", "closeSession", "setWatches", "setWatches2", "whoAmI":
		return fmt.Errorf("no %q matches a Path", f.Op)
	}
	return nil
}

// isOp reports whether Counts may have that name.
func isOp(name string) bool {
	if ops, ok := strings.CutPrefix(name, "multi("); ok {
		ops, ok = strings.CutSuffix(ops, ")")
		return ok && !slices.ContainsFunc(strings.Split(ops, ","), func(op string) bool { return !jute.IsOpName(op) })
	}
	return name == "" || name == "connect" || strings.HasPrefix(name, "op(") || jute.IsOpName(name)
}

// mayDelete reports whether requests that match op may delete znodes for which Miscount
// finds a child too many.
func mayDelete(op string) bool {
	if ops, ok := strings.CutPrefix(op, "multi("); ok {
		return slices.Contains(strings.Split(strings.TrimSuffix(ops, ")"), ","), "delete")
	}
	return op == "" || op == "delete" || op == "multi"
}

func (f Fault) String() string {
	var b strings.Builder
	if f.Do.onConnections() {
		fmt.Fprintf(&b, "%s connections", f.Do)
	} else {
		fmt.Fprintf(&b, "%s %s", f.kind(), cmp.Or(f.Op, "any"))
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
	fmt.Fprintf(&b, " skip=%d times=%d", f.Skip, cmp.Or(f.Times, 1))
	return b.String()
}

// kind returns the key of the fault in Plan.Fired.
func (f Fault) kind() string {
	switch {
	case f.Do.onConnections():
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

	sessionless bool // there is no session to expire
}

// isIdle reports whether the action does nothing to a request.
func (f *Fault) isIdle(e requestInfo) bool {
	return f.Do.onConnections() ||
		f.Do == Answer && e.op == "connect" || // its reply has no error code
		f.Do == Expire && e.sessionless
}

// matches reports whether the fault applies to a request.
func (f *Fault) matches(e requestInfo) bool {
	switch {
	case f.isIdle(e):
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
