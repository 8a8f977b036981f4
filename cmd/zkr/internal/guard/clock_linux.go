package guard

import "golang.org/x/sys/unix"

// clock goes on while the machine is suspended, which CLOCK_MONOTONIC does not.
const clock = unix.CLOCK_BOOTTIME
