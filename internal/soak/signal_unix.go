//go:build unix

package main

import (
	"os"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// dump makes a process print its goroutines and exit.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
