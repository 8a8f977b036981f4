package judge

import (
	"maps"
	"time"
)

// RecipeGroup is the Recipe of a group.
const RecipeGroup = "group"

// workers is what each worker reported last. Until its first worker reports, a process
// stands for them.
type workers map[caller]Event

func (w workers) take(e Event) {
	switch {
	case e.Kind.isGone():
		maps.DeleteFunc(w, func(who caller, _ Event) bool { return who.process == e.Process })
	case e.Kind == Started:
		w[e.caller()] = e
	case e.Worker != "":
		w[e.caller()] = e
		delete(w, caller{process: e.Process, life: e.Life})
	}
}

// Silent judges that no worker hangs in a call that it does not report, such as an Ack
// or a Commit. at must be a moment at which nothing more is put.
func (j *Judge) Silent(at time.Duration) {
	if at-j.served.lastWrite > outageFrom {
		return
	}
	for _, who := range callers(j.workers) {
		last := j.workers[who]
		if quiet := at - max(last.At, j.served.calm); quiet > j.Bound() && !mayBeSilent(last) {
			j.violation(at, "silent", []string{last.Key}, "%v has reported nothing for %v, since %q of %s %s; the bound is %v",
				who, quiet, last.Kind, last.Recipe, last.Key, j.Bound())
		}
	}
}

// mayBeSilent reports whether a worker with that last event waits in a call that served
// judges, or has nothing to do.
func mayBeSilent(last Event) bool {
	switch last.Kind {
	case Begin, Opened, Observing, Observed: // Observers judges the last two
		return true
	case Granted, Failed:
		return last.Recipe == RecipePut
	case Held: // the next item may never come, and the shard may stay with another process
		return last.Recipe == RecipeTake || last.Recipe == RecipeShards
	}
	return false
}
