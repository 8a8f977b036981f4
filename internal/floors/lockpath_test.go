package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/zkrecipes/zkrecipes" // so that go test runs this again when that changes
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lockPath are the files of which code runs in a Lock of a free Mutex, in an existing line, without a
// Trace, from top to bottom. Whoever has read them has read all that happens.
var lockPath = []string{
	"mutex.go",
	"sequence.go",                    // checks the call, and makes a lease of a grant
	"internal/session/call.go",       // checks the path; which session lives
	"internal/line/join.go",          // takes a place, whose turn it is
	"internal/line/known.go",         // what is known of the line
	"internal/layout/line.go",        // the name of the place, the data of the line
	"internal/zkconn/session.go",     // whether requests pass
	"internal/zkconn/transaction.go", // builds the transaction, and reads its outcome
	"internal/zkconn/account.go",     // what the session weighs
	"internal/zkconn/tasks.go",       // counts the call, and the grant, for Close and Shutdown
	"internal/wire/send.go",          // writes the frame
	"internal/wire/receive.go",       // matches the reply, which proves that the session lives
	"internal/jute/jute.go",          // ZooKeeper's encoding
	"internal/hold/grant.go",         // the place becomes a grant, with its first handle
	"internal/hold/watchdog.go",      // which ends when the session does
}

// This much must be read to understand a lock, so the list should become shorter: by less that happens,
// not by code that moves away from the file with its name.
func TestAFreeLockCrossesTheseFilesOnly(t *testing.T) {
	srv := zktest.NewServer(t, zktest.Listen("127.0.0.1:0"))
	dir := t.TempDir()
	golang := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	const command = "./internal/floors/lockpath"
	covered := slices.DeleteFunc(strings.Fields(golang("list", "-deps", command)), func(p string) bool { return !inside(p) })
	bin := filepath.Join(dir, "lockpath")
	golang("build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", bin, command)
	runs := filepath.Join(dir, "runs")
	require.NoError(t, os.Mkdir(runs, 0o700))
	cmd := exec.Command(bin, srv.Addr(), runs)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	// What runs in the background, such as a ping, is not in each of them.
	var crossed map[string]bool
	each, err := filepath.Glob(filepath.Join(runs, "*"))
	require.NoError(t, err)
	require.Len(t, each, 5)
	for _, run := range each {
		files := filesIn(golang("tool", "covdata", "textfmt", "-i="+run, "-o=/dev/stdout"))
		if crossed == nil {
			crossed = files
		}
		maps.DeleteFunc(crossed, func(file string, _ bool) bool { return !files[file] || strings.HasPrefix("./"+file, command) })
	}
	require.Equal(t, slices.Sorted(slices.Values(lockPath)), slices.Sorted(maps.Keys(crossed)))
}

// filesIn returns the files of a coverage profile of which code has run.
func filesIn(profile string) map[string]bool {
	files := map[string]bool{}
	for line := range strings.Lines(profile) { // file.go:1.2,3.4 statements count
		file, rest, ok := strings.Cut(line, ":")
		if ok && file != "mode" && !strings.HasSuffix(strings.TrimSpace(rest), " 0") {
			files[strings.TrimPrefix(file, module+"/")] = true
		}
	}
	return files
}
