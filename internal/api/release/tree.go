package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published are the modules with a tag in a release, by their folders, each behind those that it
// requires. They have one version.
var published = []string{"", "fence/fencegrpc", "zkkrb5", "zkotel", "zkprom", "cmd/zkr"}

// tree is a working tree of the repository.
type tree struct {
	root    string
	module  string   // the path of the root's module
	version string   // that the other modules require
	files   []string // that belong to the repository, changed and new ones included
}

func readTree(root string) (*tree, error) {
	t := &tree{root: root}
	top, err := t.modFile("")
	if err != nil {
		return nil, err
	}
	t.module = top.Module.Mod.Path
	for _, dir := range published[1:] {
		version, err := t.required(dir)
		if err != nil {
			return nil, err
		}
		if t.version != "" && t.version != version {
			return nil, fmt.Errorf("%s/go.mod requires the root at %s, and %s/go.mod at %s", published[1], t.version, dir, version)
		}
		t.version = version
	}
	return t, t.list()
}

// required returns the version of the root that the module in dir requires.
func (t *tree) required(dir string) (string, error) {
	f, err := t.modFile(dir)
	switch {
	case err != nil:
		return "", err
	case len(f.Replace) > 0:
		return "", fmt.Errorf("%s/go.mod has a replace directive, which users of the module would not have", dir)
	case f.Module.Mod.Path != path.Join(t.module, dir):
		return "", fmt.Errorf("%s/go.mod is that of %s", dir, f.Module.Mod.Path)
	}
	version := ""
	for _, r := range f.Require {
		if r.Mod.Path == t.module {
			version = r.Mod.Version
		}
	}
	if version == "" {
		return "", fmt.Errorf("%s/go.mod does not require %s", dir, t.module)
	}
	for _, r := range f.Require {
		if t.isOurs(r.Mod.Path) && r.Mod.Version != version {
			return "", fmt.Errorf("%s/go.mod requires the root at %s, and %s at %s", dir, version, r.Mod.Path, r.Mod.Version)
		}
	}
	return version, nil
}

// isOurs reports whether the module with that path is one of the tree.
func (t *tree) isOurs(modulePath string) bool {
	return modulePath == t.module || strings.HasPrefix(modulePath, t.module+"/")
}

// list sets the files: those that git has, and those that it would add.
func (t *tree) list() error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = t.root
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if info, err := os.Lstat(t.file(name)); name != "" && err == nil && info.Mode().IsRegular() {
			t.files = append(t.files, name)
		}
	}
	slices.Sort(t.files)
	t.files = slices.Compact(t.files)
	return nil
}

func (t *tree) file(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

func (t *tree) modFile(dir string) (*modfile.File, error) {
	name := path.Join(dir, "go.mod")
	data, err := os.ReadFile(t.file(name))
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, data, nil)
}

// at returns the path and the version of the module in dir.
func (t *tree) at(dir string) module.Version {
	return module.Version{Path: path.Join(t.module, dir), Version: t.version}
}

// writeZip writes the module in dir as the go command makes it from a tag: without the modules
// below it, and with the root's license if it has none.
func (t *tree) writeZip(w io.Writer, dir string) error {
	var files []zip.File
	licensed := false
	for _, name := range t.files {
		in := name
		if dir != "" {
			var ok bool
			if in, ok = strings.CutPrefix(name, dir+"/"); !ok {
				continue
			}
		}
		licensed = licensed || in == "LICENSE"
		files = append(files, zipped{in, t.file(name)})
	}
	if !licensed {
		files = append(files, zipped{"LICENSE", t.file("LICENSE")})
	}
	return zip.Create(w, t.at(dir), files)
}

// zipped is a file with the name that it has in a module's zip.
type zipped struct{ name, file string }

func (z zipped) Path() string                 { return z.name }
func (z zipped) Lstat() (os.FileInfo, error)  { return os.Lstat(z.file) }
func (z zipped) Open() (io.ReadCloser, error) { return os.Open(z.file) }

// writeProxy writes the modules to dir in the layout of the module proxy protocol, which the
// go command reads with GOPROXY=file://dir.
func (t *tree) writeProxy(dir string) error {
	for _, of := range published {
		m := t.at(of)
		escaped, err := module.EscapePath(m.Path)
		if err != nil {
			return err
		}
		var archive bytes.Buffer
		if err := t.writeZip(&archive, of); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		mod, err := os.ReadFile(t.file(path.Join(of, "go.mod")))
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		for name, data := range map[string][]byte{
			"list":              []byte(m.Version + "\n"),
			m.Version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2000-01-01T00:00:00Z"}`, m.Version),
			m.Version + ".mod":  mod,
			m.Version + ".zip":  archive.Bytes(),
		} {
			if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
