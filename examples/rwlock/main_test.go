package main

import (
	"io"
	"slices"
	"testing"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestReadersOverlapAndNeverSeeATornConfig(t *testing.T) {
	demotest.Succeed(t, `^nothing was torn: \d+ reads up to version 3, up to [23] readers at once, and up to [123] while the writer verified`,
		`(?s)publishes version 3.*verifies version 3`, "-readers", "3", "-versions", "3")
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "rwlock", "publishes version 1", "nothing was torn", "-versions", "100")
}

func TestTheBoardFindsWhatALockMustPrevent(t *testing.T) {
	found := func(routes, backends int) *config { return &config{routes, backends} }
	good := []report{
		{What: alone, Version: 1},
		{What: shares, Version: 1},
		{Worker: 1, What: shares},
		{Worker: 2, What: shares},
		{Worker: 1, What: leaves, Found: found(1, 1)},
		{What: leaves, Found: found(1, 1)},
		{Worker: 2, What: leaves, Found: found(1, 1)},
	}
	with := func(more ...report) []report { return append(slices.Clone(good), more...) }
	for name, test := range map[string]struct {
		reports []report
		end     config
		problem string
	}{
		"all well":                    {good, config{1, 1}, ""},
		"a torn read":                 {with(report{Worker: 1, What: leaves, Found: found(1, 0)}), config{1, 1}, "TORN"},
		"torn in the end":             {good, config{1, 0}, "TORN"},
		"an old read":                 {with(report{Worker: 1, What: leaves, Found: found(0, 0)}), config{1, 1}, "OLD"},
		"old in the end":              {good, config{0, 0}, "OLD"},
		"a reader beside the writer":  {with(report{What: alone, Version: 2}, report{Worker: 1, What: shares}), config{1, 1}, "not alone"},
		"the writer beside a reader":  {with(report{Worker: 1, What: shares}, report{What: alone, Version: 2}), config{1, 1}, "not alone"},
		"one after the other":         {slices.DeleteFunc(with(), func(r report) bool { return r.Worker == 2 }), config{1, 1}, "no two readers"},
		"no reader while it verified": {with()[:2], config{1, 1}, "no reader read"},
		"perhaps published":           {with(report{What: alone, Version: 2}), config{2, 2}, ""},
		"a writer that lost, beside":  {with(report{What: alone, Version: 2}, report{Worker: 1, What: shares}, report{What: lost}), config{1, 1}, ""},
		"a torn read, and a loss":     {with(report{Worker: 1, What: leaves, Found: found(1, 0)}, report{What: lost}), config{1, 1}, "TORN"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 2)
			for _, r := range test.reports {
				b.take(r)
			}
			verdict, err := b.settle(test.end, true)
			demotest.Settle(t, verdict, err, "nothing was torn", test.problem)
		})
	}
}
