package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAMemberThatIsKilledIsGoneAndOneThatStoodStillIsBack(t *testing.T) {
	demotest.Succeed(t, `^every living member was seen, in \d+ changes$`,
		`(?s)# # # #   member B is killed\n.*# \. # #   member C stands still\n.*# \. \. #   member C wakes up\n.*# \. [#:] #   member C is back, in another session\n`)
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "members", "is killed", "every living member was seen")
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
		actions []demo.Action
		problem string
	}{
		"all well": {
			[][]zkrecipes.Member{all(5, "A", "B", "C"), all(5, "A", "C"), all(0, "A"), all(6, "A", "C")},
			[]demo.Action{demo.Kill, demo.Freeze, demo.Thaw, demo.End}, "",
		},
		"a stranger":                       {[][]zkrecipes.Member{all(5, "A", "B", "D")}, []demo.Action{demo.Kill}, "STRANGER"},
		"the sleeper has its old session":  {[][]zkrecipes.Member{all(5, "A", "B", "C"), all(5, "A", "C"), all(0, "A"), all(5, "A", "C")}, []demo.Action{demo.Kill, demo.Freeze, demo.Thaw, demo.Nothing}, "is not back"},
		"the victim is there all the time": {[][]zkrecipes.Member{all(5, "A", "B", "C"), all(5, "A", "B", "C")}, []demo.Action{demo.Kill, demo.Nothing}, "is not back"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 3)
			for i, members := range test.seen {
				b.see(members)
				do, _ := b.next()
				assert.Equal(t, test.actions[i], do)
			}
			verdict, err := b.settle(true)
			demotest.Settle(t, verdict, err, "in 4 changes", test.problem)
		})
	}
}
