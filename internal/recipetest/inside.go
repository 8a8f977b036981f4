package recipetest

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// What lies behind the values of the API. The fields that hold it are not exported.

// Core returns what makes the sessions of a Client.
func Core(c *zkrecipes.Client) *session.Client { return field[*session.Client](c, "client") }

// NewLease returns a Lease that has this handle.
func NewLease(h *hold.Handle) *zkrecipes.Lease {
	l := new(zkrecipes.Lease)
	*at[*hold.Handle](l, "handle") = h
	return l
}

// IsDeleted reports whether the place at path, of a grant, is known to be deleted.
func IsDeleted(s *session.Session, path string) bool {
	grants := attachment(s, "hold.watchdog")
	mu := at[sync.Mutex](grants, "mu")
	mu.Lock()
	defer mu.Unlock()
	return field[bool](field[map[string]*hold.Grant](grants, "all")[path], "deleted")
}

// NewToken returns the token of the n-th exclusive grant of the place with that czxid.
func NewToken(czxid int64, n int) zkrecipes.Token { return zkrecipes.Token(hold.TokenOf(czxid, n)) }

// DefaultSessionTimeout is what a Client without Options.SessionTimeout requests.
const DefaultSessionTimeout = 10 * time.Second

// LineOf returns the line of a Mutex, an RWLock or an Election.
func LineOf(recipe any) *line.Line { return field[*line.Line](recipe, "line") }

// KeepOf returns the place that the process keeps for a Mutex, if any.
func KeepOf(m *zkrecipes.Mutex) *keep.Lock { return field[*keep.Lock](m, "keep") }

// HandleOf returns what a Lease, or a value that has one, holds.
func HandleOf(l any) *hold.Handle { return field[*hold.Handle](l, "handle") }

// QueueOf returns the engine of a Queue.
func QueueOf(q *zkrecipes.Queue) *queue.Queue { return field[*queue.Queue](q, "itemQueue") }

// TakenOf returns the engine's item of an Item that was taken.
func TakenOf(it *zkrecipes.Item) *queue.Item { return field[*queue.Item](it, "takenItem") }

// RoundsOf returns the engine of a Barrier.
func RoundsOf(b *zkrecipes.Barrier) *barrier.Barrier { return field[*barrier.Barrier](b, "rounds") }

// SlotsOf returns the engine of a Semaphore.
func SlotsOf(s *zkrecipes.Semaphore) *semaphore.Semaphore {
	return field[*semaphore.Semaphore](s, "slotted")
}

// attachment returns what is attached to a Client or a session under the type of that name, nil
// if nothing is.
func attachment(to any, name string) any {
	f := reflect.ValueOf(to).Elem().FieldByName("attachments")
	attached := reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Interface()
	mu := at[sync.Mutex](attached, "mu")
	mu.Lock()
	defer mu.Unlock()
	for t, v := range field[map[reflect.Type]any](attached, "all") {
		if t.String() == name {
			return v
		}
	}
	return nil
}

// field returns the field of that name and type in the struct to which v points.
func field[T any](v any, name string) T { return *at[T](v, name) }

// at returns where that field is.
func at[T any](v any, name string) *T {
	s := reflect.ValueOf(v)
	if s.Kind() != reflect.Pointer { // a struct that embeds a pointer
		p := reflect.New(s.Type())
		p.Elem().Set(s)
		s = p
	}
	f := s.Elem().FieldByName(name)
	if want := reflect.TypeFor[T](); !f.IsValid() || f.Type() != want {
		panic(fmt.Sprintf("recipetest: %T has no field %s of type %v", v, name, want))
	}
	return (*T)(f.Addr().UnsafePointer())
}
