package guard

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// clock goes on while the machine is suspended, which CLOCK_MONOTONIC does not.
const clock = unix.CLOCK_BOOTTIME

// executable returns the path of this program, which is the one that runs also after its file
// was replaced by another version or deleted.
func executable() (string, error) { return "/proc/self/exe", nil }

// orphans is how often to ask whether orphans have ended. Here their end is an event.
const orphans = look

// adoptOrphans makes this process the parent of descendants whose parents die, so that it
// can wait for all of them.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// attributes returns how the command is started: in a process group of its own, to be killed
// by the kernel when the thread that starts it ends.
func attributes(foreground bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Pdeathsig: syscall.SIGKILL}
}

// process is a line of the process table.
type process struct {
	pid, parent, group int
	start              string // by which a later process with the same pid differs
}

// signalTree sends the signal to the descendants of this process in the process group, or to all if
// group is 0. It sends nothing to a process that has taken over the pid of
// another one meanwhile.
func signalTree(sig syscall.Signal, group int) {
	for _, p := range descendants(os.Getpid()) {
		if group != 0 && p.group != group {
			continue
		}
		fd, err := unix.PidfdOpen(p.pid, 0)
		if err != nil {
			continue // it has ended
		}
		if again, ok := readProcess(p.pid); ok && again.start == p.start {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// killTree kills what the command has started. Here that is all descendants of this process.
func killTree(int) { signalTree(syscall.SIGKILL, 0) }

// isAlone reports whether the group has no process left. Here it has none once this process,
// which adopts orphans, has no child.
func isAlone(int) bool { return true }

// descendants returns the processes below pid.
func descendants(pid int) (found []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]process{}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(n); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found = append(found, children[pid]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// readProcess reads /proc/<pid>/stat: the fields after the name, which is in parentheses and
// may contain any byte.
func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	group, _ := strconv.Atoi(string(fields[2]))
	return process{pid, parent, group, string(fields[19])}, true
}
