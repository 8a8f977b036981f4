package main

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	groupPath = "/services/search"

	// sessionTimeout is short for the sake of the demo, because a dead member is listed for
	// that long. Use 10 s or more in a service.
	sessionTimeout = 2 * time.Second
)

// params are the parameters of a member.
type params struct {
	demo.Env
	ID int
}

// belong is a member until ctx ends.
func belong(ctx context.Context, p params) error {
	name := demo.Letter(p.ID)
	client, err := p.Dial(ctx, "member "+name, sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()

	group := zkrecipes.NewGroup(client, groupPath)
	member, err := group.Join(ctx, []byte(starting), zkrecipes.MemberID(name))
	if err != nil {
		return err
	}
	defer member.Leave()
	if err := demo.Pause(ctx, 100*time.Millisecond, 300*time.Millisecond); err != nil { // it warms up
		return err
	}
	if err := member.Update(ctx, []byte(serving)); err != nil {
		return err
	}
	for ctx.Err() == nil { // it serves, and need not look after its membership
		demo.Tell(report{p.ID})
		if err := demo.Pause(ctx, 50*time.Millisecond, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// What a member's data say.
const (
	starting = "starting"
	serving  = "serving"
)

// report says that a member is at work.
type report struct{ Member int }
