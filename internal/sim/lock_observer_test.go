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

// lineObserver follows what the server applies to the lines of locks: which places
// there are, and which of them could ever hold. It uses none of the library's code.
type lineObserver struct {
	// forged, if set, is called when a place is released that could not hold.
	forged func(path string)

	mu      sync.Mutex
	places  map[string][]linePlace // by line
	existed map[string]bool        // paths of all places there ever were
	mayHold map[string]bool        // those that could hold at some moment
	newest  map[string]int64       // number of the newest place, by line
	written linePlaceWrite         // the last one
}

// linePlaceWrite is a change of a place's data. It is a part of a release if the transaction
// deletes the place, too.
type linePlaceWrite struct {
	path string
	zxid int64
}

func newLineObserver(forged func(path string)) *lineObserver {
	return &lineObserver{forged: forged, places: map[string][]linePlace{}, existed: map[string]bool{}, mayHold: map[string]bool{}, newest: map[string]int64{}}
}

// linePlace is a place of this library or another.
type linePlace struct {
	name   string
	number int64
	reader bool
	client string // the Identity of this library's
}

func parsePlace(name string) (s linePlace, ok bool) {
	for _, kind := range []string{"lock-", "__lock__", "__rlock__", "__WRIT__", "__READ__"} {
		if i := strings.LastIndex(name, kind); i >= 0 {
			number, err := strconv.ParseInt(name[i+len(kind):], 10, 64)
			return linePlace{name: name, number: number, reader: kind == "__rlock__" || kind == "__READ__"}, err == nil
		}
	}
	return linePlace{}, false
}

// isOwnPlace reports whether a place is this library's.
func isOwnPlace(name string) bool {
	uuid, ok := strings.CutPrefix(name, "_c_")
	return ok && len(uuid) > 36 && uuid[14] == '8' && uuid[36] == '-'
}

// onChange follows a change. The transaction of a downgrade creates the reader's
// place before it deletes the writer's, so that no place seems to be able to hold
// between the two.
func (o *lineObserver) onChange(c zktest.Change) {
	i := strings.LastIndexByte(c.Path, '/')
	line, name := c.Path[:i], c.Path[i+1:]
	s, ok := parsePlace(name)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case c.Created:
		s.client = string(c.Data)
		o.existed[c.Path] = true
		o.sawNumber(line, s.number)
		if s.number < 0 && isOwnPlace(name) {
			return // beyond the counter's end: it is about to go, and holds nobody up
		}
		o.places[line] = append(o.places[line], s)
	case c.Deleted:
		if o.forged != nil && isOwnPlace(name) && o.written == (linePlaceWrite{c.Path, c.Zxid}) && (s.reader || !o.mayHold[c.Path]) {
			o.forged(c.Path)
		}
		o.places[line] = slices.DeleteFunc(o.places[line], func(other linePlace) bool { return other.name == name })
	default:
		o.written = linePlaceWrite{c.Path, c.Zxid}
		return
	}
	ss := o.places[line]
	slices.SortFunc(ss, func(a, b linePlace) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	})
	for i, s := range ss {
		if i == 0 || s.reader {
			o.mayHold[line+"/"+s.name] = true
		}
		if !s.reader {
			break
		}
	}
}

// sawNumber notes a number of the line's counter. The place of a downgraded writer
// bears an old one. o.mu must be held.
func (o *lineObserver) sawNumber(line string, number int64) {
	if number < 0 { // beyond the counter's end
		number = math.MaxInt64
	}
	o.newest[line] = max(o.newest[line], number)
}

// countsFrom notes that the line's counter was moved.
func (o *lineObserver) countsFrom(line string, number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sawNumber(line, number)
}

// newestNumber returns the highest number of the line's counter. With forget, the next
// one begins a new line.
func (o *lineObserver) newestNumber(line string, forget bool) (number int64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	number, ok = o.newest[line]
	if forget {
		delete(o.newest, line)
	}
	return number, ok
}

// hasExisted reports whether there ever was such a place.
func (o *lineObserver) hasExisted(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.existed[path]
}

// exists reports whether there is such a place now.
func (o *lineObserver) exists(path string) bool {
	i := strings.LastIndexByte(path, '/')
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.places[path[:i]], func(s linePlace) bool { return s.name == path[i+1:] })
}

// couldHold reports whether a place could hold at some moment.
func (o *lineObserver) couldHold(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mayHold[path]
}

// first returns the place that is now the first of a line.
func (o *lineObserver) first(line string) (s linePlace, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.places[line]) == 0 {
		return s, false
	}
	return o.places[line][0], true
}
