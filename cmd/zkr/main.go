//go:build unix

// Command zkr uses locks, queues, elections and the other recipes of zkrecipes from a shell,
// and shows what happens in them. docs/zkr.md is its guide.
package main

import (
	"os"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/cli"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
)

func main() {
	if guard.IsGuard(os.Args) {
		os.Exit(guard.Main(os.Args))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
