package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// owner returns an identifier of a process that is unique until the machine
// restarts: the kernel and PID namespace, the PID, and the time the process
// started, because PIDs are reused. It is empty if there is no /proc.
func owner(pid int) string {
	started, ok := startTime(pid)
	if !ok {
		return ""
	}
	return strings.Join([]string{pidNamespace(), strconv.Itoa(pid), started}, "/")
}

// orphaned reports whether the owner was a process of this machine that no longer
// exists. In doubt it returns false, because the engine may serve other machines
// too.
func orphaned(owner string) bool {
	parts := strings.Split(owner, "/")
	if len(parts) != 3 || parts[0] != pidNamespace() {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return false
	}
	started, ok := startTime(pid)
	return !ok || started != parts[2]
}

func pidNamespace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(boot)) + "-" + space
}

// startTime returns when the process started, in clock ticks since boot. That is
// the 22nd field of its stat, and the 20th after the name, which may contain
// spaces.
func startTime(pid int) (string, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", false
	}
	return fields[19], true
}
