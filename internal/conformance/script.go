package conformance

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// A Script is one run of a case against one server: its connections and its
// transcript. Only one goroutine uses it, and frames are read only when the case
// asks for them. So the transcript has a fixed order.
type Script struct {
	t       *testing.T
	server  Server
	root    string // what the servers call root
	clients []*Client
	began   time.Time
	lines   []string
	owners  map[int64]string // names of sessions
}

// The znodes that most cases use: root, below which a case stays and which Connect creates, a
// child of it, and a grandchild. So that no case sees the znodes of another, the servers get a
// name of the same length for root, which no other run uses. What they send has root again.
const (
	root = "/case"
	n    = root + "/n"
	m    = n + "/m"
)

var runs atomic.Int64

func newScript(t *testing.T, server Server) *Script {
	return &Script{
		t: t, server: server,
		root:   fmt.Sprintf("/%04x", runs.Add(1)),
		began:  time.Now(),
		owners: map[int64]string{},
	}
}

// run runs a case. At the end it closes all sessions, so that none expires during a later case.
func (s *Script) run(c Case) {
	defer func() {
		for _, c := range s.clients {
			c.closeSession()
		}
	}()
	c.Run(s)
}

// Since reports whether the server is of version v or later.
func (s *Script) Since(v zktest.Version) bool { return s.server.Version >= v }

// Note adds a line to the transcript.
func (s *Script) Note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// Equal asserts that two values are equal.
func (s *Script) Equal(want, got any, claim string) {
	s.t.Helper()
	assert.Equal(s.t, want, got, claim)
}

// Fail ends the case if err is not nil.
func (s *Script) Fail(err error, doing string) {
	s.t.Helper()
	require.NoError(s.t, err, doing)
}

// zxidMark matches a zxid in the transcript until it is replaced by its rank.
var zxidMark = regexp.MustCompile(`<zxid \d+>`)

// zxid returns a mark for v. The finished transcript has its rank among all zxids
// of the run instead, because the number of transactions between two zxids
// depends on what else the server does.
func (s *Script) zxid(v int64) string {
	if v <= 0 {
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("<zxid %d>", v)
}

// owner returns a name for the ephemeralOwner of a znode
// (org.apache.zookeeper.server.EphemeralType).
func (s *Script) owner(id int64) string {
	switch name, ok := s.owners[id]; {
	case id == 0:
		return "none"
	case id == math.MinInt64:
		return "container"
	case ok:
		return name
	default:
		return "unknown"
	}
}

// time returns the comparable part of a time: whether it is about now.
func (s *Script) time(ms int64) string {
	// The clocks of other machines may differ.
	if at := time.UnixMilli(ms); at.Sub(s.began).Abs() < time.Hour {
		return "now"
	}
	return strconv.FormatInt(ms, 10)
}

// transcript returns the lines in a form that is equal for all runs of the case on
// all conforming servers.
func (s *Script) transcript() []string {
	all := strings.Join(s.lines, "\n")
	value := func(mark string) int64 {
		v, _ := strconv.ParseInt(mark[len("<zxid "):len(mark)-1], 10, 64)
		return v
	}
	var zxids []int64
	for _, mark := range zxidMark.FindAllString(all, -1) {
		zxids = append(zxids, value(mark))
	}
	slices.Sort(zxids)
	zxids = slices.Compact(zxids)
	all = zxidMark.ReplaceAllStringFunc(all, func(mark string) string {
		rank, _ := slices.BinarySearch(zxids, value(mark))
		return fmt.Sprintf("z%d", rank+1)
	})
	return strings.Split(all, "\n")
}
