// Package conformance asks two servers the same questions and compares the
// answers: a real ZooKeeper, which is the judge, and zktest, which is to
// answer as it does.
//
// A Case drives raw connections (client.go) against one server and leaves a
// transcript of everything that came back, in the order of the wire
// (script.go). Each case asserts what this library or its tests build upon.
// Beside that the whole transcripts are compared, so that a difference nobody
// has thought of is found too.
//
// Comments at the cases say what surprises in the real server, and name its
// class. The answers are those of ZooKeeper 3.8.0.
package conformance

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A Server is what the cases are run against.
type Server struct {
	// Dial opens a connection on which nothing has been said yet.
	Dial func(ctx context.Context) (net.Conn, error)

	// TickTime decides between which bounds a session's timeout is: 2 and 20
	// ticks.
	TickTime time.Duration

	// Shared says that others write to the server meanwhile. Then zxids in the
	// headers of replies say nothing and are left out.
	Shared bool

	// CounterNearEnd makes next the number of the next sequential child of a
	// node. Connections and sessions may not outlive it. nil: the server can
	// not be brought there.
	CounterNearEnd func(path string, next int32) error
}

// A Case is one question, or several that belong together.
type Case struct {
	Name string
	Run  func(s *Script)

	// CounterNearEnd: the case needs a Server that has it.
	CounterNearEnd bool

	// Alone: the case means nothing on a Shared server. What it looks at is
	// changed by others, or set up otherwise.
	Alone bool
}

// Cases returns all cases. They do not depend on each other.
func Cases() []Case {
	var all []Case
	for _, group := range []struct {
		name  string
		cases []Case
	}{
		{"create", createCases}, {"sequence", sequenceCases}, {"delete", deleteCases},
		{"data", dataCases}, {"children", childrenCases}, {"acl", aclCases},
		{"auth", authCases}, {"multi", multiCases}, {"watch", watchCases},
		{"addWatch", addWatchCases}, {"setWatches", setWatchesCases},
		{"session", sessionCases}, {"connect", connectCases}, {"frame", frameCases},
		{"zxid", zxidCases}, {"system", systemCases}, {"container", containerCases},
	} {
		for _, c := range group.cases {
			c.Name = group.name + "/" + c.Name
			all = append(all, c)
		}
	}
	return all
}

// Run runs the case against the server, as a subtest of that name, and returns
// its transcript. What a case asserts is reported to the subtest.
func Run(t *testing.T, name string, server Server, c Case) []string {
	s := newScript(t, server)
	t.Run(name, func(t *testing.T) {
		s.t = t
		defer s.end()
		c.Run(s)
	})
	return s.transcript()
}

// Diff returns what must be taken from and added to want to make it got, with
// a few lines around each place, or "" if they are the same.
func Diff(want, got []string) string {
	// common[i][j]: the length of the longest common subsequence of want[i:]
	// and got[j:]. Transcripts have some hundred lines at most.
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	if n := common[0][0]; n == len(want) && n == len(got) {
		return ""
	}
	var lines []string
	var changed []int // indexes of lines that differ
	for i, j := 0, 0; i < len(want) || j < len(got); {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			lines = append(lines, "  "+want[i])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			changed = append(changed, len(lines))
			lines = append(lines, "- "+want[i])
			i++
		default:
			changed = append(changed, len(lines))
			lines = append(lines, "+ "+got[j])
			j++
		}
	}
	const around = 3
	var b strings.Builder
	last := -1 // the last line that was written
	for _, at := range changed {
		from := max(at-around, last+1)
		if from > last+1 {
			fmt.Fprintf(&b, "  ... (%d lines)\n", from-last-1)
		}
		for ; from <= min(at+around, len(lines)-1); from++ {
			b.WriteString(lines[from] + "\n")
			last = from
		}
	}
	return b.String()
}
