package zkconn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingBeginsOnceTasksAreStopped(t *testing.T) {
	var tasks Tasks
	require.True(t, tasks.Begin())
	idle := tasks.Stop()
	require.False(t, tasks.Begin())
	require.False(t, isClosed(idle))
	tasks.Add() // the rest of what has begun
	tasks.End()
	require.False(t, isClosed(idle))
	require.Equal(t, 1, tasks.Count())
	tasks.End()
	require.True(t, isClosed(idle))
	require.True(t, isClosed(tasks.Stop()))
}

func TestTasksMayBeAddedWhileSomebodyWaitsUntilThereAreNone(t *testing.T) {
	var tasks Tasks
	tasks.Add()
	idle := tasks.Done()
	tasks.Add()
	tasks.End()
	require.False(t, isClosed(idle))
	tasks.End()
	require.True(t, isClosed(idle))
}
