//go:build unix

package guard

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal that the caller may lend to the command.
type terminal struct {
	lent bool
}

// isOurs reports whether standard input and output are the terminal whose foreground group
// is the caller's. If one of them is not, the caller may be part of a pipeline, whose other
// commands need the terminal, too.
func (t *terminal) isOurs() bool {
	for fd := range 2 {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil || group != unix.Getpgrp() {
			return false
		}
	}
	return true
}

// give makes the group the terminal's foreground group.
func (t *terminal) give(group int) {
	signal.Ignore(syscall.SIGTTOU) // which a background process gets for the next call
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
}

// lend gives the terminal to the command's group if the caller has it.
func (t *terminal) lend(group int) {
	if group != 0 && t.isOurs() {
		t.give(group)
		t.lent = true
	}
}

// takeBack takes the terminal back if the command has it.
func (t *terminal) takeBack() {
	if t.lent {
		t.give(unix.Getpgrp())
		t.lent = false
	}
}

// stop stops the caller's group after the command was stopped by Ctrl-Z, so that the shell
// goes on. The guard goes on, too, and kills the command when the session's time is over.
func (t *terminal) stop() {
	if t.lent {
		t.takeBack()
		_ = syscall.Kill(0, syscall.SIGSTOP)
	}
}
