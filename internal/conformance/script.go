package conformance

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Script is one run of a case against one server: its connections and its
// transcript. It is used by one goroutine, so that the transcript has one
// order: frames are read when the case asks for them.
type Script struct {
	t       *testing.T
	server  Server
	root    string // a node that no other run uses
	clients []*Client
	began   time.Time
	lines   []string
	owners  map[int64]string // names of sessions
}

func newScript(t *testing.T, server Server) *Script {
	return &Script{
		t: t, server: server,
		root:   fmt.Sprintf("/conformance-%d", time.Now().UnixNano()),
		began:  time.Now(),
		owners: map[int64]string{},
	}
}

// Path returns the path below the run's root; Path("") is the root itself,
// which Connect has made.
func (s *Script) Path(below string) string {
	if below == "" {
		return s.root
	}
	return s.root + "/" + below
}

// Note adds a line to the transcript.
func (s *Script) Note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// Equal asserts what a case knows of the real server.
func (s *Script) Equal(want, got any, claim string) {
	s.t.Helper()
	assert.Equal(s.t, want, got, claim)
}

// Fail ends the case: it can not go on.
func (s *Script) Fail(err error, doing string) {
	s.t.Helper()
	require.NoError(s.t, err, doing)
}

// end closes all sessions, so that none ends in the middle of a later case.
func (s *Script) end() {
	for _, c := range s.clients {
		c.bury()
	}
}

// marked is how a zxid is written until all of them are known.
var marked = regexp.MustCompile(`<zxid \d+>`)

// zxid returns how v is written in the transcript: as its rank among all zxids
// of the run, since how many transactions lie between two of them depends on
// what else the server does.
func (s *Script) zxid(v int64) string {
	if v <= 0 {
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("<zxid %d>", v)
}

// headerZxid is zxid for the header of a reply.
func (s *Script) headerZxid(v int64) string {
	if s.server.Shared && v > 0 {
		return "any"
	}
	return s.zxid(v)
}

// owner returns a name for the ephemeralOwner of a node
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

// time returns what can be compared of a time: whether it is one.
func (s *Script) time(ms int64) string {
	// Clocks of other machines differ; nothing is measured here.
	if at := time.UnixMilli(ms); at.Sub(s.began).Abs() < time.Hour {
		return "now"
	}
	return strconv.FormatInt(ms, 10)
}

// transcript returns the lines in a form that is the same for every run of the
// case on every conforming server.
func (s *Script) transcript() []string {
	all := strings.ReplaceAll(strings.Join(s.lines, "\n"), s.root, "~")
	all = strings.ReplaceAll(all, s.root[1:], "~")
	value := func(mark string) int64 {
		v, _ := strconv.ParseInt(mark[len("<zxid "):len(mark)-1], 10, 64)
		return v
	}
	var zxids []int64
	for _, mark := range marked.FindAllString(all, -1) {
		zxids = append(zxids, value(mark))
	}
	slices.Sort(zxids)
	zxids = slices.Compact(zxids)
	all = marked.ReplaceAllStringFunc(all, func(mark string) string {
		rank, _ := slices.BinarySearch(zxids, value(mark))
		return fmt.Sprintf("z%d", rank+1)
	})
	return strings.Split(all, "\n")
}
