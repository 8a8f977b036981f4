package costs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const golden = "testdata/costs.txt"

var update = flag.Bool("update", false, "write "+golden+" anew")

// row is a use of the API in a situation. The last of the steps is the use: its requests are
// counted until all goroutines sleep. The steps before it bring the situation about.
type row struct {
	name  string
	steps []step
}

// step is what somebody does: "I" am the world's client c, "they" are its client other, and a
// newcomer is a client of its own.
type step func(w *world)

type steps = []step

// all is one step of several.
func all(ss ...step) step {
	return func(w *world) {
		for _, s := range ss {
			s(w)
		}
	}
}

// times repeats steps.
func times(n int, ss ...step) step {
	return func(w *world) {
		for range n {
			all(ss...)(w)
		}
	}
}

// pass lets time pass.
func pass(d time.Duration) step { return func(*world) { time.Sleep(d) } }

// settle is how long it takes until clients have deleted the lines that they do not use, and
// watch the places that hold.
var settle = pass(recipetest.LongSession / 4)

// newClient makes me a client that has used no path.
func newClient(w *world) { w.become(w.client()) }

func newcomer(w *world) { w.newcomers = append(w.newcomers, w.client()) }

func iClose(w *world)    { w.ok(w.c.Close()) }
func theyClose(w *world) { w.ok(w.other.Close()) }

func iReconnect(w *world) {
	synctest.Wait() // what I have begun is under way
	require.True(w.t, w.Srv.Disconnect(recipetest.SessionID(w.c)))
	time.Sleep(time.Second)
}

// newSession ends my session, and waits for what I do in the next one.
func newSession(w *world) {
	require.True(w.t, w.Srv.Expire(recipetest.SessionID(w.c)))
	time.Sleep(2 * recipetest.LongSession)
}

// tables are all rows, by what they are about.
var tables = []struct {
	about string
	rows  []row
}{
	{"Mutex", mutexRows}, {"Mutex in a long line", longLineRows}, {"Mutex with options", mutexOptionRows},
	{"Lists and evictions", operatorRows}, {"RWLock", rwlockRows}, {"Semaphore", semaphoreRows},
	{"Election", electionRows}, {"Reads and watches", watchRows}, {"Group", groupRows}, {"Counter", counterRows},
	{"Shards", shardsRows},
	{"Barrier", barrierRows}, {"Double barrier", doubleBarrierRows}, {"Gate", gateRows}, {"Queue", queueRows},
	{"Client", clientRows},
}

// world is a server whose clients have long sessions, so that no heartbeat and no watch of a
// holder on its own place comes between. c and other have used the world's path by a Mutex. The
// other fields are what the steps so far have left.
type world struct {
	*recipetest.World
	t         *testing.T
	c, other  *zkrecipes.Client
	newcomers []*zkrecipes.Client
	locks
	slots
	terms
	watches
	members
	items

	stopServing step
}

// client returns a client that has used no path.
func (w *world) client() *zkrecipes.Client { return w.clientWith(zkrecipes.Options{}) }

func (w *world) clientWith(opts zkrecipes.Options) *zkrecipes.Client {
	w.t.Helper()
	opts.SessionTimeout = recipetest.LongSession
	c := w.Stranger(&opts)
	return c
}

// become makes c my client.
func (w *world) become(c *zkrecipes.Client) { w.c, w.mine = c, zkrecipes.NewMutex(c, w.Path) }

func (w *world) ctx() context.Context { return w.t.Context() }

// ok fails the test on an error.
func (w *world) ok(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

// cost is what one use costs.
type cost struct {
	requests, commits, listings, events int
	ops                                 string
}

func (c cost) String() string {
	return strings.TrimRight(fmt.Sprintf("%8d %7d %8d %6d   %s", c.requests, c.commits, c.listings, c.events, c.ops), " ")
}

// costOf sorts requests. A commit is a write, whether it is applied or refused.
func costOf(requests, events map[string]int) (c cost) {
	delete(requests, "ping")
	var ops []string
	for _, op := range slices.Sorted(maps.Keys(requests)) {
		n := requests[op]
		c.requests += n
		switch op {
		case "getChildren2":
			c.listings += n
		case "exists", "getData", "getACL", "getChildren", "getEphemerals", "sync", "connect", "auth", "setWatches":
		default:
			c.commits += n
		}
		op = shorten(op)
		if n > 1 {
			op = fmt.Sprint(n, " ", op)
		}
		ops = append(ops, op)
	}
	for _, n := range events {
		c.events += n
	}
	c.ops = strings.Join(ops, ", ")
	return c
}

// shorten counts operations of a transaction that follow each other.
func shorten(multi string) string {
	name, ops, ok := strings.Cut(strings.TrimSuffix(multi, ")"), "(")
	if !ok {
		return multi
	}
	var short []string
	for all := strings.Split(ops, ","); len(all) > 0; {
		n := 1
		for n < len(all) && all[n] == all[0] {
			n++
		}
		if n > 3 {
			short = append(short, fmt.Sprint(n, " ", all[0]))
		} else {
			short = append(short, all[:n]...)
		}
		all = all[n:]
	}
	return name + "(" + strings.Join(short, ",") + ")"
}

func (r row) count(t *testing.T, version zktest.Version) (c cost) {
	recipetest.InBubble(t, func(t *testing.T, rw *recipetest.World) {
		w := &world{World: rw, t: t}
		w.c, w.other = w.client(), w.client()
		w.theirs = zkrecipes.NewMutex(w.other, w.Path)
		w.operator = &recipetest.WatchWorld{World: &recipetest.World{T: t, Srv: w.Srv, Plan: w.Plan, Path: "/g"}, Operator: w.Bare()}
		w.become(w.c)
		all(theyUse, iUse)(w)
		last := len(r.steps) - 1
		all(r.steps[:last]...)(w)
		synctest.Wait()
		before := w.Srv.Counts()
		r.steps[last](w)
		synctest.Wait()
		counts := w.Srv.Counts().Sub(before)
		c = costOf(counts.Requests, counts.Events)
	}, zktest.SessionTimeouts(0, recipetest.LongSession), zktest.Emulate(version))
	return c
}

const nameWidth = 86

// on38 follows what a table is about, for its rows that cost something else on ZooKeeper 3.8.
const on38 = ", on ZooKeeper 3.8"

// TestCosts counts each row once on each version.
func TestCosts(t *testing.T) {
	want := readGolden(t)
	counted := map[string]*string{}
	count := func(about string, r row, version zktest.Version, want string) {
		name := about + ": " + r.name
		require.NotContains(t, counted, name, "two rows with this name")
		got := new(string)
		counted[name] = got
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			*got = r.count(t, version).String()
			if !*update {
				require.Equal(t, want, *got, "see %s. If the change is meant, run: go test ./internal/costs -update", golden)
			}
		})
	}
	for _, table := range tables {
		for _, r := range table.rows {
			newer := want[table.about+": "+r.name]
			count(table.about, r, zktest.ZooKeeper39, newer)
			older, ok := want[table.about+on38+": "+r.name]
			if !ok {
				older = newer
			}
			count(table.about+on38, r, zktest.ZooKeeper38, older)
		}
	}
	if *update {
		t.Cleanup(func() { writeGolden(t, counted) })
		return
	}
	for name := range want {
		require.Contains(t, counted, name, "%s has a row that is counted no more: go test ./internal/costs -update", golden)
	}
}

func writeGolden(t *testing.T, counted map[string]*string) {
	var text bytes.Buffer
	text.WriteString("# What calls cost, and at the end what differs on ZooKeeper 3.8. Written by: go test ./internal/costs -update\n")
	write := func(about string, rows []row) {
		fmt.Fprintf(&text, "\n%-*s requests commits listings events\n", nameWidth, "## "+about)
		for _, r := range rows {
			fmt.Fprintf(&text, "%-*s %s\n", nameWidth, r.name, *counted[about+": "+r.name])
		}
	}
	var older []func()
	for _, table := range tables {
		write(table.about, table.rows)
		differ := slices.DeleteFunc(slices.Clone(table.rows), func(r row) bool {
			newer, older := *counted[table.about+": "+r.name], *counted[table.about+on38+": "+r.name]
			require.NotEmpty(t, newer, "-update needs all rows")
			require.NotEmpty(t, older, "-update needs all rows")
			return newer == older
		})
		if len(differ) > 0 {
			older = append(older, func() { write(table.about+on38, differ) })
		}
	}
	for _, write := range older {
		write()
	}
	require.False(t, t.Failed())
	require.NoError(t, os.WriteFile(golden, text.Bytes(), 0o644))
}

// readGolden returns the figures in the golden file, by the names of the rows.
func readGolden(t *testing.T) map[string]string {
	text, err := os.ReadFile(golden)
	require.NoError(t, err)
	figures := map[string]string{}
	about := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "## "):
			about = strings.TrimSpace(line[3:nameWidth])
		default:
			require.Greater(t, len(line), nameWidth, line)
			figures[about+": "+strings.TrimSpace(line[:nameWidth])] = line[nameWidth+1:]
		}
	}
	return figures
}
