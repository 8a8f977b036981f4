package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// What GitHub runs. `make lint` checks the workflows by themselves, with actionlint; here they
// are compared with the rest of the repository.

type workflow struct {
	Jobs map[string]struct {
		Strategy struct{ Matrix struct{ Part []string } }
		Steps    []struct{ Uses, Run string }
	}
}

func workflows(t *testing.T) map[string]workflow {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	all := map[string]workflow{}
	for _, file := range files {
		var w workflow
		require.NoError(t, yaml.Unmarshal(contents(t, file), &w), file)
		require.NotEmpty(t, w.Jobs, file)
		all[strings.TrimSuffix(filepath.Base(file), ".yml")] = w
	}
	return all
}

func contents(t *testing.T, file string) []byte {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}

// parts returns the parts of which the workflow runs each by itself.
func (w workflow) parts() (parts []string) {
	for _, job := range w.Jobs {
		parts = append(parts, job.Strategy.Matrix.Part...)
	}
	return parts
}

var makes = regexp.MustCompile(`(?m)^make ([a-z-]+)`)

func TestWorkflowsRunTargetsThatExist(t *testing.T) {
	makefile := string(contents(t, "../../Makefile"))
	n := 0
	for name, w := range workflows(t) {
		var targets []string
		if name == "ci" {
			for _, part := range w.parts() {
				targets = append(targets, strings.Fields(part)[0])
			}
		}
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				for _, m := range makes.FindAllStringSubmatch(step.Run, -1) {
					targets = append(targets, m[1])
				}
			}
		}
		for _, target := range targets {
			require.Contains(t, makefile, "\n"+target+":", name)
			n++
		}
	}
	require.Greater(t, n, 4)
}

// A part of ci is what comes behind make, as in .ci/run.
func TestCIRunsWhatAChangeMustPass(t *testing.T) {
	must := regexp.MustCompile(`(?m)^make (.*)$`).FindAllStringSubmatch(string(contents(t, "../../.ci/run")), -1)
	require.NotEmpty(t, must)
	var parts []string
	for _, m := range must {
		parts = append(parts, m[1])
	}
	require.ElementsMatch(t, parts, workflows(t)["ci"].parts())
}

func TestNightlyRunsAllPartsOfTestAll(t *testing.T) {
	all := regexp.MustCompile(`(?m)^all=\((.*)\)$`).FindSubmatch(contents(t, "../../scripts/test-all.sh"))
	require.NotNil(t, all)
	require.ElementsMatch(t, strings.Fields(string(all[1])), workflows(t)["nightly"].parts())
}

func TestActionsArePinned(t *testing.T) {
	for name, w := range workflows(t) {
		used := 0
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" {
					require.Regexp(t, `^actions/[a-z-]+@[0-9a-f]{40}$`, step.Uses, name)
					used++
				}
			}
		}
		require.NotZero(t, used, name)
	}
}

func TestDependabotUpdatesEachModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	require.NoError(t, yaml.Unmarshal(contents(t, "../../.github/dependabot.yml"), &config))
	var modules []string
	for _, m := range regexp.MustCompile(`(?m)^\t\.(\S*)$`).FindAllSubmatch(contents(t, "../../go.work"), -1) {
		modules = append(modules, "/"+strings.TrimPrefix(string(m[1]), "/"))
	}
	require.Contains(t, modules, "/zkprom")
	slices.Sort(modules)
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			require.Equal(t, modules, slices.Sorted(slices.Values(u.Directories)))
			return
		}
	}
	t.Error("no updates of Go modules")
}
