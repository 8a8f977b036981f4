//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, which the caller may lend to the command.
type terminal struct {
	lent bool
}

// isOurs reports whether the descriptor is a terminal whose foreground group is the caller's.
func isOurs(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// isFree reports whether the command may have the terminal before it asks for it: if the caller
// has it, for input and for output. If one of them is something else, the caller may be part of a
// pipeline, whose other commands need the terminal, too.
func (t *terminal) isFree() bool { return isOurs(0) && isOurs(1) }

// lend gives the terminal to the command's group if the caller has it, and reports whether it did.
func (t *terminal) lend(group int) (ok bool) {
	onTerminal(func(fd int) {
		ok = group != 0 && isOurs(fd) && give(fd, group)
	})
	t.lent = t.lent || ok
	return ok
}

// takeBack takes the terminal back if the command has it.
func (t *terminal) takeBack() {
	if t.lent {
		onTerminal(func(fd int) { give(fd, unix.Getpgrp()) })
		t.lent = false
	}
}

// onTerminal calls f with the controlling terminal, if there is one. Standard input need not be it:
// programs such as ssh open it to ask for a password.
func onTerminal(f func(fd int)) {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0); err == nil {
		defer tty.Close()
		f(int(tty.Fd()))
	}
}

// give makes the group the terminal's foreground group.
func give(fd, group int) bool {
	signal.Ignore(syscall.SIGTTOU) // which a background process gets for the next call
	defer signal.Reset(syscall.SIGTTOU)
	return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) == nil
}
