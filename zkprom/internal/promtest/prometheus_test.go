// Package promtest tests the alert rules and the dashboard of zkprom with Prometheus itself. It
// needs the programs promtool and prometheus, which scripts/setup-prometheus.sh installs. So
// `make test` leaves it out, and `make test-all PARTS=prometheus` runs it.
package promtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zkprom/internal/grafana"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	module   = "../.." // where the rules and the dashboard are
	patience = 2 * time.Minute
	tick     = 100 * time.Millisecond
)

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

// A real Prometheus scrapes a process, one of whose holders hangs. The rule is that of
// alerts.yml, with seconds in place of minutes.
func TestAHolderThatHangsRaisesAnAlertUntilItReleases(t *testing.T) {
	srv := zktest.NewServer(t)
	metrics := zkprom.New()
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Trace: metrics.Trace()})
	require.NoError(t, err)
	defer client.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	process := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer process.Close()

	api := startPrometheus(t, process.Listener.Addr().String(), shortened(t))
	_, err = zkrecipes.NewElection(client, "/leader").Campaign(t.Context(), nil)
	require.NoError(t, err)
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	lease, err := orders.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	require.Eventually(t, func() bool {
		return api.has(`zkrecipes_hold_oldest_seconds{recipe="election"} > 10 and on() zkrecipes_hold_oldest_seconds{recipe="mutex"} == 0`)
	}, patience, tick, "the process was not scraped:\n%s", api.log())
	require.Empty(t, api.firing(t), "a leader does not hang")

	lease, err = orders.Lock(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(api.firing(t)) > 0 }, patience, tick, "no alert:\n%s", api.log())
	alerts := api.firing(t)
	require.Len(t, alerts, 1)
	require.Equal(t, "ZkrecipesHungHolder", alerts[0].Labels["alertname"])
	require.Equal(t, "mutex", alerts[0].Labels["recipe"])
	require.Contains(t, alerts[0].Annotations["summary"], process.Listener.Addr().String()+" holds a mutex for ")

	require.NoError(t, lease.Release())
	require.Eventually(t, func() bool { return len(api.firing(t)) == 0 }, patience, tick)
}

// shortened returns the file of the alert rules, in which a holder hangs after two seconds.
func shortened(t *testing.T) string {
	rules, err := os.ReadFile(filepath.Join(module, "alerts.yml"))
	require.NoError(t, err)
	const minutes = `expr: zkrecipes_hold_oldest_seconds{recipe!="election",op!="shard"} > 600` + "\n        for: 1m\n"
	require.Equal(t, 1, strings.Count(string(rules), minutes))
	seconds := strings.NewReplacer("> 600", "> 2", "for: 1m", "for: 1s").Replace(minutes)
	file := filepath.Join(t.TempDir(), "alerts.yml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(rules), minutes, seconds, 1)), 0o600))
	return file
}

// server is a Prometheus that runs.
type server struct {
	addr, logFile string
}

// startPrometheus starts a Prometheus that scrapes the target, and waits until it answers. It
// ends with the test, and with the test's process if that is killed.
func startPrometheus(t *testing.T, target, rules string) *server {
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: service
    static_configs: [{targets: [%q]}]
`, rules, target), 0o600))
	s := &server{addr: freeAddr(t), logFile: filepath.Join(dir, "log")}
	log, err := os.Create(s.logFile)
	require.NoError(t, err)
	defer log.Close()

	// The shell waits until its input ends, as it does with this process.
	cmd := exec.Command("sh", "-c", `"$@" </dev/null & child=$!; cat >/dev/null; kill -9 $child; wait $child`, "sh",
		"prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.addr)
	cmd.Stdout, cmd.Stderr = log, log
	alive, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		alive.Close()
		_ = cmd.Wait() // the shell returns the child's status
	})
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + s.addr + "/-/ready")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, patience, tick, "prometheus does not start (scripts/setup-prometheus.sh installs it)")
	return s
}

// freeAddr returns an address on which nothing listens, from below the ports of outgoing
// connections.
func freeAddr(t *testing.T) string {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000)))
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func (s *server) log() string {
	text, _ := os.ReadFile(s.logFile)
	return string(text)
}

// get decodes what the HTTP API answers.
func (s *server) get(path string, to any) error {
	answer, err := http.Get("http://" + s.addr + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, to)
}

// has reports whether the query has a result.
func (s *server) has(query string) bool {
	var answer struct {
		Data struct{ Result []any }
	}
	err := s.get("/api/v1/query?query="+url.QueryEscape(query), &answer)
	return err == nil && len(answer.Data.Result) > 0
}

type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// firing returns the alerts that fire now.
func (s *server) firing(t *testing.T) (all []alert) {
	var answer struct {
		Data struct{ Alerts []alert }
	}
	if err := s.get("/api/v1/alerts", &answer); err != nil {
		t.Error(err)
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all = append(all, a)
		}
	}
	return all
}
