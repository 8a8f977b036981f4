package zkserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A watcher is a small shell process that outlives this one and cleans up
// after it. It reads from a pipe whose other end only this process holds. The
// kernel closes that end however the process ends, by a panic, by SIGKILL or
// by the test timeout, none of which run deferred calls.
type watcher struct {
	run  string // names this run; the label of its containers and networks
	dir  string // of this run; a server's pid is in <dir>/*/pid
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// A request to create a container may be under way while the process dies, so
// the watcher looks more than once. It goes on when a command fails: half of
// the cleaning is better than none.
const watcherScript = `
read -r word
[ "$word" = done ] && exit 0
run=$1 dir=$2
for round in 1 2 3; do
	for file in "$dir"/*/pid; do
		[ -f "$file" ] && kill -9 "$(cat "$file")"
	done
	rm -rf "$dir"
	if command -v docker; then
		ids=$(docker ps -aq --filter "label=$run")
		[ -n "$ids" ] && docker rm -fv $ids
		ids=$(docker network ls -q --filter "label=$run")
		[ -n "$ids" ] && docker network rm $ids
	else
		break
	fi
	sleep 1
done
`

// newWatcher makes the directory of a run and starts its watcher. env is added
// to the watcher's environment.
func newWatcher(env ...string) (*watcher, error) {
	dir, err := os.MkdirTemp("", "zkserver-")
	if err != nil {
		return nil, err
	}
	w := &watcher{run: runLabel + "=" + rand.Text(), dir: dir}
	w.cmd = exec.Command("sh", "-c", watcherScript, "zkserver-watcher", w.run, w.dir)
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Dir = "/"
	// Ctrl-C reaches all processes of the terminal; this one has work to do
	// after it. Its output goes nowhere, because go test waits for all who
	// hold the test's.
	detach(w.cmd)
	if w.pipe, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the watcher: %w", err), os.RemoveAll(dir))
	}
	return w, nil
}

// label returns the run's label in its two halves.
func (w *watcher) label() (key, value string) {
	key, value, _ = strings.Cut(w.run, "=")
	return key, value
}

// dismiss ends the watcher. If all has been removed it has nothing to do, else
// it does what it would have done at the end of this process.
func (w *watcher) dismiss(allRemoved bool) error {
	if allRemoved {
		io.WriteString(w.pipe, "done\n")
	}
	w.pipe.Close()
	err := w.cmd.Wait()
	if !allRemoved {
		return nil // its exit status is that of its last command
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

const (
	runLabel   = "zkrecipes.run"
	ownerLabel = "zkrecipes.owner"
)
