package zkprom_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/telemetry/telemetrytest"
	"github.com/zkrecipes/zkrecipes/zkprom"
)

// scrape returns the samples that a Prometheus server would read when something of each metric has
// happened.
func scrape(t *testing.T, opts ...zkprom.Option) (samples []string) {
	metrics := zkprom.New(opts...)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	telemetrytest.InBubble(t, func(t *testing.T, w telemetrytest.World) {
		w.Measure(metrics, func() {
			answer := httptest.NewRecorder()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			require.Equal(t, http.StatusOK, answer.Code)
			for line := range strings.Lines(answer.Body.String()) {
				if !strings.HasPrefix(line, "#") {
					samples = append(samples, strings.TrimSpace(line))
				}
			}
			problems, err := testutil.CollectAndLint(metrics)
			require.NoError(t, err)
			require.Empty(t, problems)
		})
	})
	return samples
}

// figures returns the samples without what the clock of the test decides, and of the buckets of a
// histogram only the one with the highest bound.
func figures(samples []string) (figures []string) {
	for i, s := range samples {
		isHighest := i+1 < len(samples) && strings.Contains(samples[i+1], `le="+Inf"`)
		isBucket := strings.Contains(s, "_bucket{")
		if isHighest || !isBucket && !strings.HasPrefix(s, "zkrecipes_session_validity_seconds ") {
			figures = append(figures, s)
		}
	}
	return figures
}

func TestTheMetricsAreExported(t *testing.T) {
	require.Equal(t, []string{
		`zkrecipes_acquire_duration_seconds_bucket{error_type="",op="lock",recipe="mutex",le="300"} 2`,
		`zkrecipes_acquire_duration_seconds_sum{error_type="",op="lock",recipe="mutex"} 0`,
		`zkrecipes_acquire_duration_seconds_count{error_type="",op="lock",recipe="mutex"} 2`,
		`zkrecipes_acquire_duration_seconds_bucket{error_type="",op="serve",recipe="queue",le="300"} 1`,
		`zkrecipes_acquire_duration_seconds_sum{error_type="",op="serve",recipe="queue"} 0`,
		`zkrecipes_acquire_duration_seconds_count{error_type="",op="serve",recipe="queue"} 1`,
		`zkrecipes_acquire_duration_seconds_bucket{error_type="locked",op="try lock",recipe="mutex",le="300"} 1`,
		`zkrecipes_acquire_duration_seconds_sum{error_type="locked",op="try lock",recipe="mutex"} 0`,
		`zkrecipes_acquire_duration_seconds_count{error_type="locked",op="try lock",recipe="mutex"} 1`,
		`zkrecipes_acquire_pending{op="lock",recipe="mutex"} 1`,
		`zkrecipes_acquire_pending{op="serve",recipe="queue"} 0`,
		`zkrecipes_acquire_pending{op="try lock",recipe="mutex"} 0`,
		`zkrecipes_hold_duration_seconds_bucket{error_type="",op="serve",recipe="queue",le="7200"} 1`,
		`zkrecipes_hold_duration_seconds_sum{error_type="",op="serve",recipe="queue"} 0`,
		`zkrecipes_hold_duration_seconds_count{error_type="",op="serve",recipe="queue"} 1`,
		`zkrecipes_hold_duration_seconds_bucket{error_type="lost",op="lock",recipe="mutex",le="7200"} 1`,
		`zkrecipes_hold_duration_seconds_sum{error_type="lost",op="lock",recipe="mutex"} 60`,
		`zkrecipes_hold_duration_seconds_count{error_type="lost",op="lock",recipe="mutex"} 1`,
		`zkrecipes_hold_oldest_seconds{op="lock",recipe="mutex"} 7201`,
		`zkrecipes_hold_oldest_seconds{op="serve",recipe="queue"} 0`,
		`zkrecipes_lease_active{op="lock",recipe="mutex"} 1`,
		`zkrecipes_lease_active{op="serve",recipe="queue"} 0`,
		`zkrecipes_queue_dead 1`,
		`zkrecipes_queue_length 2`,
		`zkrecipes_queue_oldest_seconds 7200`,
		`zkrecipes_session_expirations_total 1`,
		`zkrecipes_session_reconnects_total 1`,
		`zkrecipes_session_refusals_total 0`,
		`zkrecipes_session_status{state="closed"} 0`,
		`zkrecipes_session_status{state="connected"} 1`,
		`zkrecipes_session_status{state="disconnected"} 0`,
		`zkrecipes_session_status{state="expired"} 0`,
		`zkrecipes_trace_dropped_total 0`,
		`zkrecipes_wait_oldest_seconds{op="lock",recipe="mutex"} 3601`,
		`zkrecipes_wait_oldest_seconds{op="serve",recipe="queue"} 0`,
		`zkrecipes_wait_oldest_seconds{op="try lock",recipe="mutex"} 0`,
	}, figures(scrape(t)))
}

func TestAPathIsALabelOnlyIfItIsMapped(t *testing.T) {
	samples := scrape(t, zkprom.PathLabel(func(path string) string { return map[string]string{"/locks/orders": "orders"}[path] }))
	for _, want := range []string{
		`zkrecipes_acquire_duration_seconds_count{error_type="",op="lock",path="",recipe="mutex"} 1`,
		`zkrecipes_acquire_duration_seconds_count{error_type="",op="lock",path="orders",recipe="mutex"} 1`,
		`zkrecipes_lease_active{op="lock",path="",recipe="mutex"} 0`,
		`zkrecipes_lease_active{op="lock",path="orders",recipe="mutex"} 1`,
		`zkrecipes_queue_length{path=""} 2`,
	} {
		require.Contains(t, samples, want)
	}
}
