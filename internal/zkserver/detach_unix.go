//go:build unix

package zkserver

import (
	"os/exec"
	"syscall"
)

// detach runs the command in a new session, so that it does not get the
// terminal's signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
