package recipetest

import (
	"fmt"
	"reflect"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
)

// What lies behind the values of the API. The fields that hold it are not exported.

// Core returns what makes the sessions of a Client.
func Core(c *zkrecipes.Client) *line.Client { return field[*line.Client](c, "client") }

// LineOf returns the line of a Mutex, an RWLock, an Election or a Gate.
func LineOf(recipe any) *line.Line { return field[*line.Line](recipe, "line") }

// KeepOf returns the place that the process keeps for a Mutex, if any.
func KeepOf(m *zkrecipes.Mutex) *keep.Lock { return field[*keep.Lock](m, "keep") }

// HandleOf returns what a Lease, or a value that has one, holds.
func HandleOf(l any) *line.Handle { return field[*line.Handle](l, "handle") }

// LeaseOf returns the Lease in an Item, a Term, a Visit or Slots.
func LeaseOf(v any) *zkrecipes.Lease { return field[*zkrecipes.Lease](v, "lease") }

// QueueOf returns the engine of a Queue.
func QueueOf(q *zkrecipes.Queue) *queue.Queue { return field[*queue.Queue](q, "itemQueue") }

// TakenOf returns the engine's item of an Item that was taken.
func TakenOf(it *zkrecipes.Item) *queue.Item { return field[*queue.Item](it, "takenItem") }

// RoundsOf returns the engine of a Barrier.
func RoundsOf(b *zkrecipes.Barrier) *barrier.Barrier { return field[*barrier.Barrier](b, "rounds") }

// DoublesOf returns the engine of a DoubleBarrier.
func DoublesOf(b *zkrecipes.DoubleBarrier) *barrier.DoubleBarrier {
	return field[*barrier.DoubleBarrier](b, "doubles")
}

// VisitOf returns the engine's visit of a Visit.
func VisitOf(v *zkrecipes.Visit) *barrier.Visit { return field[*barrier.Visit](v, "visit") }

// SlotsOf returns the engine of a Semaphore.
func SlotsOf(s *zkrecipes.Semaphore) *semaphore.Semaphore {
	return field[*semaphore.Semaphore](s, "slotted")
}

// field returns the field of that name and type in the struct to which v points.
func field[T any](v any, name string) T {
	f := reflect.ValueOf(v).Elem().FieldByName(name)
	if want := reflect.TypeFor[T](); !f.IsValid() || f.Type() != want {
		panic(fmt.Sprintf("recipetest: %T has no field %s of type %v", v, name, want))
	}
	return *(*T)(f.Addr().UnsafePointer())
}

