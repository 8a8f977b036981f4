// Package judge decides from what workers report whether the recipes kept their
// promises. It knows neither the library nor ZooKeeper. The workers are those of internal/soak,
// on real servers, and those of internal/sim, in simulated time. What can be known only inside
// a simulated server is judged there.
//
// Some promises are not judged. One is the order in which callers are served: a caller
// is missed only if it waits for long while others are served again and again. The
// simulations judge the order. Another is that a barrier does not open
// early, in the time after the failure of a member, or the kill of its process: for three
// session timeouts such a member may still be counted.
package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind says what an Event reports.
type Kind string

const (
	// Calls. A worker has one at a time.
	Begin   Kind = "begin"   // a call begins; Recipe and Key say what it waits for
	Granted Kind = "granted" // the call returned what it waited for
	Failed  Kind = "failed"  // the call returned an error; Uncertain if it may have been carried out
	Strange Kind = "strange" // it is an error that no fault explains, unless what was read From a moment on is lost

	// What was granted. A grant that is never over was a killed process's.
	Held      Kind = "held"      // it is over: From the grant Until that moment the worker could believe in it
	Committed Kind = "committed" // a fenced transaction wrote Version over Was, which was read at From
	Doubted   Kind = "doubted"   // the outcome of a fenced transaction is unknown
	// A writer that has written Was at From goes on as a reader, and proves that Version is there.
	Downgraded Kind = "downgraded"
	Acked      Kind = "acked"    // the ack of Item succeeded, that of the claim with the Token
	Effect     Kind = "effect"   // what that ack writes was seen in ZooKeeper
	Redriven   Kind = "redriven" // Moved dead letters were moved back to the queue Key
	Leaving    Kind = "leaving"  // a member of a double barrier begins to leave
	Gone       Kind = "gone"     // that member's visit was lost instead

	// An election's observers. An Observed without a Token is of no leader.
	Observing Kind = "observing" // a worker begins to observe
	Observed  Kind = "observed"  // it sees Holder lead with Token

	// The gate.
	Shut    Kind = "shut"    // the gate is shut
	Opening Kind = "opening" // a call begins that may open it
	Opened  Kind = "opened"  // the gate is open
	Closing Kind = "closing" // a call begins that may shut it

	// Processes and servers.
	Expired Kind = "expired" // the process's session is over
	Started Kind = "started"
	Stopped Kind = "stopped"
	Resumed Kind = "resumed"
	Killed  Kind = "killed"
	Ended   Kind = "ended"   // as it was told to: it has given back everything
	Resting Kind = "resting" // all processes give back what they have, and work no more
	Cut     Kind = "cut"     // Server is cut off from its peers
	Healed  Kind = "healed"
	Broken  Kind = "broken" // any other fault of Server, and its end
	Wrote   Kind = "wrote"  // the ensemble has carried out a plain client's write
	Lost    Kind = "lost"   // what was done From a moment on; Refused: and the servers refuse the sessions at first
)

// Event is something that happened. At is the time since the beginning of the run, by
// one clock for all processes.
type Event struct {
	At      time.Duration `json:"at"`
	Kind    Kind          `json:"kind"`
	Process int           `json:"process,omitempty"`
	Life    int           `json:"life,omitempty"` // how often the process was started
	Worker  string        `json:"worker,omitempty"`

	Recipe    string        `json:"recipe,omitempty"`
	Key       string        `json:"key,omitempty"` // what all calls that wait for the same have in common
	Shared    bool          `json:"shared,omitempty"`
	Called    time.Duration `json:"called,omitempty"` // when the call began that was granted, if that is known
	From      time.Duration `json:"from,omitempty"`
	Until     time.Duration `json:"until,omitempty"`
	Server    string        `json:"server,omitempty"`
	Token     int64         `json:"token,omitempty"`
	Zxid      int64         `json:"zxid,omitempty"`
	Was       int32         `json:"was,omitempty"`
	Version   int32         `json:"version,omitempty"`
	Item      string        `json:"item,omitempty"`
	Attempt   int           `json:"attempt,omitempty"`
	Failures  int           `json:"failures,omitempty"` // attempts after which Item became a dead letter
	Moved     int           `json:"moved,omitempty"`
	Slots     []int         `json:"slots,omitempty"`  // of a semaphore
	Holder    string        `json:"holder,omitempty"` // a leader's value
	Index     int           `json:"index,omitempty"`
	Uncertain bool          `json:"uncertain,omitempty"`
	Refused   bool          `json:"refused,omitempty"`
	Err       string        `json:"err,omitempty"`
}

// isGone reports whether a process is there no more.
func (k Kind) isGone() bool { return k == Killed || k == Ended }

// caller identifies a worker in one life of its process.
type caller struct {
	process, life int
	worker        string
}

func (e Event) caller() caller { return caller{e.Process, e.Life, e.Worker} }

func (c caller) String() string { return fmt.Sprintf("%d.%d/%s", c.process, c.life, c.worker) }

// Config says what the judge must know of the run.
type Config struct {
	Timeout time.Duration  // of the sessions
	Slack   time.Duration  // for the servers' tick and a busy machine
	Members map[string]int // by Key: how many must wait to be served together; of a double barrier, all that use it
	Slots   map[string]int // by Key: how many slots a semaphore has
	Chains  map[string]int // by Key: how many locks or letters one call is about, one after the other, before the next is served

	Queues map[string]DeadLetters // by Key: queues with dead letters
	Steady []string               // Keys for which each process is served all the time
	Shards []string               // Keys of shards
}

// Violation is a promise that was not kept, with what happened before.
type Violation struct {
	At      time.Duration
	Rule    string
	Text    string
	History []Event
}

// Judge takes events and collects violations. It is not safe for concurrent use.
type Judge struct {
	cfg        Config
	pending    []Event // not judged yet
	violations []Violation
	history    map[string][]Event // the last ones, by Key and Item; of faults under ""

	strange   map[string]int // errors
	losses    losses
	served    served
	exclusion exclusion
	fences    map[string]*fence
	queues    queues
	barriers  map[string]*barrier
	gates     map[string]*gate
	elections map[string]*election
	shards    shards
}

// New returns a Judge of a run that has not begun.
func New(cfg Config) *Judge {
	j := &Judge{
		cfg: cfg, history: map[string][]Event{},
		fences: map[string]*fence{}, barriers: map[string]*barrier{}, gates: map[string]*gate{},
		elections: map[string]*election{}, strange: map[string]int{},
	}
	j.served = newServed(j)
	j.exclusion = newExclusion(j)
	j.queues = newQueues(j)
	j.shards = newShards(j)
	return j
}

// Bound returns how long a caller that can be served may wait without an outage or a
// fault of a process.
func (j *Judge) Bound() time.Duration { return j.cfg.Timeout + j.cfg.Timeout/2 + j.cfg.Slack }

// boundOf is like Bound for what is taken by callers that take several locks, one by one.
func (j *Judge) boundOf(key string) time.Duration {
	return time.Duration(max(1, j.cfg.Chains[key])) * j.Bound()
}

// Take takes an event. Events may come late and out of order.
func (j *Judge) Take(e Event) { j.pending = append(j.pending, e) }

// JudgeUntil judges the events until a moment for which no more will come.
func (j *Judge) JudgeUntil(moment time.Duration) {
	slices.SortStableFunc(j.pending, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	n := 0
	for n < len(j.pending) && j.pending[n].At <= moment {
		j.judge(j.pending[n])
		n++
	}
	j.pending = slices.Delete(j.pending, 0, n)
	j.served.look(moment)
	j.shards.look(moment)
	j.exclusion.forget(moment)
}

func (j *Judge) judge(e Event) {
	j.remember(e)
	if e.Kind == Lost {
		j.takeLoss(e)
	}
	if e.Kind == Strange && !(e.From > 0 && j.losses.between(e.From, e.At)) {
		j.takeStrange(e)
	}
	j.queues.take(e)
	j.served.take(e)
	j.exclusion.take(e)
	j.fenceOf(e.Key).take(j, e)
	if e.Key == "" || j.cfg.Members[strings.TrimSuffix(e.Key, LeaveSuffix)] > 0 {
		j.takeMember(e)
	}
	j.gateOf(e.Key).take(j, e)
	j.takeElection(e)
	j.takeSlots(e)
	j.shards.take(e)
}

// takeStrange takes an error that nothing explains. The same one of the same key is one
// violation, however many callers get it.
func (j *Judge) takeStrange(e Event) {
	same := e.Key + ": " + e.Err
	if j.strange[same]++; j.strange[same] == 1 {
		j.violation(e.At, "error", []string{e.Key}, "%s: %v: %s", e.Key, e.caller(), e.Err)
	}
}

// Violations returns what was found so far.
func (j *Judge) Violations() []Violation { return j.violations }

func (j *Judge) violation(at time.Duration, rule string, keys []string, format string, args ...any) {
	v := Violation{At: at, Rule: rule, Text: fmt.Sprintf(format, args...)}
	keys = append(keys, "")
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		v.History = append(v.History, j.history[key]...)
	}
	slices.SortStableFunc(v.History, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	j.violations = append(j.violations, v)
}

// remembered is how many events of a key are.
const remembered = 200

func (j *Judge) remember(e Event) {
	if e.Kind == Wrote {
		return
	}
	keys := []string{e.Key}
	if _, finished := j.queues.finished[e.Item]; e.Item != "" && !finished {
		keys = append(keys, e.Item)
	}
	for _, key := range keys {
		all := append(j.history[key], e)
		j.history[key] = all[max(0, len(all)-remembered):]
	}
}

// kept is how many commits, tokens and terms are kept for comparisons.
const kept = 2000

// keep forgets the older half of what is more than is kept.
func keep[T any](all []T) []T {
	if len(all) <= kept {
		return all
	}
	return slices.Delete(all, 0, kept/2)
}

// of returns what there is of a key. If that is nothing, anew makes it.
func of[V any](all map[string]*V, key string, anew func() *V) *V {
	if all[key] == nil {
		all[key] = anew()
	}
	return all[key]
}

// callers returns the workers in their order.
func callers[V any](of map[caller]V) []caller {
	return slices.SortedFunc(maps.Keys(of), func(a, b caller) int { return cmp.Compare(a.String(), b.String()) })
}
