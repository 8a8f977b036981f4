package sim

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// lines is what the server has applied to the lines: who stands there, and whose
// turn it ever was. It is the judge's, and knows nothing of the library's code.
type lines struct {
	signal func(path string) // is told a signal that was nobody's to give

	mu   sync.Mutex
	here map[string][]standing // by line
	was  map[string]bool       // paths of places that were there
	turn map[string]bool       // ... and could hold
}

func newLines(signal func(path string)) *lines {
	return &lines{signal: signal, here: map[string][]standing{}, was: map[string]bool{}, turn: map[string]bool{}}
}

// standing is a place, of this library or another.
type standing struct {
	name   string
	number int64
	reads  bool
}

func parse(name string) (s standing, ok bool) {
	for _, kind := range []string{"lock-", "__lock__", "__rlock__", "__WRIT__", "__READ__"} {
		if i := strings.LastIndex(name, kind); i >= 0 {
			number, err := strconv.ParseInt(name[i+len(kind):], 10, 64)
			return standing{name, number, kind == "__rlock__" || kind == "__READ__"}, err == nil
		}
	}
	return standing{}, false
}

// signals tells a place of this library, which nobody else may write to.
func signals(name string) bool {
	uuid, ok := strings.CutPrefix(name, "_c_")
	return ok && len(uuid) > 36 && uuid[14] == '8' && uuid[36] == '-'
}

// applied is zktest.OnChange's. A downgrade creates the reader's place before it
// deletes the writer's, so that no change in it gives anybody a turn too early.
func (l *lines) applied(c zktest.Change) {
	i := strings.LastIndexByte(c.Path, '/')
	line, name := c.Path[:i], c.Path[i+1:]
	s, ok := parse(name)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.Created:
		l.was[c.Path] = true
		l.here[line] = append(l.here[line], s)
	case c.Deleted:
		l.here[line] = slices.DeleteFunc(l.here[line], func(other standing) bool { return other == s })
	default:
		if signals(name) && (s.reads || !l.turn[c.Path]) {
			l.signal(c.Path)
		}
		return
	}
	ss := l.here[line]
	slices.SortFunc(ss, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	})
	for i, s := range ss {
		if i == 0 || s.reads {
			l.turn[line+"/"+s.name] = true
		}
		if !s.reads {
			break
		}
	}
}

// stood reports whether there ever was such a place.
func (l *lines) stood(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.was[path]
}

// stands reports whether there is.
func (l *lines) stands(path string) bool {
	i := strings.LastIndexByte(path, '/')
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.here[path[:i]], func(s standing) bool { return s.name == path[i+1:] })
}

// turn: by the server's word, which leaves no room for clocks, a place that is
// granted has been the first of its line, or a reader's with no writer ahead.
func (w *lockWorld) turn(who int, place string, reads bool) {
	s, ok := parse(place[strings.LastIndexByte(place, '/')+1:])
	w.lines.mu.Lock()
	turn := w.lines.turn[place]
	w.lines.mu.Unlock()
	switch {
	case !ok || s.reads != reads:
		w.h.violation("worker %d is granted %s, a place of another kind", who, place)
	case !turn:
		w.h.violation("worker %d is granted %s, whose turn it never was", who, place)
	case s.number < 0 || s.number > math.MaxInt32-1_000_000:
		w.h.violation("worker %d is granted %s, a number beyond the limit", who, place)
	}
}
