//go:build unix

package demo

import (
	"os"
	"syscall"
)

// freeze stops a process until thaw is called. It cannot notice.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
