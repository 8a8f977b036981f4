//go:build !unix

package main

import (
	"errors"
	"os"
)

func freeze(*os.Process) error { return errors.ErrUnsupported }

func thaw(*os.Process) error { return errors.ErrUnsupported }

func terminate(*os.Process) error { return errors.ErrUnsupported }

func dump(*os.Process) error { return errors.ErrUnsupported }
