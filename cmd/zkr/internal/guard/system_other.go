//go:build unix && !linux

package guard

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const clock = unix.CLOCK_MONOTONIC

// executable returns the path of this program.
func executable() (string, error) { return os.Executable() }

// orphans is how often to ask whether orphans have ended: they are init's children here.
const orphans = 20 * time.Millisecond

// adoptOrphans does nothing: only Linux has subreapers that work for this.
func adoptOrphans() error { return nil }

// attributes returns how the command is started: in a process group of its own.
func attributes(foreground bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground}
}

// signalTree sends the signal to the process group. Other descendants are not known here.
func signalTree(sig syscall.Signal, group int) {
	if group != 0 { // which would be this process's own
		_ = syscall.Kill(-group, sig)
	}
}

// killTree kills what the command has started. Here that is its process group.
func killTree(group int) { signalTree(syscall.SIGKILL, group) }

// isAlone reports whether the group has no process left. Orphans are not children of this
// process.
func isAlone(group int) bool { return syscall.Kill(-group, 0) == syscall.ESRCH }
