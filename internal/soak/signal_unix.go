//go:build unix

package main

import (
	"os"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate tells a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// dump makes a process print its goroutines and exit.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
