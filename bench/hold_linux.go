package main

import (
	"errors"
	"syscall"
	"time"
)

// hold sleeps for d, and hardly longer. time.Sleep would sleep for up to a millisecond
// more whenever something arrives on a connection meanwhile, because the runtime then
// waits for whole milliseconds anew. So it would favor whoever receives less.
func hold(d time.Duration) error {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for {
		if err := syscall.Nanosleep(&left, &left); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
