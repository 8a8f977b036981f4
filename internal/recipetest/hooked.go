package recipetest

import "context"

// Hooked is a context that calls F before each use of Done.
type Hooked struct {
	context.Context
	F func()
}

func (h Hooked) Done() <-chan struct{} {
	h.F()
	return h.Context.Done()
}
