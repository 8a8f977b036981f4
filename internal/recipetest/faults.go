package recipetest

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"maps"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// One table of faults for all recipes. Faults uses a recipe as its Driver says, once for each
// fault of the table and each request of that use: the fault hits this request. Whatever
// happens, these must hold:
//   - each call returns, with a result that the fault explains
//   - what is held excludes others, and is held exactly as long as its znodes exist
//   - the Trace reports each start and each end once
//   - a fault that ends no session changes nothing on the server: each znode is created and
//     deleted as often as without it
//   - in the end no znode, watch or work is left, and everybody can have it next.

// Use is what a call of Driver.Take got.
type Use struct {
	Held interface { // nil: nothing is held
		Err() error
		Context(context.Context) context.Context
	}
	Token  zkrecipes.Token
	Commit func(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error) // nil: there is none
	Places []string                                                             // znodes, each of which it is held with; none: that of the Trace
	Give   func(context.Context) error                                          // ends it
}

// Driver is a way to use a recipe.
type Driver struct {
	Name string

	// Take is the call that the faults hit, and that waits behind what Block does.
	Take func(ctx context.Context, c *zkrecipes.Client) (Use, error)

	// Rival is what Take excludes, and what waits for it. May be nil.
	Rival func(ctx context.Context, c *zkrecipes.Client) (Use, error)

	// Try returns the error Busy while a Take of another client holds. May be nil.
	Try  func(ctx context.Context, c *zkrecipes.Client) error
	Busy error

	// Ready prepares a Take that need not wait. May be nil.
	Ready func(t testing.TB, c *zkrecipes.Client)

	// Block makes the next Take wait until free is called. Nil: a Rival holds, and another
	// one waits behind it, and leaves.
	Block func(t testing.TB, c *zkrecipes.Client) (free func(context.Context) error)

	// Observe returns a function that gets each change of the server's znodes, and one that
	// judges them in the end. May be nil.
	Observe func() (note func(zktest.Change), judge func(testing.TB))

	// Rest ends what a use has left. It gets the errors of Take and of the end. May be nil.
	Rest func(t testing.TB, c *zkrecipes.Client, took, gave error)

	Uncertain   bool     // a write whose outcome is unknown returns ErrUncertain
	AlwaysWaits bool     // a Take is never at once
	Member      bool     // a Take that waits is over with its session
	Slow        bool     // a Take whose context ends may wait for the servers' answer
	Loose       bool     // a fault may change how often znodes come and go
	Stays       []string // patterns of the znodes that outlive a use
	Segment     int64    // of queues, as in tuning.Constants
}

// effect is what a fault means for those whom it hits.
type effect int

const (
	unnoticed   effect = iota // requests are sent again: nobody gets an error
	sessionEnds               // some session may end
	callEnds                  // the context of Take ends
	clientEnds                // the Client is closed, or shut down
	evicts                    // an operator deletes the client's znodes
)

// moment is when an act of the table comes.
type moment int

const (
	atRequest moment = iota // while a request is delayed: once for each request
	atTake                  // just before the call
	atWait                  // when the call has waited for some seconds
	atHold                  // when it has been held for some seconds
	atGive                  // just before it is given back
)

func (m moment) String() string {
	return [...]string{"at a request", "before the call", "in the wait", "in the hold", "before the end"}[m]
}

// faultRow is a row of the table.
type faultRow struct {
	name   string
	effect effect
	fault  zktest.Fault // none if act does not come at a request
	act    func(*faultRun)
	at     moment
	lag    bool // all servers lag
	brief  bool // it is run in all situations, and not only after a wait
}

// faultTable returns the rows. Before: the request is not carried out. After: its reply is
// lost, late or replaced.
func faultTable() (rows []faultRow) {
	add := func(row faultRow, when when) {
		for _, after := range []bool{false, true} {
			name := map[bool]string{false: " before", true: " after"}[after]
			if when == before && after || when == afterwards && !after {
				continue
			}
			one := row
			one.name += name
			one.fault.After = after
			rows = append(rows, one)
		}
	}
	for _, f := range faults {
		add(faultRow{name: f.name, effect: f.effect, fault: f.fault, lag: f.lag, brief: f.brief}, f.when)
	}
	for _, act := range acts {
		for _, at := range act.at {
			row := faultRow{name: act.name, effect: act.effect, act: act.do, at: at, brief: act.brief}
			if at != atRequest {
				row.name += " " + at.String()
				rows = append(rows, row)
				continue
			}
			row.fault = zktest.Fault{Do: zktest.Delay, For: 300 * time.Millisecond}
			add(row, act.when)
		}
	}
	return rows
}

// when tells whether a fault comes before the server has carried the request out, or after it.
type when int

const (
	both when = iota
	before
	afterwards
)

// faults are what happens to requests.
var faults = []struct {
	name   string
	effect effect
	fault  zktest.Fault
	when   when
	lag    bool
	brief  bool
}{
	{name: "the connection is lost", fault: zktest.Fault{Do: zktest.Drop}, brief: true},
	{name: "the connection is lost, all servers lag", fault: zktest.Fault{Do: zktest.Drop}, lag: true, when: afterwards},
	{name: "the answer is late", fault: zktest.Fault{Do: zktest.Delay, For: 3 * time.Second}, when: before},
	{name: "the server is busy", fault: zktest.Fault{Do: zktest.Answer, Code: busyCodes[0]}},
	{name: "the server falls silent", effect: sessionEnds, fault: zktest.Fault{Do: zktest.Withhold}, when: afterwards},
	{name: "the session ends", effect: sessionEnds, fault: zktest.Fault{Do: zktest.Expire}, brief: true},
}

// acts are what users, operators and the network do while a request is under way, or at
// another moment.
var acts = []struct {
	name   string
	effect effect
	do     func(*faultRun)
	at     []moment
	when   when
	brief  bool
}{
	{name: "cut off for a while", do: func(r *faultRun) { r.cutOff(3*time.Second, nil) }, at: []moment{atRequest, atTake, atWait, atHold, atGive}, when: before},
	{name: "cut off beyond the session", effect: sessionEnds, do: func(r *faultRun) { r.cutOff(15*time.Second, nil) }, at: []moment{atRequest, atTake, atWait, atHold, atGive}, when: before},
	{name: "the session ends", effect: sessionEnds, do: func(r *faultRun) { r.Srv.Expire(SessionID(r.c)) }, at: []moment{atTake, atWait, atHold, atGive}},
	{name: "what is ahead goes", do: (*faultRun).free, at: []moment{atRequest}, when: before},
	{name: "what is ahead goes while cut off", do: func(r *faultRun) { r.cutOff(3*time.Second, r.free) }, at: []moment{atWait}},
	{name: "the context ends", effect: callEnds, do: (*faultRun).endCall, at: []moment{atRequest, atTake, atWait}, brief: true},
	{name: "the context ends while cut off", effect: callEnds, do: func(r *faultRun) { r.cutOff(3*time.Second, r.endCall) }, at: []moment{atWait}},
	{name: "Close", effect: clientEnds, do: (*faultRun).close, at: []moment{atRequest, atTake, atWait, atHold}, when: before, brief: true},
	{name: "Close while cut off", effect: clientEnds, do: func(r *faultRun) { r.cutOff(15*time.Second, r.close) }, at: []moment{atWait, atHold}},
	{name: "Shutdown", effect: clientEnds, do: (*faultRun).shutdown, at: []moment{atRequest, atWait, atHold}, when: before},
	{name: "the znodes are deleted", effect: evicts, do: (*faultRun).evict, at: []moment{atRequest, atWait, atHold, atGive}, brief: true},
}

// busyCodes are the errors after which the outcome of a request is unknown.
var busyCodes = []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled}

var errEnough = errors.New("enough")

// Faults runs the table for these drivers. With -short, a fault hits each second request only.
func Faults(t *testing.T, drivers ...Driver) {
	for _, d := range drivers {
		for _, s := range d.situations() {
			t.Run(d.Name+", "+s.name, func(t *testing.T) {
				t.Parallel()
				clean := map[bool]faultTrail{}
				for _, lag := range []bool{false, true} {
					trail, _ := d.meet(t, s, faultRow{lag: lag}, faultTrail{})
					clean[lag] = trail
				}
				met := 0
				for _, row := range faultTable() {
					if s.skips(row) {
						continue
					}
					t.Run(row.name, func(t *testing.T) {
						if row.fault.Do == "" {
							d.meet(t, s, row, clean[row.lag])
							met++
							return
						}
						step, first := 1, 0
						if testing.Short() { // half of the requests, others for each row
							step, first = 2, int(adler32.Checksum([]byte(t.Name()))%2)
						}
						row.fault.Skip = first
						for fired := true; fired && !t.Failed(); row.fault.Skip += step {
							require.Less(t, row.fault.Skip, 300)
							if row.fault.Do == zktest.Answer {
								row.fault.Code = busyCodes[row.fault.Skip%len(busyCodes)]
							}
							_, fired = d.meet(t, s, row, clean[row.lag])
							met++
						}
						if first == 0 {
							require.Greater(t, row.fault.Skip, step, "requests")
						}
					})
				}
				t.Logf("%d faults", met)
			})
		}
	}
}

// situation is what there is when Take is called.
type situation struct {
	name   string
	known  bool // the client has used it before
	behind bool // Take has to wait
}

// skips reports whether the situation makes nothing new of a row.
func (s situation) skips(row faultRow) bool {
	if !s.behind && (row.at == atWait || strings.HasPrefix(row.name, "what is ahead")) {
		return true
	}
	return !s.behind && !row.brief || !s.known && row.at != atRequest
}

func (d Driver) situations() (all []situation) {
	if !d.AlwaysWaits {
		all = append(all, situation{name: "for the first time"}, situation{name: "free", known: true})
	}
	if d.Block != nil || d.Rival != nil {
		all = append(all, situation{name: "after a wait", known: true, behind: true})
	}
	return all
}

// faultTrail is what a run leaves, but for names and numbers.
type faultTrail struct {
	changes  map[string]int // znodes that were created and deleted
	left     []string       // the znodes that exist
	watches  int            // of the client
	requests int
}

// faultRun is a use of a recipe that meets a fault.
type faultRun struct {
	*World
	d          Driver
	s          situation
	row        faultRow
	c, other   *zkrecipes.Client
	tracer     *Tracer
	operator   *zk.Conn
	cancel     context.CancelCauseFunc
	freeAhead  func(context.Context) error       // nil: nothing is ahead
	freed      *harness.Call[struct{}]           // the call of freeAhead
	call       atomic.Pointer[harness.Call[Use]] // of Take
	closed     chan struct{}                     // by close or shutdown, once the call has returned
	clientGone bool                              // the client is, or will be, closed
	took, gave error                             // of Take, and of the end of what it got
	observe    func(zktest.Change)               // may be nil

	mu      sync.Mutex
	changes map[string]int
	evicted []string
}

// meet runs f once, and reports whether the fault fired.
func (d Driver) meet(t *testing.T, s situation, row faultRow, clean faultTrail) (trail faultTrail, fired bool) {
	r := &faultRun{d: d, s: s, row: row, changes: map[string]int{}, closed: make(chan struct{})}
	judge := func(testing.TB) {}
	if d.Observe != nil {
		r.observe, judge = d.Observe()
	}
	opts := []zktest.Option{zktest.OnChange(r.note)}
	if row.lag {
		opts = append(opts, Behind(0, 3))
	}
	InBubble(t, func(t *testing.T, w *World) {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("request %d of %s, %s: %s\n%s", row.fault.Skip, d.Name, s.name, row.name, w.Srv.Tree())
			}
		})
		r.World = w
		trail, fired = r.run(t, clean)
		judge(t)
	}, opts...)
	return trail, fired
}

func (r *faultRun) note(c zktest.Change) {
	if r.observe != nil {
		r.observe(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path := mask(c.Path)
	switch {
	case !strings.Contains(path, "*"): // a container, which comes and goes as it likes
	case c.Created:
		r.changes["+"+path]++
	case c.Deleted:
		r.changes["-"+path]++
	}
}

// masked are, in this order: the identity in the name of a place, a UUID, an item's name, a
// claim's, and numbers.
var masked = regexp.MustCompile(`_c_[0-9a-f-]{36}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}\d{10}|\.[\w-]{11}$|\d+`)

// mask returns a path without what differs from run to run.
func mask(path string) string { return masked.ReplaceAllString(path, "*") }

func (r *faultRun) run(t *testing.T, clean faultTrail) (faultTrail, bool) {
	r.tracer = NewTracer(t)
	r.c, r.other = r.Sealing(r.d.Segment, &zkrecipes.Options{Trace: r.tracer.Trace()}), r.Sealing(r.d.Segment, nil)
	if r.row.effect == evicts {
		r.operator = r.Bare()
	}
	r.useBefore(t)
	r.begin(t)
	before := r.Srv.Counts()
	r.mu.Lock()
	clear(r.changes)
	r.mu.Unlock()
	if r.row.fault.Do != "" {
		r.Plan.Add(r.row.fault)
	}
	over, stop := context.WithCancel(t.Context())
	defer stop()
	if r.row.act != nil && r.row.at == atRequest {
		go r.actWhenMet(over)
	}
	r.use(t)
	time.Sleep(time.Minute)
	synctest.Wait()
	fired := r.fired() > 0
	stop()
	r.endClient(t)
	r.Plan.Stop()
	r.rest(t, r.other, r.took, r.gave)
	counted := r.Srv.Counts().Sub(before)
	trail := faultTrail{changes: r.changed(), left: r.left(), watches: len(r.SessionOf(r.c).Watches)}
	for op, n := range counted.Requests {
		if op != "ping" {
			trail.requests += n
		}
	}
	if r.row.name != "" {
		r.compare(t, clean, trail)
	}
	r.next(t)
	r.tracer.Told()
	require.NoError(t, ignoreClosed(r.c.Close()))
	synctest.Wait()
	r.tracer.Rest()
	return trail, fired
}

// fired returns how often the row's fault has fired.
func (r *faultRun) fired() (n int) {
	for kind, times := range r.Plan.Fired() {
		if kind != string(zktest.Lag) && kind != string(zktest.Refuse) {
			n += times
		}
	}
	return n
}

func (r *faultRun) changed() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.changes)
}

// left returns the masked paths of the znodes that exist.
func (r *faultRun) left() (all []string) {
	for line := range strings.Lines(r.Srv.Tree()) {
		if path, rest, _ := strings.Cut(line, " "); path[0] == '/' && !strings.Contains(rest, " container") { // those the servers delete
			if path = mask(path); !slices.ContainsFunc(r.d.Stays, func(pattern string) bool { ok, _ := pathpkg.Match(pattern, path); return ok }) {
				all = append(all, path)
			}
		}
	}
	return all
}

// useBefore has both clients use the recipe, the client itself only if it is to know it.
func (r *faultRun) useBefore(t *testing.T) {
	clients := []*zkrecipes.Client{r.other}
	if r.s.known {
		clients = append(clients, r.c)
	}
	for _, c := range clients {
		r.cycle(t, c)
	}
	time.Sleep(20 * time.Second)
	synctest.Wait()
}

// cycle uses the recipe once, without a fault, and returns the token.
func (r *faultRun) cycle(t *testing.T, c *zkrecipes.Client) zkrecipes.Token {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	other := r.other
	if c == other {
		if other = r.c; r.clientGone {
			other = r.Stranger(nil)
		}
	}
	free := func(context.Context) error { return nil }
	switch {
	case r.d.Ready != nil:
		r.d.Ready(t, other)
	case r.d.AlwaysWaits:
		free = r.block(t, other)
	}
	a := harness.Go(t, func(ctx context.Context) (Use, error) { return r.d.Take(ctx, c) })
	synctest.Wait()
	require.NoError(t, free(ctx))
	u, err := await(t, a)
	require.NoError(t, err)
	if u.Give != nil {
		require.NoError(t, u.Give(ctx))
	}
	r.rest(t, other, nil, nil)
	return u.Token
}

func (r *faultRun) rest(t *testing.T, c *zkrecipes.Client, took, gave error) {
	t.Helper()
	if r.d.Rest == nil {
		return
	}
	if r.row.lag {
		time.Sleep(10 * time.Second) // until its server has caught up
	}
	r.d.Rest(t, c, took, gave)
	synctest.Wait()
}

// await waits for a call that returns within minutes.
func await[R any](t testing.TB, a *harness.Call[R]) (R, error) {
	t.Helper()
	select {
	case <-a.Done():
	case <-time.After(3 * time.Minute):
		require.FailNow(t, "the call does not return")
	}
	return a.Wait()
}

// begin makes the client's Take succeed at once, or wait until free is called.
func (r *faultRun) begin(t *testing.T) {
	switch {
	case r.s.behind:
		r.freeAhead = r.block(t, r.other)
	case r.d.Ready != nil:
		r.d.Ready(t, r.other)
	}
	time.Sleep(20 * time.Second) // watches that are due later are set
	synctest.Wait()
}

func (r *faultRun) block(t *testing.T, c *zkrecipes.Client) (free func(context.Context) error) {
	if r.d.Block != nil {
		return r.d.Block(t, c)
	}
	u, err := r.d.Rival(t.Context(), c)
	require.NoError(t, err)
	middle := harness.Go(t, func(ctx context.Context) (Use, error) { return r.d.Rival(ctx, c) })
	synctest.Wait()
	return func(ctx context.Context) error {
		middle.Cancel(nil)
		if u, err := await(t, middle); err == nil { // it shares, or what was ahead is lost
			_ = u.Give(ctx)
		}
		return u.Give(ctx)
	}
}

// free ends what is ahead, once.
func (r *faultRun) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed == nil {
		r.freed = harness.GoErr(r.T, func(context.Context) error { return r.freeAhead(r.T.Context()) })
	}
}

// moment acts if it is the row's moment.
func (r *faultRun) moment(at moment) {
	if r.row.act == nil || r.row.at != at {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.row.act(r)
	}()
	select {
	case <-done:
	case <-time.After(200 * time.Millisecond): // it goes on meanwhile
	}
}

// use takes, holds and gives back.
func (r *faultRun) use(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r.cancel = cancel
	r.moment(atTake)
	a := harness.Go(t, func(context.Context) (Use, error) { return r.d.Take(ctx, r.c) })
	r.call.Store(a)
	if r.freeAhead != nil {
		time.Sleep(5 * time.Second)
		r.moment(atWait)
		time.Sleep(20 * time.Second)
		if !a.Waiting() && r.freed == nil {
			_, err := a.Wait()
			require.True(t, err != nil || r.row.effect == sessionEnds || r.row.effect == evicts, "nobody has freed it")
		}
		r.free()
		_, err := await(t, r.freed)
		r.explains(t, err, "of what was ahead")
	}
	u, err := await(t, a)
	r.took, r.gave = err, errEnough
	r.explains(t, err, "Take")
	if err != nil {
		require.Nil(t, u.Held)
		return
	}
	if u.Held == nil {
		return
	}
	if r.row.at == atWait || r.row.at == atTake && r.s.behind { // long ago
		require.NoError(t, u.Held.Err(), "it was granted in the session that lives")
	}
	work := u.Held.Context(t.Context())
	r.excludes(t, u)
	time.Sleep(5 * time.Second)
	r.moment(atHold)
	time.Sleep(15 * time.Second) // it watches its own znode by now
	synctest.Wait()
	r.stands(t, u)
	r.excludes(t, u)
	lost := u.Held.Err()
	next := r.follow(t)
	r.moment(atGive)
	began := time.Now()
	given := harness.GoErr(t, func(context.Context) error { return u.Give(context.WithoutCancel(ctx)) })
	_, err = await(t, given)
	r.gave = err
	r.explains(t, err, "giving back")
	if r.row.at == atGive && r.d.Rival != nil {
		require.Less(t, time.Since(began), time.Second, "it gives back in the background")
	}
	require.Error(t, u.Held.Err())
	<-work.Done()
	if errors.Is(lost, zkrecipes.ErrLost) {
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrLost)
		require.ErrorIs(t, err, zkrecipes.ErrLost, "giving back what is lost")
	}
	next(t)
}

// follow has a rival wait for what is held, and returns a function that requires that the
// rival gets it.
func (r *faultRun) follow(t *testing.T) (next func(*testing.T)) {
	if r.d.Rival == nil {
		return func(*testing.T) {}
	}
	a := harness.Go(t, func(ctx context.Context) (Use, error) { return r.d.Rival(ctx, r.other) })
	synctest.Wait()
	return func(t *testing.T) {
		t.Helper()
		u, err := await(t, a)
		require.NoError(t, err, "of the next")
		time.Sleep(20 * time.Second) // whatever the one before still sends
		r.explains(t, u.Held.Err(), "of the next")
		r.explains(t, u.Give(t.Context()), "the next gives back")
	}
}

// explains requires that the fault explains an error.
func (r *faultRun) explains(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil {
		return
	}
	var allowed []error
	switch r.row.effect {
	case sessionEnds:
		allowed = []error{zkrecipes.ErrLost}
		if what == "Take" && !r.d.Member {
			allowed = nil // it goes on in the next session
		}
	case callEnds:
		allowed = []error{errEnough}
	case clientEnds:
		allowed = []error{zkrecipes.ErrClosed}
	case evicts:
		allowed = []error{zkrecipes.ErrLost}
		if what == "Take" {
			allowed = []error{zkrecipes.ErrEvicted, zkrecipes.ErrLost}
		}
	}
	if r.d.Uncertain && r.row.effect != unnoticed {
		allowed = append(allowed, zkrecipes.ErrUncertain)
	}
	for _, e := range allowed {
		if errors.Is(err, e) {
			return
		}
	}
	require.NoError(t, err, what)
}

// stands requires that it is held exactly as long as its znodes exist.
func (r *faultRun) stands(t *testing.T, u Use) {
	t.Helper()
	places := r.places(u)
	require.NotEmpty(t, places)
	exist, err := r.exist(places), u.Held.Err()
	require.Equal(t, exist, err == nil, "its znodes exist: %v, but it ended with: %v", exist, err)
	r.explains(t, err, "of what is held")
	if err != nil && strings.HasPrefix(r.row.name, "the session ends") {
		require.ErrorIs(t, err, zk.ErrSessionExpired)
	}
	if err == nil && u.Token != 0 {
		require.Contains(t, []zkrecipes.Token{NewToken(r.czxid(places[0]), 0), NewToken(r.czxid(places[0]), 1)}, u.Token)
	}
	if u.Commit == nil {
		return
	}
	_, failed := u.Commit(t.Context())
	if err == nil && r.row.effect == unnoticed && !errors.Is(failed, zkrecipes.ErrUncertain) { // which is not sent again
		require.NoError(t, failed)
	}
	if errors.Is(err, zkrecipes.ErrLost) {
		require.ErrorIs(t, failed, zkrecipes.ErrLost)
	}
}

// czxid returns the number of the transaction that created a znode.
func (r *faultRun) czxid(path string) (zxid int64) {
	for line := range strings.Lines(r.Srv.Tree()) {
		if rest, ok := strings.CutPrefix(line, path+" "); ok {
			_, rest, _ = strings.Cut(rest, " czxid=")
			_, err := fmt.Sscanf(rest, "0x%x", &zxid)
			require.NoError(r.T, err)
		}
	}
	return zxid
}

// exist reports whether all these znodes do.
func (r *faultRun) exist(paths []string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !r.Has(path) })
}

// places returns the paths of the znodes with which something is held.
func (r *faultRun) places(u Use) []string {
	if u.Places != nil {
		return u.Places
	}
	name := r.tracer.Granted()
	for line := range strings.Lines(r.Srv.Tree()) {
		if path, _, _ := strings.Cut(line, " "); pathpkg.Base(path) == name {
			return []string{path}
		}
	}
	return []string{driven + "/" + name} // it is gone
}

// excludes requires that nobody else gets it while it is held.
func (r *faultRun) excludes(t *testing.T, u Use) {
	t.Helper()
	if r.d.Try == nil || u.Held.Err() != nil {
		return
	}
	tried := harness.GoErr(t, func(context.Context) error { return r.d.Try(t.Context(), r.other) })
	_, err := await(t, tried)
	if u.Held.Err() == nil && r.exist(r.places(u)) {
		require.ErrorIs(t, err, r.d.Busy)
	}
}

// actWhenMet calls act while the request is delayed.
func (r *faultRun) actWhenMet(over context.Context) {
	for r.fired() == 0 {
		select {
		case <-over.Done():
			return
		case <-time.After(37 * time.Millisecond):
		}
	}
	r.row.act(r)
}

// cutOff cuts the client off for so long. Meanwhile do acts.
func (r *faultRun) cutOff(d time.Duration, do func()) {
	refuse := zktest.Fault{Do: zktest.Refuse, Times: -1}
	r.Plan.Add(refuse)
	r.Srv.Disconnect(SessionID(r.c))
	time.Sleep(time.Millisecond)
	if do != nil {
		go do()
	}
	time.Sleep(d)
	r.Plan.Stop()
}

// endCall ends the context of Take, which returns at once.
func (r *faultRun) endCall() {
	r.cancel(errEnough)
	if a := r.call.Load(); a != nil && !r.d.Slow {
		time.Sleep(10 * time.Millisecond)
		if a.Waiting() {
			r.T.Error("the call does not return when its context ends")
		}
	}
}

func (r *faultRun) close() {
	r.clientGone = true
	if err := r.c.Close(); err != nil && !errors.Is(err, zkrecipes.ErrSessionNotClosed) {
		r.T.Errorf("Close: %v", err)
	}
	close(r.closed)
}

func (r *faultRun) shutdown() {
	r.clientGone = true
	ctx, cancel := context.WithTimeout(r.T.Context(), 10*time.Minute)
	defer cancel()
	if err := r.c.Shutdown(ctx); err != nil {
		r.T.Errorf("Shutdown: %v", err)
	}
	close(r.closed)
}

// endClient requires that Close, or Shutdown, has returned and has left nothing.
func (r *faultRun) endClient(t *testing.T) {
	t.Helper()
	if !r.clientGone {
		return
	}
	select {
	case <-r.closed:
	default:
		require.FailNow(t, r.row.name+" has not returned")
	}
	for _, s := range r.Srv.Sessions() {
		require.True(t, s.ID == SessionID(r.other) || len(s.Ephemerals) == 0, "%v is left", s.Ephemerals)
	}
}

// evict deletes the places of the client.
func (r *faultRun) evict() {
	for _, path := range r.SessionOf(r.c).Ephemerals {
		if !strings.Contains(path, "/puts/") {
			if err := r.operator.Delete(path, -1); err != nil && err != zk.ErrNoNode {
				r.T.Errorf("delete %s: %v", path, err)
			}
			r.mu.Lock()
			r.evicted = append(r.evicted, path)
			r.mu.Unlock()
		}
	}
}

// compare requires that the server is left as without a fault.
func (r *faultRun) compare(t *testing.T, clean, trail faultTrail) {
	t.Helper()
	require.Equal(t, clean.left, trail.left, "znodes that are left")
	if r.row.effect == unnoticed && !r.d.Loose && !r.row.lag { // beside a server that lags, others may join and leave again
		require.Equal(t, clean.changes, trail.changes, "znodes that came and went")
	}
	require.LessOrEqual(t, trail.requests, clean.requests+40)
	if r.clientGone {
		return
	}
	require.LessOrEqual(t, trail.watches, clean.watches+2) // the next use takes over what is there
	r.Covered(r.c)
}

// next has others, and the client itself unless it is closed, use the recipe.
func (r *faultRun) next(t *testing.T) {
	t.Helper()
	r.cycle(t, r.other)
	if !r.clientGone {
		r.cycle(t, r.c)
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, zkrecipes.ErrSessionNotClosed) || errors.Is(err, zkrecipes.ErrClosed) {
		return nil
	}
	return err
}
