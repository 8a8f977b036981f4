package zkrecipes_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestCommandsInTheDocumentsExist(t *testing.T) {
	wrong, n := missing(t, os.DirFS("."))
	require.Empty(t, wrong)
	require.Greater(t, n, 50)
}

func TestTheCheckOfCommandsFindsWhatIsMissing(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	wrong, n := missing(t, fstest.MapFS{
		"go.work": file(""), "Makefile": file("lint: ## check\ntest-all:\n"),
		"scripts/test-all.sh": file("#!\n#	real   everything\n"), "scripts/release.sh": file("#	./scripts/release.sh sums   write\n"),
		"examples/queue/main.go": file(""),
		"README.md": file("`make lint test-all`, `A=1 make none`, `make lint none`\n\n    make gone # x\n\nmake sense, `go run ./examples/queue`\n" +
			"`make test-all PARTS=real`, `make test-all PARTS=unreal`, `make lint STEP=sums`, `make lint ARGS=nothing`, `go doc ./no`"),
	})
	require.Equal(t, []string{"none", "none", "gone", "PARTS=unreal", "ARGS=nothing", "./no"}, wrong)
	require.Equal(t, 10, n)
}

var command = regexp.MustCompile("(?m)(?:`|^ {4,})(?:[A-Z_]+=\\S+ )*(?:make ([a-z -]+)|go (?:run|test|doc) (\\./[a-z/]+))(?:(PARTS|STEP|ARGS)='?([a-z]+))?")

// missing returns what commands in the documents name but the repository does not have: targets
// of make, their arguments, and folders. It also returns how many commands there are.
func missing(t *testing.T, repository fs.FS) (wrong []string, n int) {
	exists := func(name string) bool { _, err := fs.Stat(repository, name); return err == nil }
	makefile, parts, steps := "\n"+read(t, repository, "Makefile"), read(t, repository, "scripts/test-all.sh"), read(t, repository, "scripts/release.sh")
	all := documents(t, repository)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := read(t, repository, name)
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			n++
			for _, target := range strings.Fields(m[1]) {
				if !strings.Contains(makefile, "\n"+target+":") {
					wrong = append(wrong, target)
				}
			}
			if m[2] != "" && !exists(m[2][2:]) && !strings.Contains(text, "    cp -r examples/hello "+m[2][2:]+"\n") {
				wrong = append(wrong, m[2])
			}
			if ok := map[string]bool{
				"": true, "ARGS": exists("examples/" + m[4]),
				"PARTS": strings.Contains(parts, "\n#	"+m[4]+" "),
				"STEP":  strings.Contains(steps, "release.sh "+m[4]+" "),
			}; !ok[m[3]] {
				wrong = append(wrong, fmt.Sprintf("%s=%s", m[3], m[4]))
			}
		}
	}
	return wrong, n
}
