package zkrecipes

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// observer sees each change of a barrier's znodes as the server applies it. It
// records the members present whenever ready admits them.
type observer struct {
	mu       sync.Mutex
	dir      string // parent of the members and of ready
	created  bool   // ready admits members by its creation; else when it is written
	standing map[string]bool
	opened   []int                     // the number of members, at each opening
	stood    map[int64]map[string]bool // the members, by the opening's zxid
}

func (o *observer) option() zktest.Option {
	o.standing, o.stood = map[string]bool{}, map[int64]map[string]bool{}
	return zktest.OnChange(func(c zktest.Change) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch name, ok := strings.CutPrefix(c.Path, o.dir+"/"); {
		case !ok, strings.Contains(name, "/"): // below ready
		case name == "ready":
			if c.Created == o.created && !c.Deleted {
				o.opened = append(o.opened, len(o.standing))
				o.stood[c.Zxid] = maps.Clone(o.standing)
			}
		case c.Created:
			o.standing[name] = true
		case c.Deleted:
			delete(o.standing, name)
		}
	})
}

// openings returns the number of members at each opening since the last call.
func (o *observer) openings() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	opened := o.opened
	o.opened = nil
	return opened
}

// remain returns those members of the given opening that are still present.
func (o *observer) remain(zxid int64) (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.stood[zxid] {
		if o.standing[name] {
			names = append(names, name)
		}
	}
	return names
}

// membersLeft returns when the members whose Wait has returned have left, or have tried to:
// they stay for a moment, which is 100 ms at most.
func membersLeft() {
	time.Sleep(150 * time.Millisecond)
	synctest.Wait()
}

// mishaps are the faults that can hit a request.
var mishaps = []zktest.Fault{
	{Do: zktest.Drop}, {Do: zktest.Drop, After: true},
	{Do: zktest.Expire}, {Do: zktest.Expire, After: true},
	{Do: zktest.Withhold}, {Do: zktest.Withhold, After: true},
	{Do: zktest.Delay, For: 3 * time.Second}, {Do: zktest.Delay, For: 3 * time.Second, After: true},
	{Do: zktest.Answer, Code: jute.ErrOperationTimeout}, {Do: zktest.Answer, Code: jute.ErrOperationTimeout, After: true},
}

// eachRequest runs f with each mishap hitting the first request, the second, and so
// on, until no request is left for it to hit. f adds the fault to the plan and
// reports whether it fired.
func eachRequest(t *testing.T, mishaps []zktest.Fault, f func(t *testing.T, fault zktest.Fault) (met bool)) {
	for _, fault := range mishaps {
		n := 0
		for met := true; met; fault.Skip++ {
			t.Run(fmt.Sprint(fault), func(t *testing.T) { met = f(t, fault) })
			n++
			require.Less(t, n, 500)
		}
		require.Greater(t, n, 5, "requests")
	}
}

// met reports whether the only fault of the plan has fired.
func (w *world) met() bool {
	for _, n := range w.plan.Fired() {
		return n > 0
	}
	return false
}
