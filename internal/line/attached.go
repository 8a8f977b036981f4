package line

import (
	"reflect"
	"sync"
)

// attachments are what recipes remember with a Client or a session, of which the core knows
// nothing. The zero value has none.
type attachments struct {
	mu  sync.Mutex
	all map[reflect.Type]any
}

// Attached returns the attachment of type T. If there is none yet, it is what create returns.
func Attached[T any](a *attachments, create func() *T) *T {
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
