//go:build !linux

package dbtest

import "syscall"

func user(string, string) (*syscall.SysProcAttr, error) { return nil, nil }
