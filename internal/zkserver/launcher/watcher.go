package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// A watcher is a small shell process that outlives this process and cleans up
// after it. It reads from a pipe whose other end only this process holds. The
// kernel closes that end however the process ends. A panic, SIGKILL and the test
// timeout run no deferred calls.
type watcher struct {
	run  string // the label of this run's containers and networks
	dir  string // of this run; a server's PID is in <dir>/*/pid
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// watcherScript cleans up more than once, because a request to create a container
// may be under way when the process dies. It continues if a command fails:
// removing some is better than removing nothing.
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

// newWatcher makes the directory of a run and starts its watcher, whose
// environment is extended by env.
func newWatcher(env ...string) (*watcher, error) {
	dir, err := os.MkdirTemp("", "zkserver-")
	if err != nil {
		return nil, err
	}
	w := &watcher{run: "zkrecipes.run=" + rand.Text(), dir: dir}
	w.cmd = exec.Command("sh", "-c", watcherScript, "zkserver-watcher", w.run, w.dir)
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Dir = "/"
	// Ctrl-C reaches all processes of the terminal, but the watcher has work to
	// do after it. Its output is discarded, because go test waits for every
	// process that holds the test's output.
	detach(w.cmd)
	if w.pipe, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the watcher: %w", err), os.RemoveAll(dir))
	}
	return w, nil
}

func (w *watcher) traces() *zkserver.Traces { return &zkserver.Traces{Label: w.run, Dir: w.dir} }

// dismiss ends the watcher and waits for it. Unless all is removed already, the
// watcher first cleans up as it does after the end of this process.
func (w *watcher) dismiss(allRemoved bool) error {
	if allRemoved {
		io.WriteString(w.pipe, "done\n")
	}
	w.pipe.Close()
	err := w.cmd.Wait()
	if !allRemoved {
		return nil // the exit status is only that of its last command
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}
