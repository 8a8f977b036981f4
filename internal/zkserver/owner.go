package zkserver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// owner names a process for as long as the machine is up: where its number
// holds (kernel and pid namespace), the number, and when it was started, since
// numbers are used again. It is empty where there is no /proc.
func owner(pid int) string {
	started, ok := startTime(pid)
	if !ok {
		return ""
	}
	return strings.Join([]string{pidSpace(), strconv.Itoa(pid), started}, "/")
}

// orphaned reports whether the owner was a process of this machine that is
// gone. In doubt it is not: the engine may serve other machines too.
func orphaned(owner string) bool {
	parts := strings.Split(owner, "/")
	if len(parts) != 3 || parts[0] != pidSpace() {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return false
	}
	started, ok := startTime(pid)
	return !ok || started != parts[2]
}

func pidSpace() string {
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

// startTime returns when the process was started, in clock ticks since boot:
// the 22nd field of its stat, the 20th after the name, which may have spaces.
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
