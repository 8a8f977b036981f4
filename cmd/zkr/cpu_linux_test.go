package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cpuOf returns how much CPU time a program has taken.
func cpuOf(t *testing.T, p *program) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
