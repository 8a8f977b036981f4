package judge

import (
	"maps"
	"time"
)

// visits is where the members of a double barrier are. The barrier is one of n members
// that n callers use, so that all of them are members of each opening.
type visits map[caller]*visit

// visit lasts from the beginning of an Enter to the end of its Leave.
type visit struct {
	began   time.Duration
	entered time.Duration // 0: not yet
	leaving bool          // or the visit was lost
}

func (v visits) take(e Event) {
	m := v[e.caller()]
	switch {
	case e.Kind.isGone():
		maps.DeleteFunc(v, func(who caller, _ *visit) bool { return who.process == e.Process })
	case e.Kind == Begin && e.Recipe == RecipeDouble:
		v[e.caller()] = &visit{began: e.At}
	case m == nil:
	case e.Kind == Failed, e.Kind == Granted && e.Recipe == RecipeLeave:
		delete(v, e.caller())
	case e.Kind == Granted:
		m.entered = e.At
	case e.Kind == Leaving, e.Kind == Gone:
		m.leaving = true
	}
}

// mayEnter reports whether a running process waits in an Enter, in which another member
// has entered that has not left. It cannot leave before the one that waits.
func (v visits) mayEnter(still map[int]bool) bool {
	return v.some(func(who caller, m *visit) bool {
		return m.entered == 0 && !still[who.process] &&
			v.some(func(_ caller, other *visit) bool { return other.entered > m.began })
	})
}

// mayLeave reports whether a running process waits in a Leave, and all that entered with
// it have begun to leave.
func (v visits) mayLeave(still map[int]bool) bool {
	return v.some(func(who caller, m *visit) bool {
		return m.leaving && !still[who.process] && !v.some(func(_ caller, other *visit) bool {
			return !other.leaving && (other.entered > 0 || other.began <= m.entered)
		})
	})
}

func (v visits) some(f func(caller, *visit) bool) bool {
	for who, m := range v {
		if f(who, m) {
			return true
		}
	}
	return false
}
