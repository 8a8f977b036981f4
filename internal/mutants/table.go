package main

import (
	"fmt"
	"slices"
	"strings"
)

// tables are all mutants, by subject.
var tables = [][]mutant{
	aclMutants,
	asideMutants,
	barrierMutants,
	barrierOpenMutants,
	counterMutants,
	delayMutants,
	electionMutants,
	gateMutants,
	groupMutants,
	guessMutants,
	idleMutants,
	keepMutants,
	leaseMutants,
	lineMutants,
	queueAckMutants,
	queueDeadMutants,
	queuePutMutants,
	queueServeMutants,
	queueTakeMutants,
	releaseMutants,
	semaphoreMutants,
	sessionMutants,
	shutdownMutants,
	traceMutants,
	telemetryMutants,
	visitMutants,
	watchMutants,
	zkrMutants,
	serveMutants,
	zktestMutants,
}

// named returns the mutants with these names, all if there are none, in the order of
// their names.
func named(names []string) ([]mutant, error) {
	mutants := slices.Concat(tables...)
	slices.SortFunc(mutants, func(a, b mutant) int { return strings.Compare(a.name, b.name) })
	for i, m := range mutants {
		if i > 0 && m.name == mutants[i-1].name {
			return nil, fmt.Errorf("two mutants are named %q", m.name)
		}
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			return nil, fmt.Errorf("no mutant %q", name)
		}
	}
	if len(names) > 0 {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !slices.Contains(names, m.name) })
	}
	return mutants, nil
}
