package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// outside is a directory outside of the repository, with a go command that gets the modules of
// the tree from a proxy, as if they had been released.
type outside struct {
	t   *testing.T
	dir string
	bin string // where go install puts programs
	env []string
}

// newOutside has a module cache of its own, because what it downloads under the version of the
// next release must not stay anywhere. All other modules come from the user's module cache, or
// from where the user's go command gets them.
func newOutside(t *testing.T, tr *tree) *outside {
	proxy, cache, bin := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, tr.writeProxy(proxy))
	return &outside{t, t.TempDir(), bin, append(os.Environ(),
		"GOWORK=off",
		"GOMODCACHE="+cache,
		"GOBIN="+bin,
		"GOFLAGS=-modcacherw -trimpath", // with -trimpath, the build cache serves any directory
		"GOPROXY="+strings.Join([]string{
			"file://" + filepath.ToSlash(proxy),
			"file://" + filepath.ToSlash(goEnv(t, "GOMODCACHE")) + "/cache/download",
			goEnv(t, "GOPROXY"),
		}, ","),
		"GOSUMDB=off", // no database has the release; the hashes of all others are in the tree's go.sum files
	)}
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func (o *outside) run(name string, args ...string) string {
	o.t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = o.dir, o.env
	out, err := c.CombinedOutput()
	require.NoError(o.t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}

func (o *outside) write(name, text string) {
	require.NoError(o.t, os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o644))
}

func newTree(t *testing.T) *tree {
	tr, err := readTree(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	return tr
}

const measured = `package main

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkotel"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func main() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	metrics, registry := zkprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	exports, err := zkotel.New() // for the global providers, which drop everything
	if err != nil {
		log.Fatal(err)
	}
	defer exports.Close()
	held := make(chan bool)
	client, err := zkrecipes.Dial(context.Background(), []string{srv.Addr()}, &zkrecipes.Options{
		Trace: zkrecipes.JoinTraces(metrics.Trace(), exports.Trace(), &zkrecipes.Trace{
			HoldStart: func(context.Context, zkrecipes.TraceHoldStart) { held <- true },
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	<-held
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "zkrecipes_lease_active" {
			fmt.Println("active:", f.GetMetric()[0].GetGauge().GetValue())
		}
	}
}
`

func TestAProgramGetsTheRelease(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	o := newOutside(t, tr)
	o.write("main.go", measured)
	o.run("go", "mod", "init", "example.com/measured")
	o.run("go", "get", tr.module+"/zkotel@"+tr.version, tr.module+"/zkprom@"+tr.version)
	o.run("go", "mod", "tidy")
	require.Equal(t, "active: 1\n", o.run("go", "run", "."))
	require.Equal(t, tr.module+" "+tr.version+"\n", o.run("go", "list", "-m", tr.module))
}

func TestTheCommandLineIsInstalledFromTheRelease(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	o := newOutside(t, tr)
	o.run("go", "install", tr.module+"/cmd/zkr@"+tr.version)
	require.Equal(t, tr.version+"\n", o.run(filepath.Join(o.bin, "zkr"), "version"))
}

// Who builds a module in a clone without go.work needs the hashes of those beside it in its go.sum.
func TestTheModulesOfAReleaseBuildWithoutTheWorkspace(t *testing.T) {
	t.Parallel()
	tr := ready(t)
	require.NoError(t, tr.writeSums())
	require.NoError(t, tr.check())
	o := newOutside(t, tr)
	for _, dir := range published[1:] {
		o.dir = filepath.Join(tr.root, dir)
		o.run("go", "build", "./...")
	}
	require.NoError(t, tr.writeSums(), "it may be run again")
	require.NoError(t, tr.check())
}

// ready returns a copy of the tree whose CHANGELOG has a section of the version.
func ready(t *testing.T) *tree {
	tr := newTree(t)
	from := tr.root
	tr.root = t.TempDir()
	for _, name := range tr.files {
		data, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(tr.file(name)), 0o755))
		require.NoError(t, os.WriteFile(tr.file(name), data, 0o644))
	}
	log := "# Changelog\n\n## [" + strings.TrimPrefix(tr.version, "v") + "] - 2026-01-02\n\n- a\n"
	require.NoError(t, os.WriteFile(tr.file("CHANGELOG.md"), []byte(log), 0o644))
	return tr
}

// edit replaces what occurs once in a file.
func edit(t *testing.T, tr *tree, name, old, by string) {
	data, err := os.ReadFile(tr.file(name))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(data), old), "%s in %s", old, name)
	require.NoError(t, os.WriteFile(tr.file(name), []byte(strings.ReplaceAll(string(data), old, by)), 0o644))
}

func TestATreeThatIsNotReadyIsNotTagged(t *testing.T) {
	t.Parallel()
	tr := ready(t)
	require.ErrorContains(t, tr.check(), "zkotel/go.sum does not have the hashes of the modules beside it")
	require.NoError(t, tr.writeSums())
	require.NoError(t, tr.check())

	number := strings.TrimPrefix(tr.version, "v")
	edit(t, tr, "CHANGELOG.md", "] - 2026-01-02\n", "] - not yet\n")
	err := tr.check()
	require.ErrorContains(t, err, "the heading of "+number+" has no date")
	require.ErrorContains(t, err, "cmd/zkr/go.sum does not have the hashes of the modules beside it", "the root has changed")

	edit(t, tr, "CHANGELOG.md", "## ["+number, "## [Unreleased")
	require.ErrorContains(t, tr.check(), "no section "+number)
}

func TestACommitHasTheTagsOfAllModules(t *testing.T) {
	tr := &tree{root: t.TempDir(), version: "v0.2.0"}
	git := func(args ...string) {
		c := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		c.Dir = tr.root
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "c")
	git("tag", "v0.2.0")
	git("tag", "zkotel/v0.2.0")
	git("tag", "cmd/zkr/v0.2.0")
	git("tag", "fence/fencegrpc/v0.2.0")
	require.NoError(t, tr.checkTags(nil))
	git("tag", "zkkrb5/v0.2.0")
	require.EqualError(t, tr.checkTags([]string{"v0.2.0"}), "the commit has no tag zkprom/v0.2.0")
	git("tag", "zkprom/v0.2.0")
	require.NoError(t, tr.checkTags([]string{"v0.2.0"}))
	require.ErrorContains(t, tr.checkTags([]string{"v0.3.0"}), "the tag is v0.3.0, and the modules require v0.2.0")
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	tr := &tree{root: t.TempDir(), version: "v0.2.0"}
	write := func(text string) { require.NoError(t, os.WriteFile(tr.file("CHANGELOG.md"), []byte(text), 0o644)) }
	write("# Changelog\n\n## [Unreleased]\n\n- c\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- b\n\n## [0.1.0] - 2026-01-01\n\n- [a](x)\n[b](y)\n\n[0.2.0]: z\n[0.1.0]: z\n")
	notes, err := tr.notes()
	require.NoError(t, err)
	require.Equal(t, "### Added\n\n- b\n", notes)

	tr.version = "v0.1.0"
	notes, err = tr.notes()
	require.NoError(t, err)
	require.Equal(t, "- [a](x)\n[b](y)\n", notes)
	for _, title := range []string{"", " - soon", " - 2026-1-2", " 2026-01-02"} {
		write("# Changelog\n\n## [0.1.0]" + title + "\n\n- a\n")
		_, err = tr.notes()
		require.ErrorContains(t, err, "has no date", title)
	}
}

func TestModulesThatUsersCouldNotGetAreRefused(t *testing.T) {
	version := newTree(t).version
	for _, c := range []struct{ old, by, says string }{
		{"\ngo 1", "\nreplace github.com/zkrecipes/zkrecipes => ../\n\ngo 1", "zkotel/go.mod has a replace directive"},
		{"zkrecipes/zkrecipes " + version, "zkrecipes/zkrecipes v0.0.9", "requires the root at " + version + ", and zkotel/go.mod at v0.0.9"},
		{"github.com/zkrecipes/zkrecipes " + version + "\n", "", "zkotel/go.mod does not require github.com/zkrecipes/zkrecipes"},
		{"module github.com/zkrecipes/zkrecipes/zkotel", "module github.com/zkrecipes/zkotel", "zkotel/go.mod is that of github.com/zkrecipes/zkotel"},
	} {
		from, root := newTree(t), t.TempDir()
		for _, dir := range published {
			data, err := os.ReadFile(from.file(filepath.Join(dir, "go.mod")))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, dir, "go.mod"), data, 0o644))
		}
		edit(t, &tree{root: root}, "zkotel/go.mod", c.old, c.by)
		_, err := readTree(root)
		require.ErrorContains(t, err, c.says)
	}
	require.ErrorContains(t, run([]string{"tag"}, filepath.Join("..", "..", ".."), nil), "unknown arguments")
	require.ErrorContains(t, run(nil, "", nil), "want an argument")
}
