package zkprom_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zkprom/internal/grafana"
)

// exported returns the names that a scrape shows, of all samples and of all labels, when
// something of each metric has happened.
func exported(t *testing.T) (samples, labels map[string]bool) {
	samples, labels = map[string]bool{}, map[string]bool{}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for _, sample := range scrape(t, zkprom.PathLabel(func(path string) string { return path })) {
		name, rest, _ := strings.Cut(sample, "{")
		samples[strings.Fields(name)[0]] = true
		for _, l := range label.FindAllStringSubmatch(rest, -1) {
			labels[l[1]] = true
		}
	}
	labels["instance"] = true // Prometheus adds it
	return samples, labels
}

var (
	metricName = regexp.MustCompile(`zkrecipes_[a-z_]+`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// unknown returns the metrics and labels in a query that are not exported.
func unknown(query string, samples, labels map[string]bool) (names []string) {
	for _, name := range metricName.FindAllString(query, -1) {
		if !samples[name] {
			names = append(names, name)
		}
	}
	used := []string{}
	for _, m := range matcher.FindAllStringSubmatch(query, -1) {
		used = append(used, m[1])
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		used = append(used, strings.Split(g[1], ", ")...)
	}
	for _, label := range used {
		if !labels[label] {
			names = append(names, label)
		}
	}
	return names
}

func TestTheAlertRulesUseWhatIsExported(t *testing.T) {
	samples, labels := exported(t)
	data, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &rules))
	var alerts []string
	for _, rule := range rules.Groups[0].Rules {
		alerts = append(alerts, rule.Alert)
		require.Regexp(t, metricName, rule.Expr)
		require.Empty(t, unknown(rule.Expr, samples, labels), rule.Alert)
	}
	require.Equal(t, []string{
		"ZkrecipesHungHolder", "ZkrecipesWaitTooLong", "ZkrecipesSessionLost", "ZkrecipesDisconnected",
		"ZkrecipesDeadLetters", "ZkrecipesQueueOld", "ZkrecipesTraceDropped",
	}, alerts)
}

func TestTheDashboardUsesWhatIsExportedAndAllOfIt(t *testing.T) {
	samples, labels := exported(t)
	data, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	for _, name := range metricName.FindAllString(string(data), -1) { // in variables, too
		require.True(t, samples[name], name)
	}
	queries, err := grafana.Queries(data)
	require.NoError(t, err)
	used := map[string]bool{}
	for _, q := range queries {
		require.Regexp(t, metricName, string(q))
		require.Empty(t, unknown(string(q), samples, labels), q)
		for _, name := range metricName.FindAllString(string(q), -1) {
			used[family(name)] = true
		}
	}
	for name := range samples {
		require.True(t, used[family(name)], "%s is on no panel", name)
	}
}

// family returns the name of the metric of which name is a sample.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

func TestTheCheckOfNamesFindsWhatIsNotExported(t *testing.T) {
	samples, labels := map[string]bool{"zkrecipes_a": true, "zkrecipes_b_total": true}, map[string]bool{"op": true, "instance": true}
	for query, want := range map[string][]string{
		`zkrecipes_a{op="x"} > 1`:                                    nil,
		`sum by (instance, op) (rate(zkrecipes_b_total[5m]))`:        nil,
		`zkrecipes_b > 1`:                                            {"zkrecipes_b"},
		`zkrecipes_a{pod=~"x", op!="y"} or zkrecipes_c`:              {"zkrecipes_c", "pod"},
		`max by (op, zone) (zkrecipes_a{kind!~"z"} and zkrecipes_a)`: {"kind", "zone"},
	} {
		got := unknown(query, samples, labels)
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got, query)
	}
}
