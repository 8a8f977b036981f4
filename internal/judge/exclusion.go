package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// late is how long after its end a hold may be reported: by a process that was stopped.
const late = 2 * time.Minute

// cutNotice is how long a server that is cut off from its leader goes on answering
// heartbeats (syncLimit), and some time to notice.
const cutNotice = 3 * time.Second

// exclusion finds two holds that exclude each other and were believed in at the same
// time. There is one exception, which the library states: a holder that is connected to
// a server that is cut off from its leader. The leader expires its session, and it cannot
// know before the server does.
type exclusion struct {
	j     *Judge
	holds map[string][]Event // Held, by Key
	cuts  []cut
}

// cut is the time in which a server was cut off.
type cut struct {
	server   string
	from, to time.Duration // to is 0 while it lasts
}

func newExclusion(j *Judge) exclusion { return exclusion{j: j, holds: map[string][]Event{}} }

func (x *exclusion) take(e Event) {
	switch e.Kind {
	case Cut:
		x.cuts = append(x.cuts, cut{server: e.Server, from: e.At})
	case Healed:
		for i := range x.cuts {
			if x.cuts[i].server == e.Server && x.cuts[i].to == 0 {
				x.cuts[i].to = e.At
			}
		}
	case Held:
		for _, key := range heldKeys(e) {
			holds := x.holds[key]
			for i := range holds {
				x.compare(key, &holds[i], &e)
			}
			x.holds[key] = append(holds, e)
		}
	}
}

// heldKeys returns what a hold excludes others from.
func heldKeys(e Event) (keys []string) {
	for _, slot := range e.Slots {
		keys = append(keys, fmt.Sprintf("%s, slot %d", e.Key, slot))
	}
	if keys == nil {
		keys = append(keys, cmp.Or(e.Item, e.Key))
	}
	return keys
}

func (x *exclusion) compare(key string, a, b *Event) {
	from, until := max(a.From, b.From), min(a.Until, b.Until)
	if a.Shared && b.Shared || sameGrant(a, b) {
		return
	}
	older, newer := a, b
	if b.From < a.From {
		older, newer = b, a
	}
	if until <= from {
		x.compareTokens(key, older, newer)
		return
	}
	stale := older
	if newer.Token != 0 && newer.Token < older.Token { // it heard of its grant late
		stale = newer
	}
	if x.cutOff(stale.Server, from) && until-from <= cutNotice || x.lost(older, newer, until) {
		return
	}
	x.j.violation(until, "exclusion", []string{key, a.Key}, "%s: %v (token %d) and %v (token %d) both believed for %v, from %v to %v, that they held it",
		key, a.caller(), a.Token, b.caller(), b.Token, until-from, from, until)
}

// sameGrant reports whether a writer goes on as a reader. From the grant on, its hold as a reader
// may be reported, too.
func sameGrant(a, b *Event) bool {
	return a.Shared != b.Shared && a.Token != 0 && a.Token == b.Token && a.caller() == b.caller()
}

// compareTokens judges that tokens grow from holder to holder. Those of an item are compared
// with its attempts. A grant that was late may be older than another one, unless its call began
// after that.
func (x *exclusion) compareTokens(key string, older, newer *Event) {
	if newer.Token == 0 || newer.Token >= older.Token || newer.Item != "" {
		return
	}
	believed := older.Until > older.From && newer.Until > newer.From
	if !believed && newer.Called <= older.From || x.cutOff(newer.Server, newer.From) || x.j.losses.between(older.From, newer.From) {
		return
	}
	x.j.violation(newer.At, "token", []string{key, newer.Key}, "%s: %v held it with token %d from %v on, after %v had held it with token %d",
		key, newer.caller(), newer.Token, newer.From, older.caller(), older.Token)
}

// lost reports whether a loss explains why an older hold overlaps a newer one: its grant was
// lost, and it could not know for as long as its session was good.
func (x *exclusion) lost(older, newer *Event, until time.Duration) bool {
	return slices.ContainsFunc(x.j.losses, func(l loss) bool {
		return losses{l}.between(older.From, newer.From) && until <= l.to+x.j.cfg.Timeout
	})
}

// cutOff reports whether a server was cut off for long enough before an overlap that begins at from.
func (x *exclusion) cutOff(server string, from time.Duration) bool {
	return slices.ContainsFunc(x.cuts, func(c cut) bool {
		return c.server == server && c.from < from && (c.to == 0 || c.to > from-x.j.cfg.Timeout-cutNotice)
	})
}

// forget forgets what no late report can overlap.
func (x *exclusion) forget(now time.Duration) {
	for key, holds := range x.holds {
		holds = slices.DeleteFunc(holds, func(h Event) bool { return h.Until < now-late })
		if x.holds[key] = holds; len(holds) == 0 {
			delete(x.holds, key)
		}
	}
	x.cuts = slices.DeleteFunc(x.cuts, func(c cut) bool { return c.to != 0 && c.to < now-2*late })
}

// RecipeSemaphore is the Recipe of a semaphore.
const RecipeSemaphore = "semaphore"

// takeSlots judges that slots are granted that there are. Their exclusion (see exclusion)
// then says that no more than all of them are held.
func (j *Judge) takeSlots(e Event) {
	n, ok := j.cfg.Slots[e.Key]
	if !ok || e.Kind != Granted {
		return
	}
	seen := map[int]bool{}
	for _, slot := range e.Slots {
		if slot < 0 || slot >= n || seen[slot] {
			j.violation(e.At, "slots", []string{e.Key}, "%s: %v got slots %v of %d", e.Key, e.caller(), e.Slots, n)
			return
		}
		seen[slot] = true
	}
	if len(seen) == 0 {
		j.violation(e.At, "slots", []string{e.Key}, "%s: %v got no slot", e.Key, e.caller())
	}
}
