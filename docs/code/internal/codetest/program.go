package codetest

import (
	"bufio"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram is a variable of the environment that makes the test binary run as the program.
const asProgram = "ZKRECIPES_CODE_AS_PROGRAM"

// Main runs the tests. TestMain calls it with the program's main.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Program is a process that runs the program's main.
type Program struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Scanner
}

// Start starts the program with ZK_SERVERS.
func Start(t *testing.T, servers string) *Program {
	p := &Program{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "ZK_SERVERS="+servers)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p.cmd.Stderr = w
	require.NoError(t, p.cmd.Start())
	w.Close()
	p.out = bufio.NewScanner(r)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		r.Close()
	})
	return p
}

// lines yields what the program prints.
func (p *Program) lines() iter.Seq[string] {
	return func(yield func(string) bool) {
		for p.out.Scan() && yield(p.out.Text()) {
			p.t.Log(p.out.Text())
		}
	}
}

// Until reads the program's output up to a line that matches.
func (p *Program) Until(re *regexp.Regexp) []string {
	for line := range p.lines() {
		if m := re.FindStringSubmatch(line); m != nil {
			return m
		}
	}
	require.Failf(p.t, "the program ended", "before it printed %v", re)
	return nil
}

// Stop asks the program to stop, waits until it has, and returns what it has printed meanwhile. Its
// exit code must be 0.
func (p *Program) Stop() (lines []string) {
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	lines = slices.Collect(p.lines())
	require.NoError(p.t, p.cmd.Wait())
	return lines
}
