package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
