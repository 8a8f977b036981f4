package zktest

import (
	"fmt"
	"strings"
	"time"
)

// Action is what a Fault does.
type Action string

// The actions. A connection that is dropped or goes silent keeps its session,
// until that expires or the client comes back.
const (
	// Drop closes the connection: before, the request is lost; after, only
	// its answer is.
	Drop Action = "drop"

	// Withhold leaves the connection open and sends nothing on it any more:
	// before, no request is applied from this one on; after, they all are.
	Withhold Action = "withhold"

	// Delay waits for Fault.For: before, with this request and those behind
	// it; after, with sending the answer and whatever follows it.
	Delay Action = "delay"

	// Answer answers with the error Fault.Code (-7 is OperationTimeout):
	// before, instead of applying the request; after, although it is applied.
	Answer Action = "answer"

	// Expire ends the session; a request that follows is not applied.
	Expire Action = "expire"

	// Refuse closes a connection when it is made; in memory the dialer fails.
	Refuse Action = "refuse"

	// Silence accepts a connection and never answers anything on it.
	Silence Action = "silence"

	// Lag gives a connection a replica that is up to Fault.Behind transactions
	// behind, but with nothing older than Fault.For missing. Reads and watches
	// are the replica's; sync, the connection's own writes and a new session
	// bring it up to date. A client that has seen more is refused. The plan
	// must have the fault when the server starts.
	Lag Action = "lag"
)

// Fault is one entry of a Plan. It fires on requests that match Op and Path,
// from the one after the first Skip of them on, Times times. Refuse, Silence
// and Lag match connections, whatever Op and Path say.
type Fault struct {
	Do    Action
	After bool // after the request is applied, rather than before

	// Op is an operation as in Counts, "connect" being the handshake; "multi"
	// is any multi. Empty is any but a ping.
	Op string

	// Path is a znode's, or what its path begins with if a * stands at the
	// end. A multi matches if one of its operations does. Empty is any.
	Path string

	Skip  int
	Times int // 0 is once, -1 always

	For    time.Duration // of Delay and Lag
	Code   int32         // of Answer
	Behind int           // of Lag
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

// kind is what a fault is counted as.
func (f Fault) kind() string {
	switch {
	case f.Do == Refuse || f.Do == Silence || f.Do == Lag:
		return string(f.Do)
	case f.After:
		return string(f.Do) + " after"
	}
	return string(f.Do) + " before"
}

// event is a request as a plan sees it.
type requestInfo struct {
	op    string   // as it is counted; "connect" for a handshake
	paths []string // of a multi all of them
}

// matches tells whether the fault is about this request.
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
