package session

import (
	"reflect"
	"sync"
)

// attachments are what the packages above remember with a Client or a session. The zero value
// has none.
type attachments struct {
	mu  sync.Mutex // behind all other mutexes
	all map[reflect.Type]any
}

func (a *attachments) attached() *attachments { return a }

// Attached returns the attachment of type T to a Client or a Session. If there is none yet, it is
// what create returns, which must take no lock. It is nil where there must be one.
func Attached[T any](to interface{ attached() *attachments }, create func() *T) *T {
	a := to.attached()
	a.mu.Lock()
	defer a.mu.Unlock()
	key := reflect.TypeFor[T]()
	if t, ok := a.all[key]; ok {
		return t.(*T)
	}
	if a.all == nil {
		a.all = map[reflect.Type]any{}
	}
	t := create()
	a.all[key] = t
	return t
}
