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
	inner, _ := cutOuter(identity)
	return inner
}

// cutOuter also returns that session, or 0 if there is none.
func cutOuter(identity string) (inner string, outer Session) {
	if i := strings.LastIndex(identity, in); i >= 0 {
		if id, err := strconv.ParseUint(identity[i+len(in):], 0, 64); err == nil {
			return identity[:i], Session(id)
		}
	}
	return identity, 0
}
