// Prepare finds the way to run ZooKeeper on this machine before the tests do,
// so that the minute it may take to get an image is nobody's test time. It is
// quiet when nothing is to do, and fails when no way works.
package main

import (
	"context"
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
	if err := provider.Close(); err != nil {
		log.Fatal(err)
	}
}
