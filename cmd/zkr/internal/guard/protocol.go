//go:build unix

package guard

import (
	"encoding/gob"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// request is what the caller sends to the guard: the command first, with its deadline.
type request struct {
	Run        *Command // without Signals and Say, which stay with the caller
	Deadline   int64    // by now()
	Foreground bool     // the command's group becomes the terminal's foreground group
	Signal     int      // for the command's process group
	Kill       bool     // kill all that the command has started
}

// report is what the guard sends to the caller. One field is set.
type report struct {
	Started int     // the command's process, and its group
	Failed  int     // errno with which the command could not be started
	Stopped int     // signal that has stopped the command
	Ended   *Result // the command and all that it started have ended
}

// receive decodes what the other process sends. The channel is closed when that has ended.
func receive[T request | report](from io.ReadCloser) <-chan T {
	ch := make(chan T)
	go func() {
		defer close(ch)
		defer from.Close()
		for d := gob.NewDecoder(from); ; {
			var v T
			if d.Decode(&v) != nil {
				return
			}
			ch <- v
		}
	}()
	return ch
}

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
