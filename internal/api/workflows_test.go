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

// parts returns what the jobs of a workflow give to make, one target each.
func (w workflow) parts() (targets []string) {
	for _, job := range w.Jobs {
		for _, part := range job.Strategy.Matrix.Part {
			targets = append(targets, strings.Fields(part)...)
		}
	}
	return targets
}

var makes = regexp.MustCompile(`(?m)^make ([a-z-]+)`)

func TestWorkflowsRunTargetsThatExist(t *testing.T) {
	makefile := string(contents(t, "../../Makefile"))
	n := 0
	for name, w := range workflows(t) {
		targets := w.parts()
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
	require.Greater(t, n, 15)
}

func TestCIRunsWhatAChangeMustPass(t *testing.T) {
	ran := workflows(t)["ci"].parts()
	must := makes.FindAllStringSubmatch(string(contents(t, "../../.ci/run")), -1)
	require.NotEmpty(t, must)
	for _, m := range must {
		require.Contains(t, ran, m[1])
	}
}

func TestNightlyRunsAllPartsOfTestAll(t *testing.T) {
	ran := workflows(t)["nightly"].parts()
	more := regexp.MustCompile(`(?m)^MORE := (.*)$`).FindSubmatch(contents(t, "../../Makefile"))
	require.NotNil(t, more)
	for _, part := range append(strings.Fields(string(more[1])), "test") {
		require.Contains(t, ran, part)
	}
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
