// Command release does what a release of the library needs and no other tool does.
//
//	go run -C internal/api ./release sums     # write the hashes of the modules into the others' go.sum
//	go run -C internal/api ./release check    # fail if the tree is not ready to be tagged
//	go run -C internal/api ./release check T  # and if its commit has not the root's tag T and the others
//	go run -C internal/api ./release notes    # print the section of CHANGELOG.md
//	go run -C internal/api ./release proxy D  # write the modules to D, as a proxy serves them
//
// The version is the one in which the other modules require the root. docs/release.md says when
// each of these is used.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], filepath.Join("..", ".."), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, root string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want an argument: sums, check, notes or proxy")
	}
	t, err := readTree(root)
	if err != nil {
		return err
	}
	switch {
	case args[0] == "sums" && len(args) == 1:
		return t.writeSums()
	case args[0] == "check" && len(args) <= 2:
		return errors.Join(t.check(), t.checkTags(args[1:]))
	case args[0] == "notes" && len(args) == 1:
		text, err := t.notes()
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	case args[0] == "proxy" && len(args) == 2:
		return t.writeProxy(args[1])
	}
	return fmt.Errorf("unknown arguments %q", args)
}
