package zkrecipes_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// takesContext matches the calls in api.txt that end with the context that they are given.
var takesContext = regexp.MustCompile(`(?m)^zkrecipes: (?:func|method) (\S+?)\(ctx context\.Context.*\) (.*)$`)

func TestEachCallThatTakesAContextIsInTheTable(t *testing.T) {
	api, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	var calls []string
	for _, m := range takesContext.FindAllStringSubmatch(string(api), -1) {
		if m[2] != "context.Context" { // it makes one
			calls = append(calls, m[1])
		}
	}
	slices.Sort(calls)
	var inTable []string
	for entry := range callsWithContext {
		call, _, _ := strings.Cut(entry, ",")
		inTable = append(inTable, call)
	}
	slices.Sort(inTable)
	require.Equal(t, calls, slices.Compact(inTable))
}

// ways are those in which servers do not answer from the nth request on.
var ways = map[string]func(w *recipetest.World, n int){
	"silent": func(w *recipetest.World, n int) {
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Skip: n, Times: -1})
	},
	"silent once it has carried it out": func(w *recipetest.World, n int) {
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Skip: n, Times: -1})
	},
	"throttled": func(w *recipetest.World, n int) {
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -127, Skip: n, Times: -1})
	},
	"not there": func(w *recipetest.World, n int) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Skip: n, Times: -1}, zktest.Fault{Do: zktest.Refuse, Times: -1})
	},
}

func TestEachCallReturnsWhenItsContextEndsWhateverTheServersDo(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 2
	}
	for _, entry := range slices.Sorted(maps.Keys(callsWithContext)) {
		for way, breaks := range ways {
			for n, met := 0, true; met && n < 6; n += step {
				t.Run(fmt.Sprintf("%s/%s/%d", entry, way, n), func(t *testing.T) {
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						met = returnsInTime(t, newCallWorld(t, w), entry, func() { breaks(w, n) })
					})
				})
			}
		}
	}
}

// longer are the calls that take longer than their contexts.
var longer = map[string]time.Duration{
	"Dial":               3 * time.Millisecond, // go-zookeeper's connection ends
	"(*Client).Shutdown": 5 * time.Second,      // it closes the Client
	"(*Barrier).Wait":    zkconn.Grace,         // for an outcome that only the servers know
	"(*Mutex).Do":        zkconn.Grace,         // what was held is given up
	"(*RWLock).Do":       zkconn.Grace,
	"(*RWLock).RDo":      zkconn.Grace,
	"(*Semaphore).Do":    zkconn.Grace,
	"DoAll":              zkconn.Grace,
	"(*Election).Lead":   zkconn.Grace,
	"(*Queue).Serve":     zkconn.Grace,
	"(*Shards).Serve":    2 * zkconn.Grace, // the member and the size
	"(*Shards).Resize":   zkconn.Grace,
}

// returnsInTime makes a call while the server is broken, and reports whether the call has met that.
func returnsInTime(t *testing.T, w *callWorld, entry string, breaks func()) (met bool) {
	const deadline = 300 * time.Millisecond
	call := callsWithContext[entry](w)
	synctest.Wait()
	before, running := w.ephemerals(), goroutines()
	breaks()
	a := harness.GoErr(t, func(context.Context) error {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		return call(ctx)
	})
	name, _, _ := strings.Cut(entry, ",")
	time.Sleep(deadline + longer[name])
	synctest.Wait()
	for _, times := range w.Plan.Fired() {
		met = met || times > 0
	}
	if a.Waiting() {
		t.Errorf("the call does not return when its context ends")
		began := time.Now()
		w.Plan.Stop()
		a.Wait()
		t.Logf("it returns %v later", time.Since(began))
		return met
	}
	w.Plan.Stop()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	for _, path := range w.ephemerals() {
		require.Contains(t, before, path, "it is left")
	}
	require.LessOrEqual(t, goroutines(), running, "goroutines are left")
	return met
}

// goroutines returns how many there are in bubbles.
func goroutines() int {
	return bytes.Count(stacks[:runtime.Stack(stacks[:], true)], []byte("synctest bubble"))
}

var stacks [1 << 20]byte

// ephemerals returns the paths of all ephemeral znodes but receipts, of which a session may keep
// some.
func (w *callWorld) ephemerals() (all []string) {
	for _, s := range w.Srv.Sessions() {
		for _, path := range s.Ephemerals {
			if !strings.Contains(path, "/puts/") {
				all = append(all, strings.Replace(path, "__READ__", "__WRIT__", 1)) // a Downgrade may go on
			}
		}
	}
	return all
}
