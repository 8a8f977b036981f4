package zkrecipes_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
)

// Each caller gets a number of its own, over all processes.
func ExampleCounter() {
	ctx := context.Background()
	client, stop := semaphoreClient()
	defer stop()

	tickets := zkrecipes.NewCounter(client, "/tickets")
	number, err := tickets.Add(ctx, 1) // nobody else gets this one
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ticket", number)
	if _, err := tickets.Add(ctx, 10); err != nil {
		log.Fatal(err)
	}
	swapped, err := tickets.CompareAndSet(ctx, 11, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("begun anew:", swapped)
	// Output:
	// ticket 1
	// begun anew: true
}
