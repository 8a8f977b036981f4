//go:build unix

// Package guard runs a command that must be dead by a deadline, even if the process that
// moves the deadline is stopped or killed.
//
// Three processes take part:
//
//	the caller   holds the lock, and renews the deadline while its session lives
//	the guard    the same program again, in a process group of its own
//	the command  a child of the guard, in a process group of its own
//
// A stopped process cannot kill anything, so the caller cannot guarantee the deadline alone.
// The guard does: it sends SIGTERM to the command's group a grace before the deadline, and
// SIGKILL to all that the command has started at the deadline. It does the latter at once
// when the caller is dead, which it learns from the end of the pipe between them.
//
// On Linux the kernel kills the command if the guard dies (Pdeathsig), and the caller kills
// what is left. There the guard is a subreaper, so that no descendant of the command leaves
// its tree. On other systems only the process group is known.
package guard
