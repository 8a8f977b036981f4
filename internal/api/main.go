// Command api writes the exported API as text, and compares it with that of a release.
//
//	go run -C internal/api . write    # write api.txt
//	go run -C internal/api . check    # fail if api.txt is not what write would write
//	go run -C internal/api . compat   # fail on incompatible changes since the last release
//
// It is a module of its own, so that users of the library do not depend on what it needs.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/tools/go/packages"
)

// exported are the packages for users, below the module's path.
var exported = []string{"", "/fence", "/zktest"}

// beside are the packages for users in modules of their own. api.txt leaves them out, and compat
// compares them, too: a release gives all modules the same version.
var beside = []string{"/fence/fencegrpc", "/zkkrb5", "/zkotel", "/zkprom"}

func main() {
	if err := run(os.Args[1:], filepath.Join("..", ".."), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(args []string, root string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("want one argument: write, check or compat")
	}
	switch args[0] {
	case "write", "check":
		pkgs, err := load(root)
		if err != nil {
			return err
		}
		text, file := describe(pkgs), filepath.Join(root, "api.txt")
		if args[0] == "write" {
			return os.WriteFile(file, text, 0o644)
		}
		return check(file, text)
	case "compat":
		return compat(root, out)
	}
	return fmt.Errorf("unknown argument %q", args[0])
}

// check compares the file with the text that it should have.
func check(file string, text []byte) error {
	data, err := os.ReadFile(file)
	if err != nil || bytes.Equal(data, text) {
		return err
	}
	diff := exec.Command("diff", "--unified=0", file, "-")
	diff.Stdin = bytes.NewReader(text)
	changes, _ := diff.CombinedOutput() // it fails if there are some
	return fmt.Errorf("api.txt is out of date; `make api` makes these changes:\n%s", changes)
}

// load returns the module's packages for users, by the rest of their paths. One that
// does not exist is left out.
func load(root string) (map[string]*packages.Package, error) {
	return loadFrom(root, exported, func(string) (dir, work string) { return root, "off" })
}

// loadAll returns those of the modules beside it, too, which need the root of the same tree.
func loadAll(root string) (map[string]*packages.Package, error) {
	pkgs, err := load(root)
	if err != nil {
		return nil, err
	}
	work, err := filepath.Abs(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	others, err := loadFrom(root, beside, func(rest string) (string, string) { return filepath.Join(root, rest), work })
	maps.Copy(pkgs, others)
	return pkgs, err
}

// loadFrom returns packages, each loaded in the directory and the workspace that in names.
func loadFrom(root string, rests []string, in func(rest string) (dir, work string)) (map[string]*packages.Package, error) {
	module, err := modulePath(root)
	if err != nil {
		return nil, err
	}
	pkgs := map[string]*packages.Package{}
	for _, rest := range rests {
		if sources, _ := filepath.Glob(filepath.Join(root, rest, "*.go")); len(sources) == 0 {
			continue
		}
		dir, work := in(rest)
		found, err := packages.Load(&packages.Config{
			Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedFiles,
			Dir:  dir,
			Env:  append(os.Environ(), "GOWORK="+work),
		}, module+rest)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if len(p.Errors) > 0 {
				return nil, fmt.Errorf("load %s: %w", p.PkgPath, p.Errors[0])
			}
			pkgs[rest] = p
		}
	}
	return pkgs, nil
}
