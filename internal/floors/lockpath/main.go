// Command lockpath takes a free lock several times, on a server at the address that it is given, and
// writes for each time into a folder of its own which code has run.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime/coverage"

	"github.com/zkrecipes/zkrecipes"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(server, dir string) error {
	ctx := context.Background()
	client, err := zkrecipes.Dial(ctx, []string{server}, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	m := zkrecipes.NewMutex(client, "/locks/orders")
	for i := range 6 {
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		if i > 0 { // the first finds no line
			if err := write(fmt.Sprintf("%s/%d", dir, i)); err != nil {
				return err
			}
		}
		if err := lease.Release(); err != nil {
			return err
		}
	}
	return nil
}

func write(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return coverage.WriteCountersDir(dir)
}
