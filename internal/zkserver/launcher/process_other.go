//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

func detach(*exec.Cmd) {}

func freeze(*os.Process) error { return errors.ErrUnsupported }

func thaw(*os.Process) error { return errors.ErrUnsupported }

func quit(*os.Process) error { return errors.ErrUnsupported }

func terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }
