package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/dirhash"
)

// sums returns the two lines of go.sum for the module in dir. Those of the root do not depend on the
// other modules, which are not part of its zip, and those of another one only on the modules that it
// requires. So they are known before there is a tag, and one commit can have the tags of all
// modules.
func (t *tree) sums(dir string) (lines []string, err error) {
	archive, err := os.CreateTemp("", "module-*.zip")
	if err != nil {
		return nil, err
	}
	defer os.Remove(archive.Name())
	err = errors.Join(t.writeZip(archive, dir), archive.Close())
	if err != nil {
		return nil, err
	}
	all, err := dirhash.HashZip(archive.Name(), dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(t.file(path.Join(dir, "go.mod"))) })
	if err != nil {
		return nil, err
	}
	m := t.at(dir)
	return []string{
		fmt.Sprintf("%s %s %s\n", m.Path, m.Version, all),
		fmt.Sprintf("%s %s/go.mod %s\n", m.Path, m.Version, mod),
	}, nil
}

// requiredSums returns the lines of the tree's modules that the module in dir requires.
func (t *tree) requiredSums(dir string) (lines []string, err error) {
	f, err := t.modFile(dir)
	if err != nil {
		return nil, err
	}
	for _, r := range f.Require {
		if !t.isOurs(r.Mod.Path) {
			continue
		}
		sums, err := t.sums(strings.TrimPrefix(strings.TrimPrefix(r.Mod.Path, t.module), "/"))
		if err != nil {
			return nil, err
		}
		lines = append(lines, sums...)
	}
	slices.Sort(lines)
	return lines, nil
}

// readSums returns the lines of a go.sum that are of the tree's modules, and the others.
func (t *tree) readSums(dir string) (own, others []string, err error) {
	data, err := os.ReadFile(t.file(path.Join(dir, "go.sum")))
	for line := range strings.Lines(string(data)) {
		if of, _, _ := strings.Cut(line, " "); t.isOurs(of) {
			own = append(own, line)
		} else {
			others = append(others, line)
		}
	}
	return own, others, err
}

// writeSums puts the hashes of the tree's modules into the go.sum of those that require them. Without
// them, these build outside of go.work only after go mod tidy.
func (t *tree) writeSums() error {
	for _, dir := range published[1:] {
		lines, err := t.requiredSums(dir)
		if err != nil {
			return err
		}
		_, others, err := t.readSums(dir)
		if err != nil {
			return err
		}
		all := slices.Concat(others, lines)
		slices.Sort(all)
		if err := os.WriteFile(t.file(path.Join(dir, "go.sum")), []byte(strings.Join(all, "")), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// check returns what keeps the tree from being tagged.
func (t *tree) check() error {
	var problems []error
	if semver.Canonical(t.version) != t.version {
		problems = append(problems, fmt.Errorf("%s is no version", t.version))
	}
	if _, err := t.notes(); err != nil {
		problems = append(problems, err)
	}
	for _, dir := range published[1:] {
		want, err := t.requiredSums(dir)
		if err != nil {
			return err
		}
		got, _, err := t.readSums(dir)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			problems = append(problems, fmt.Errorf("%s/go.sum does not have the hashes of the modules beside it; `make release STEP=sums` writes them", dir))
		}
	}
	return errors.Join(problems...)
}

// checkTags reports whether the commit has the tags of all modules, and the root's is the one given.
func (t *tree) checkTags(given []string) error {
	if len(given) == 0 {
		return nil
	}
	var problems []error
	if given[0] != t.version {
		problems = append(problems, fmt.Errorf("the tag is %s, and the modules require %s", given[0], t.version))
	}
	command := exec.Command("git", "tag", "--points-at", "HEAD")
	command.Dir = t.root
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("git tag: %w", err)
	}
	tags := strings.Fields(string(out))
	for _, dir := range published {
		if tag := path.Join(dir, t.version); !slices.Contains(tags, tag) {
			problems = append(problems, fmt.Errorf("the commit has no tag %s", tag))
		}
	}
	return errors.Join(problems...)
}

// afterSection is what follows the last line of a section: the next one, or where links lead.
var afterSection = regexp.MustCompile(`(?m)^(## |\[[^]]+\]: )`)

// notes returns what CHANGELOG.md says about the version, without its heading. The heading must
// have a date.
func (t *tree) notes() (string, error) {
	text, err := os.ReadFile(t.file("CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	number := strings.TrimPrefix(t.version, "v")
	_, section, ok := bytes.Cut(text, fmt.Appendf(nil, "\n## [%s]", number))
	if !ok {
		return "", fmt.Errorf("CHANGELOG.md has no section %s", number)
	}
	title, section, _ := bytes.Cut(section, []byte("\n"))
	if _, err := time.Parse(" - "+time.DateOnly, string(title)); err != nil {
		return "", fmt.Errorf("CHANGELOG.md: the heading of %s has no date, such as \"## [%s] - 2026-01-02\"", number, number)
	}
	if end := afterSection.FindIndex(section); end != nil {
		section = section[:end[0]]
	}
	return strings.TrimSpace(string(section)) + "\n", nil
}
