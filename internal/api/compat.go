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
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// compat compares the API with that of the newest release of the same major version.
// Without a release, anything is compatible.
func compat(root string, out io.Writer) error {
	tag, err := newestRelease(root)
	if err != nil {
		return err
	}
	if tag == "" {
		fmt.Fprintln(out, "api-compat: this clone has no tag of an earlier release, so nothing is compared (git fetch --tags gets them)")
		return nil
	}
	old, remove, err := checkOut(root, tag)
	if err != nil {
		return err
	}
	defer remove()
	before, err := loadAll(old)
	if err != nil {
		return fmt.Errorf("the API of %s: %w", tag, err)
	}
	now, err := loadAll(root)
	if err != nil {
		return err
	}
	if changes := incompatible(before, now); len(changes) > 0 {
		return fmt.Errorf("incompatible changes since %s:\n%s", tag, strings.Join(changes, "\n"))
	}
	fmt.Fprintf(out, "api-compat: no incompatible change since %s\n", tag)
	return nil
}

// incompatible returns the changes that can break a user's code.
func incompatible(before, now map[string]*packages.Package) (changes []string) {
	for _, rest := range slices.Sorted(maps.Keys(before)) {
		p := now[rest]
		if p == nil {
			changes = append(changes, before[rest].PkgPath+": package removed")
			continue
		}
		for _, change := range apidiff.Changes(before[rest].Types, p.Types).Changes {
			if !change.Compatible {
				changes = append(changes, p.PkgPath+": "+change.Message)
			}
		}
	}
	return changes
}

// newestRelease returns the highest tag of the module's major version; v0 and v1 have
// the same module path. Pre-releases and the tags of this very tree do not count. Empty: there
// is none.
func newestRelease(root string) (string, error) {
	path, err := modulePath(root)
	if err != nil {
		return "", err
	}
	_, major, ok := module.SplitPathVersion(path)
	if !ok {
		return "", fmt.Errorf("invalid module path %s", path)
	}
	tags, err := git(root, "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	own, err := ownTags(root)
	if err != nil {
		return "", err
	}
	newest := ""
	for tag := range strings.FieldsSeq(string(tags)) {
		if !slices.Contains(own, tag) && semver.IsValid(tag) && tag == semver.Canonical(tag) && semver.Prerelease(tag) == "" &&
			module.CheckPathMajor(tag, major) == nil && (newest == "" || semver.Compare(tag, newest) > 0) {
			newest = tag
		}
	}
	return newest, nil
}

// ownTags returns the tags of the tree, which is being released. It has none if a file differs
// from that of its commit.
func ownTags(root string) ([]string, error) {
	changes, err := git(root, "status", "--porcelain")
	if err != nil || len(changes) > 0 {
		return nil, err
	}
	tags, err := git(root, "tag", "--points-at", "HEAD")
	return strings.Fields(string(tags)), err
}

// checkOut writes the files of a tag to a temporary directory.
func checkOut(root, tag string) (dir string, remove func(), err error) {
	archive, err := git(root, "archive", "--format=tar", tag)
	if err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp("", "api-")
	if err != nil {
		return "", nil, err
	}
	untar := exec.Command("tar", "-xf", "-", "-C", dir)
	untar.Stdin = bytes.NewReader(archive)
	if text, err := untar.CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("tar: %w: %s", err, text), os.RemoveAll(dir))
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

func git(root string, args ...string) ([]byte, error) {
	command := exec.Command("git", args...)
	command.Dir = root
	var text bytes.Buffer
	command.Stderr = &text
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, text.String())
	}
	return out, nil
}

func modulePath(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	if path := modfile.ModulePath(data); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%s has no module path", filepath.Join(root, "go.mod"))
}
