//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"
)

// Ending returns the signals that end a process that does not handle them, and that the
// caller passes on. Those that this process was started to ignore, as by nohup, are left out.
func Ending() []os.Signal {
	return heeded(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
}

// Forwarded returns the signals that are passed on to the command's process group: Ending, and
// two that end nothing. SIGCHLD is about this process's own children, and SIGURG is what Go's
// runtime interrupts goroutines with.
func Forwarded() []os.Signal {
	return append(Ending(), syscall.SIGWINCH, syscall.SIGCONT)
}

// catchable returns what must not end or stop a guard.
func catchable() []os.Signal {
	return append(Ending(), heeded(syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)...)
}

func heeded(signals ...os.Signal) (heeded []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			heeded = append(heeded, s)
		}
	}
	return heeded
}
