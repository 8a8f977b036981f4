package main

import (
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAMemberThatIsKilledIsGoneAndOneThatStoodStillIsBack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGSTOP")
	}
	demotest.Anywhere(t, func(t *testing.T, servers []string) {
		stdout := demotest.Succeed(t, servers, `^every living member was seen, in \d+ changes$`)
		assert.Regexp(t, `(?s)# # # #   member B is killed\n.*# \. # #   member C stands still\n.*# \. \. #   member C wakes up\n.*# \. [#:] #   member C is back, in another session\n`, stdout)
	})
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Anywhere(t, func(t *testing.T, servers []string) {
		rest := demotest.Interrupt(t, "members", servers, "is killed")
		assert.Contains(t, rest, "every living member was seen")
	})
}

func TestTheBoardFindsWhoMustNotBeThere(t *testing.T) {
	all := func(sleeps int64, ids ...string) (ms []zkrecipes.Member) {
		for _, id := range ids {
			m := zkrecipes.Member{ID: id, Data: []byte(serving), Session: 1}
			if id == "C" {
				m.Session = sleeps
			}
			ms = append(ms, m)
		}
		return ms
	}
	for name, test := range map[string]struct {
		seen    [][]zkrecipes.Member
		actions []action
		problem string
	}{
		"all well": {
			[][]zkrecipes.Member{all(5, "A", "B", "C"), all(5, "A", "C"), all(0, "A"), all(6, "A", "C")},
			[]action{kill, freeze, thaw, end}, "",
		},
		"a stranger":                       {[][]zkrecipes.Member{all(5, "A", "B", "D")}, []action{kill}, "STRANGER"},
		"the sleeper has its old session":  {[][]zkrecipes.Member{all(5, "A", "B", "C"), all(5, "A", "C"), all(0, "A"), all(5, "A", "C")}, []action{kill, freeze, thaw, nothing}, "is not back"},
		"the victim is there all the time": {[][]zkrecipes.Member{all(5, "A", "B", "C"), all(5, "A", "B", "C")}, []action{kill, nothing}, "is not back"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 3)
			for i, members := range test.seen {
				b.see(members)
				assert.Equal(t, test.actions[i], b.next())
			}
			verdict, err := b.settle(true)
			demotest.Settle(t, verdict, err, "in 4 changes", test.problem)
		})
	}
}
