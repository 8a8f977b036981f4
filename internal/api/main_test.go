package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const before = `package p

import "time"

const Limit int64 = 7

var ErrFull, hidden = error(nil), 1

type Options struct {
	MaxLen int
	Wait   time.Duration
	secret int
}

type Option func(*Options)

type Base struct{}

func (*Base) Close() error { return nil }

type Lease struct {
	*Base
	held bool
}

func (l Lease) Held() bool { return l.held }

type Waiter interface {
	Wait(n int) (ok bool)
	private()
}

type Pair[K comparable] struct{ Key K }

type Name = string

func New(name Name, opts ...Option) (*Lease, error) { return nil, nil }
`

// newModule writes a module of one package for users, and returns its directory.
func newModule(t *testing.T, source string) (root string) {
	root = t.TempDir()
	write(t, root, "go.mod", "module example.com/p\n\ngo 1.25\n")
	write(t, root, "p.go", source)
	return root
}

func write(t *testing.T, root, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
}

func replace(t *testing.T, source, old, by string) string {
	require.Contains(t, source, old)
	return string(bytes.Replace([]byte(source), []byte(old), []byte(by), 1))
}

func TestTextHasALineForEachExportedNameFieldAndMethod(t *testing.T) {
	root := newModule(t, before)
	require.NoError(t, run([]string{"write"}, root, nil))
	text, err := os.ReadFile(filepath.Join(root, "api.txt"))
	require.NoError(t, err)
	require.Equal(t, `p: type Base struct
p: method (*Base).Close() error
p: var ErrFull error
p: type Lease struct
p: field Lease.Base *p.Base, embedded
p: method Lease.Close() error
p: method Lease.Held() bool
p: const Limit int64 = 7
p: type Name = string
p: func New(name p.Name, opts ...p.Option) (*p.Lease, error)
p: type Option func(*p.Options)
p: type Options struct
p: field Options.MaxLen int
p: field Options.Wait time.Duration
p: type Pair[K comparable] struct
p: field Pair.Key K
p: type Waiter interface
p: method Waiter.Wait(n int) (ok bool)
p: method Waiter.private, unexported
`, string(text))
}

func TestAChangeOfTheAPIThatTheTextDoesNotHaveIsFound(t *testing.T) {
	root := newModule(t, before)
	require.ErrorIs(t, run([]string{"check"}, root, nil), os.ErrNotExist)
	require.NoError(t, run([]string{"write"}, root, nil))
	require.NoError(t, run([]string{"check"}, root, nil))

	write(t, root, "p.go", replace(t, before, "MaxLen int", "MaxLen int64"))
	err := run([]string{"check"}, root, nil)
	require.ErrorContains(t, err, "-p: field Options.MaxLen int\n+p: field Options.MaxLen int64\n")
	write(t, root, "p.go", replace(t, before, "secret int", "secret bool"))
	require.NoError(t, run([]string{"check"}, root, nil))
}

func TestTheAPIIsComparedWithTheNewestRelease(t *testing.T) {
	root := newModule(t, before)
	inGit := func(args ...string) {
		c := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		c.Dir = root
		text, err := c.CombinedOutput()
		require.NoError(t, err, string(text))
	}
	compat := func() (string, error) {
		var out bytes.Buffer
		err := run([]string{"compat"}, root, &out)
		return out.String(), err
	}
	inGit("init", "-q")
	out, err := compat()
	require.NoError(t, err)
	require.Contains(t, out, "no tag")

	commit := func(source string, tags ...string) {
		write(t, root, "p.go", source)
		inGit("add", "-A")
		inGit("commit", "-q", "-m", "c")
		for _, tag := range tags {
			inGit("tag", tag)
		}
	}
	later := replace(t, before, "func New(", "func Len() int { return 0 }\n\nfunc New(")
	commit(replace(t, before, "Limit int64 = 7", "Limit int64 = 6"), "v1.9.0", "v1.11.0-rc.1", "v2.0.0", "v1.12", "vnext")
	commit(before, "v1.10.0")
	write(t, root, "p.go", later) // not committed
	out, err = compat()
	require.NoError(t, err)
	require.Contains(t, out, "no incompatible change since v1.10.0")

	commit(later, "v1.11.0")
	out, err = compat()
	require.NoError(t, err)
	require.Contains(t, out, "no incompatible change since v1.10.0", "it is v1.11.0 itself")
	write(t, root, "p.go", before)
	_, err = compat()
	require.ErrorContains(t, err, "incompatible changes since v1.11.0:\nexample.com/p: Len: removed")

	require.NoError(t, os.Remove(filepath.Join(root, "p.go")))
	_, err = compat()
	require.ErrorContains(t, err, "example.com/p: package removed")

	write(t, root, "p.go", "package p\n\nfunc broken() int {}\n\nvar X = undefined\n")
	_, err = compat()
	require.ErrorContains(t, err, "load example.com/p")
}

// A module beside the root is compared with what its release had, on the root of that release.
func TestTheAPIOfTheModulesBesideTheRootIsCompared(t *testing.T) {
	const uses = "package zkprom\n\nimport \"example.com/p\"\n\n"
	root := newModule(t, before)
	write(t, root, "go.work", "go 1.25\n\nuse (\n\t.\n\t./zkprom\n)\n\nreplace example.com/p v0.1.0 => .\n")
	require.NoError(t, os.Mkdir(filepath.Join(root, "zkprom"), 0o755))
	write(t, root, "zkprom/go.mod", "module example.com/p/zkprom\n\ngo 1.25\n\nrequire example.com/p v0.1.0\n")
	write(t, root, "zkprom/zkprom.go", uses+"func Count(*p.Lease) int { return 0 }\n")
	old, err := loadAll(root)
	require.NoError(t, err)
	require.Contains(t, old, "/zkprom")

	now, err := loadAll(root)
	require.NoError(t, err)
	require.Empty(t, incompatible(old, now))

	write(t, root, "zkprom/zkprom.go", uses+"func Count(p.Lease) int { return 0 }\n")
	now, err = loadAll(root)
	require.NoError(t, err)
	require.Equal(t, []string{"example.com/p/zkprom: Count: changed from func(*example.com/p.Lease) int to func(example.com/p.Lease) int"}, incompatible(old, now))

	only, err := load(root)
	require.NoError(t, err)
	require.NotContains(t, only, "/zkprom", "api.txt leaves it out")
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	require.Error(t, run(nil, ".", nil))
	require.Error(t, run([]string{"write", "check"}, ".", nil))
	require.ErrorContains(t, run([]string{"diff"}, ".", nil), `unknown argument "diff"`)
}
