// Command floors checks that the packages of the library import only packages below them, and
// that they export no more names than they may, and that tests on real time give no deadline
// below a minute to what must happen. Run it in the root of the repository:
//
//	go run ./internal/floors
package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/zkrecipes/zkrecipes"

// floors says which packages of this module each package of the library may import.
var floors = map[string][]string{
	".":                  {"internal/hooks", "internal/look", "internal/counter", "internal/queue", "internal/barrier", "internal/semaphore", "internal/keep", "internal/election", "internal/group", "internal/watch", "internal/shards", "internal/line", "internal/hold", "internal/session", "internal/queuelog", "internal/layout", "internal/errs", "internal/zkconn", "internal/wire", "internal/tuning", "internal/digestmd5"},
	"internal/look":      {"internal/election", "internal/group", "internal/shards", "internal/barrier", "internal/semaphore", "internal/line", "internal/hold", "internal/session", "internal/queuelog", "internal/layout", "internal/errs", "internal/zkconn"},
	"internal/counter":   {"internal/queue", "internal/line", "internal/hold", "internal/session", "internal/queuelog", "internal/layout", "internal/errs", "internal/zkconn"},
	"internal/queue":     {"internal/line", "internal/hold", "internal/session", "internal/queuelog", "internal/layout", "internal/errs", "internal/zkconn", "internal/jute"},
	"internal/semaphore": {"internal/line", "internal/hold", "internal/session", "internal/layout", "internal/errs", "internal/zkconn", "internal/jute"},
	"internal/keep":      {"internal/line", "internal/hold", "internal/session", "internal/layout", "internal/errs", "internal/zkconn"},
	"internal/election":  {"internal/watch", "internal/line", "internal/hold", "internal/session", "internal/layout", "internal/errs", "internal/zkconn", "internal/jute"},
	"internal/barrier":   {"internal/line", "internal/hold", "internal/session", "internal/layout", "internal/errs", "internal/zkconn", "internal/jute"},
	"internal/group":     {"internal/watch", "internal/session", "internal/errs", "internal/zkconn", "internal/jute"},
	"internal/shards":    {"internal/layout", "internal/errs", "internal/zkconn"},
	"internal/watch":     {"internal/zkconn"},
	"internal/line":      {"internal/assert", "internal/hold", "internal/session", "internal/queuelog", "internal/layout", "internal/errs", "internal/zkconn", "internal/wire", "internal/jute"},
	"internal/hold":      {"internal/assert", "internal/session", "internal/errs", "internal/zkconn", "internal/wire", "internal/jute"},
	"internal/session":   {"internal/errs", "internal/zkconn", "internal/wire", "internal/jute"},
	"internal/layout":    {"internal/queuelog", "internal/errs", "internal/zkconn"},
	"internal/errs":      {"internal/zkconn"},
	"internal/queuelog":  {"internal/zkconn"},
	"internal/zkconn":    {"internal/wire", "internal/jute"},
	"internal/wire":      {"internal/jute"},
	"internal/jute":      {},
	"internal/digestmd5": {},
	"internal/tuning":    {},
	"internal/hooks":     {},
	"internal/assert":    {},
	"internal/telemetry": {"."},
	"fence":              {},
	"zktest":             {"internal/digestmd5", "internal/jute", "internal/tuning"},
	"zktest/zkserver":    {"zktest"},
}

func main() {
	imports, err := list()
	if err != nil {
		fmt.Fprintln(os.Stderr, "floors:", err)
		os.Exit(1)
	}
	problems := check(imports)
	wide, err := checkDoors()
	if err != nil {
		fmt.Fprintln(os.Stderr, "floors:", err)
		os.Exit(1)
	}
	problems = append(problems, wide...)
	short, err := checkTimes(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "floors:", err)
		os.Exit(1)
	}
	problems = append(problems, short...)
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "floors:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// list returns what each package of the library imports, without its tests.
func list() (map[string][]string, error) {
	args := []string{"list", "-f", `{{.ImportPath}} {{join .Imports " "}}`}
	for p := range floors {
		args = append(args, "./"+p)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, out)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		imports[words[0]] = words[1:]
	}
	return imports, nil
}

// check returns the imports, of packages of this module, that floors does not allow.
func check(imports map[string][]string) (problems []string) {
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		for _, to := range imports[from] {
			if inside(to) && !slices.Contains(floors[name(from)], name(to)) {
				problems = append(problems, fmt.Sprintf("%s must not import %s", name(from), name(to)))
			}
		}
	}
	return problems
}

func inside(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// name returns a package's path in the repository, "." for the root.
func name(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}
