//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// detach runs the command in a new session, so that it does not get the
// terminal's signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func quit(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }

// terminate sends SIGTERM to a detached command and all its children.
func terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
