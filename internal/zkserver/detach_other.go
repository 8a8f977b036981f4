//go:build !unix

package zkserver

import "os/exec"

func detach(*exec.Cmd) {}
