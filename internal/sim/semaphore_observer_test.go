package sim

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// slotObserver follows what the server applies to semaphores: how many slots there are,
// which are taken, and the waiters. It uses none of the library's code.
type slotObserver struct {
	w *waitWorld

	mu      sync.Mutex
	sizes   map[string]int            // by path
	was     map[string][]sizeAt       // all that there were, in order, by path
	slots   map[string]map[string]int // numbers of the slots taken, by znode, by path
	lines   *lineObserver             // of the waiters
	created map[string]int64          // czxid of every slot there ever was, by its path
	turn    *turn                     // a transaction that took slots while others waited
	queued  map[string]bool           // by uuid: taken by one in line
	void    map[string]bool           // by uuid: nobody may be granted the slots, see breach
}

// sizeAt is how many slots there were from some time on; 0: there was no path.
type sizeAt struct {
	since time.Time
	n     int
}

// turn is a transaction that took slots while others waited. It must delete the place of
// the first.
type turn struct {
	zxid        int64
	path, first string
	slot        string
}

func newSlotObserver(w *waitWorld) *slotObserver {
	return &slotObserver{
		w: w, sizes: map[string]int{}, was: map[string][]sizeAt{}, slots: map[string]map[string]int{}, lines: newLineObserver(nil),
		created: map[string]int64{}, queued: map[string]bool{}, void: map[string]bool{},
	}
}

func (o *slotObserver) onChange(c zktest.Change) {
	o.settle(c.Zxid)
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.w.paths, c.Path) {
		n, _ := strconv.Atoi(string(c.Data))
		if n != o.sizes[c.Path] && !c.Deleted {
			o.w.events.add(map[bool]string{true: "larger", false: "smaller"}[n > o.sizes[c.Path]])
		}
		if c.Deleted {
			o.w.events.add("path deleted")
			n = 0
		}
		o.sizes[c.Path] = n
		o.was[c.Path] = append(o.was[c.Path], sizeAt{time.Now(), n})
		return
	}
	for _, path := range o.w.paths {
		if name, ok := strings.CutPrefix(c.Path, path+"/slots/"); ok {
			o.changeSlot(c, path, name)
		}
		if name, ok := strings.CutPrefix(c.Path, path+"/line/"); ok {
			o.changeLine(c, path, name)
		}
	}
}

func (o *slotObserver) changeSlot(c zktest.Change, path, name string) {
	if name == "x" { // the first child of a new container, which goes at once
		return
	}
	digits, uuid, _ := strings.Cut(name, "-")
	number, err := strconv.Atoi(digits)
	if err != nil {
		o.w.log.violation("a slot with the name %q", name)
	}
	if o.slots[path] == nil {
		o.slots[path] = map[string]int{}
	}
	if !c.Created {
		delete(o.slots[path], name)
		return
	}
	o.created[c.Path] = c.Zxid
	numbers := map[int]bool{number: true}
	for other, n := range o.slots[path] {
		numbers[n] = true
		if n == number {
			o.breach(path, uuid, "%s was created beside %s", c.Path, other)
		}
	}
	if len(numbers) > o.sizes[path] || number >= o.sizes[path] {
		o.breach(path, uuid, "%s was created beside %v, and there are %d slots", c.Path, o.slots[path], o.sizes[path])
	}
	if o.void[uuid] {
		return
	}
	o.slots[path][name] = number
	if first, ok := o.lines.first(path + "/line"); ok && o.turn == nil {
		o.turn = &turn{c.Zxid, path, first.name, uuid}
	}
}

func (o *slotObserver) changeLine(c zktest.Change, path, name string) {
	if t := o.turn; t != nil && c.Deleted && t.zxid == c.Zxid && t.path == path && t.first == name {
		o.queued[t.slot] = true
		o.turn = nil
	}
	o.lines.onChange(c)
}

// breach notes that slots must not have been taken. A client may take them by what it remembers
// of a line that was deleted and made anew. It gives them back before anybody gets them, see
// semaphoreWorld.granted.
func (o *slotObserver) breach(path, uuid, format string, args ...any) {
	if !o.void[uuid] {
		o.w.log.note(format, args...)
		o.w.events.add("given back")
	}
	o.void[uuid] = true
	for name := range o.slots[path] {
		if strings.HasSuffix(name, uuid) {
			delete(o.slots[path], name)
		}
	}
}

// hadSize reports whether there were, at any time since then, as many slots as is asks for.
func (o *slotObserver) hadSize(path string, since time.Time, is func(n int) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, was := range slices.Backward(o.was[path]) {
		if was.n > 0 && is(was.n) {
			return true
		}
		if was.since.Before(since) {
			break
		}
	}
	return false
}

// settle checks the transaction before the one with that zxid.
func (o *slotObserver) settle(zxid int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.turn; t != nil && t.zxid != zxid {
		o.breach(t.path, t.slot, "%s: slots of %s were taken by a caller that overtook %s", t.path, t.slot, t.first)
		o.turn = nil
	}
}

// taken returns the czxid of a slot that was taken, and whether its taker may be granted it
// now, and has stood in line.
func (o *slotObserver) taken(path string) (zxid int64, allowed, inTurn bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, uuid, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], "-")
	refused := o.void[uuid] || o.turn != nil && o.turn.slot == uuid
	return o.created[path], !refused, o.queued[uuid]
}
