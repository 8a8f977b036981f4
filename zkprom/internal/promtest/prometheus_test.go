// Package promtest tests the alert rules and the dashboard of zkprom with promtool, which
// scripts/setup-prometheus.sh installs. So `make test` leaves it out, and
// `make test-all PARTS=prometheus` runs it.
package promtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zkprom/internal/grafana"
)

const module = "../.." // where the rules and the dashboard are

func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = module
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v (scripts/setup-prometheus.sh installs it):\n%s", args, out)
}

func TestTheAlertRulesAreValid(t *testing.T) { promtool(t, "check", "rules", "alerts.yml") }

func TestTheAlertRulesFireAsTheirTestsSay(t *testing.T) {
	promtool(t, "test", "rules", "alerts_test.yml")
}

// Each query is checked as the expression of a rule.
func TestTheQueriesOfTheDashboardAreValid(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(module, "dashboard.json"))
	require.NoError(t, err)
	queries, err := grafana.Queries(data)
	require.NoError(t, err)
	require.NotEmpty(t, queries)
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for i, q := range queries {
		expr, err := json.Marshal(q.WithoutVariables()) // a string in JSON is one in YAML
		require.NoError(t, err)
		rules += fmt.Sprintf("      - record: dashboard:query:%d\n        expr: %s\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	promtool(t, "check", "rules", file)
}
