package main

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/judge"
)

func TestTheJudgeWaitsForTheSlowestReporterButNotForever(t *testing.T) {
	s := &soak{start: time.Now().Add(-time.Hour)}
	f := newFleet(s)
	now := s.now()
	f.running[1] = &ship{heard: now, done: make(chan struct{})}
	f.running[2] = &ship{heard: now - 10*time.Second, done: make(chan struct{})}
	require.Equal(t, now-10*time.Second-reportDelay, f.reported())

	f.running[2].heard = 0
	require.InDelta(t, now-maxReportDelay, f.reported(), float64(20*time.Second))

	close(f.running[2].done)
	require.Equal(t, now-reportDelay, f.reported())
}

func TestAProcessThatCannotEndIsKilledIfAServerDoesNotServe(t *testing.T) {
	s := &soak{start: time.Now()}
	s.court = newCourt(s.start, judge.Config{})
	f := newFleet(s)
	hangs := &ship{cmd: exec.Command("cat"), done: make(chan struct{})}
	output, err := hangs.cmd.StdoutPipe()
	require.NoError(t, err)
	hangs.input, err = hangs.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, hangs.cmd.Start())
	f.running[1] = hangs
	go f.follow(1, hangs, output)
	f.abandon()
	f.awaitEnd(1, hangs, nil)
	<-hangs.done
	require.Empty(t, s.court.judge.Violations())
}
