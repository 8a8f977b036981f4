//go:build !linux

package main

import "time"

// hold sleeps for d, or a millisecond longer.
func hold(d time.Duration) error {
	time.Sleep(d)
	return nil
}
