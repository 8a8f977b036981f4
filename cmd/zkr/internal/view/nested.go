//go:build unix

package view

import (
	"strconv"
	"strings"
)

// A zkr that was started by a command that another zkr runs has a session of its own. What the
// outer one holds is not given back before the inner one ends. So its identity says in which
// session it runs, and the graph takes both for one.
const in = " in "

// Nested returns the identity of a process within a command that runs in the other session,
// which may be empty.
func Nested(identity, session string) string {
	if session == "" {
		return identity
	}
	return identity + in + session
}

// WithoutOuter returns the identity without the session in whose command its process runs.
func WithoutOuter(identity string) string {
	if outer(identity) == 0 {
		return identity
	}
	return identity[:strings.LastIndex(identity, in)]
}

// outer returns the session in whose command the process with that identity runs, or 0.
func outer(identity string) Session {
	i := strings.LastIndex(identity, in)
	if i < 0 {
		return 0
	}
	id, err := strconv.ParseUint(identity[i+len(in):], 0, 64)
	if err != nil {
		return 0
	}
	return Session(id)
}

// outermost returns the session for which each session stands in a graph.
func outermost(lines []Line) func(Session) Session {
	within := map[Session]Session{}
	for _, l := range lines {
		for _, p := range l.Places {
			if s := outer(p.Identity); s != 0 {
				within[p.Session] = s
			}
		}
	}
	return func(s Session) Session {
		for range len(within) { // identities may lie, and name a circle
			next, ok := within[s]
			if !ok {
				break
			}
			s = next
		}
		return s
	}
}
