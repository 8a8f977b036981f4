package recipetest

import (
	"fmt"
	"reflect"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// What lies behind the values of the API. The fields that hold it are not exported.

// Core returns what makes the sessions of a Client.
func Core(c *zkrecipes.Client) *session.Client { return field[*session.Client](c, "client") }

// HandleOf returns what a Lease, or a value that has one, holds.
func HandleOf(l any) *hold.Handle { return field[*hold.Handle](l, "handle") }

// QueueOf returns the engine of a Queue.
func QueueOf(q *zkrecipes.Queue) *queue.Queue { return field[*queue.Queue](q, "itemQueue") }

// TakenOf returns the engine's item of an Item that was taken.
func TakenOf(it *zkrecipes.Item) *queue.Item { return field[*queue.Item](it, "takenItem") }

// SlotsOf returns the engine of a Semaphore.
func SlotsOf(s *zkrecipes.Semaphore) *semaphore.Semaphore {
	return field[*semaphore.Semaphore](s, "slotted")
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
