// Prepare finds a way to run ZooKeeper on this machine before the tests do, and
// fetches all versions that they use. So the minute that it may take to get an
// image is not spent in a test. Prepare prints nothing if there is nothing to do,
// and fails if ZooKeeper cannot be run.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	provider, err := zkserver.Find(ctx, log.Printf)
	if err != nil {
		log.Fatal(err)
	}
	for _, version := range zkserver.Versions {
		// Not fatal: the tests that need this version fail and say why.
		if err := provider.Fetch(ctx, version); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			log.Print(err)
		}
	}
	if err := provider.Close(); err != nil {
		log.Fatal(err)
	}
}
