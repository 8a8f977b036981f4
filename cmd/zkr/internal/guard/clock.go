//go:build unix

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// now returns the time in ns by a clock that all processes of the machine share.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0 // every deadline has not come yet; the caller's own clock still ends the lease
	}
	return ts.Nano()
}

// at converts a time of this process's monotonic clock. A process that is stopped between
// the two readings gets an earlier time, never a later one.
func at(t time.Time) int64 {
	shared := now()
	return shared + int64(max(time.Until(t), -time.Hour)) // the zero time is hours ago, too
}
