package zkprom_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// scenario uses a Client in a bubble until something of each metric has happened, and then calls
// check, while a lock is held for two hours and another call has waited for it for one.
func scenario(t *testing.T, metrics *zkprom.Collector, check func(t *testing.T, c *zkrecipes.Client)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Dialer: srv.DialContext, Trace: metrics.Trace()})
		require.NoError(t, err)
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())

		lost, err := zkrecipes.NewMutex(client, "/locks/lost").Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		srv.Expire(client.Status().Session)
		<-lost.Context(ctx).Done()
		time.Sleep(time.Minute) // for the next session
		require.True(t, srv.Disconnect(client.Status().Session))
		time.Sleep(time.Minute)

		jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1})
		_, err = jobs.PutAll(ctx, []byte("fails"), []byte("waits"), []byte("waits"))
		require.NoError(t, err)
		failing, end := context.WithCancel(ctx)
		require.NoError(t, jobs.Serve(failing, func(context.Context, *zkrecipes.Item) error {
			end()
			return errors.New("no paper")
		}))
		polled := make(chan error, 1)
		go func() { polled <- metrics.PollQueue(ctx, jobs, 30*time.Minute) }()

		orders := zkrecipes.NewMutex(client, "/locks/orders")
		hung, err := orders.Lock(ctx)
		require.NoError(t, err)
		_, err = orders.TryLock(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		time.Sleep(time.Hour)
		waits := make(chan error, 1)
		go func() {
			_, err := orders.Lock(ctx)
			waits <- err
		}()
		time.Sleep(time.Hour + time.Millisecond) // the poll is over
		check(t, client)
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
		require.NoError(t, <-polled)
		require.NoError(t, hung.Release())
	})
}

const gauges = `
# HELP zkrecipes_acquire_pending Acquisitions that have not ended.
# TYPE zkrecipes_acquire_pending gauge
zkrecipes_acquire_pending{op="lock",recipe="mutex"} 1
zkrecipes_acquire_pending{op="serve",recipe="queue"} 0
zkrecipes_acquire_pending{op="try lock",recipe="mutex"} 0
# HELP zkrecipes_hold_oldest_seconds Age of the oldest hold that has not ended, 0 if there is none.
# TYPE zkrecipes_hold_oldest_seconds gauge
zkrecipes_hold_oldest_seconds{op="lock",recipe="mutex"} 7200.001
zkrecipes_hold_oldest_seconds{op="serve",recipe="queue"} 0
# HELP zkrecipes_lease_active Holds that have not ended.
# TYPE zkrecipes_lease_active gauge
zkrecipes_lease_active{op="lock",recipe="mutex"} 1
zkrecipes_lease_active{op="serve",recipe="queue"} 0
# HELP zkrecipes_queue_dead Dead letters of the queue.
# TYPE zkrecipes_queue_dead gauge
zkrecipes_queue_dead 1
# HELP zkrecipes_queue_length Items in the queue, those that are taken included.
# TYPE zkrecipes_queue_length gauge
zkrecipes_queue_length 2
# HELP zkrecipes_queue_oldest_seconds Age of the oldest item in the queue, 0 if there is none.
# TYPE zkrecipes_queue_oldest_seconds gauge
zkrecipes_queue_oldest_seconds 7200
# HELP zkrecipes_session_expirations_total How many sessions have expired.
# TYPE zkrecipes_session_expirations_total counter
zkrecipes_session_expirations_total 1
# HELP zkrecipes_session_reconnects_total How often the client was connected again within a session.
# TYPE zkrecipes_session_reconnects_total counter
zkrecipes_session_reconnects_total 1
# HELP zkrecipes_session_refusals_total How often a server has refused the client's credentials, or has required SASL.
# TYPE zkrecipes_session_refusals_total counter
zkrecipes_session_refusals_total 0
# HELP zkrecipes_session_status 1 for the state of the session, 0 for the other states.
# TYPE zkrecipes_session_status gauge
zkrecipes_session_status{state="closed"} 0
zkrecipes_session_status{state="connected"} 1
zkrecipes_session_status{state="disconnected"} 0
zkrecipes_session_status{state="expired"} 0
# HELP zkrecipes_trace_dropped_total Calls of the trace that were dropped; the metrics are wrong by as much.
# TYPE zkrecipes_trace_dropped_total counter
zkrecipes_trace_dropped_total 0
# HELP zkrecipes_wait_oldest_seconds Age of the oldest acquisition that has not ended, 0 if there is none.
# TYPE zkrecipes_wait_oldest_seconds gauge
zkrecipes_wait_oldest_seconds{op="lock",recipe="mutex"} 3600.001
zkrecipes_wait_oldest_seconds{op="serve",recipe="queue"} 0
zkrecipes_wait_oldest_seconds{op="try lock",recipe="mutex"} 0
`

func TestTheCollectorExportsWhatHasNotEndedTheSessionAndTheQueue(t *testing.T) {
	metrics := zkprom.New()
	scenario(t, metrics, func(t *testing.T, c *zkrecipes.Client) {
		var names []string
		for line := range strings.Lines(gauges) {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				names = append(names, strings.Fields(name)[0])
			}
		}
		require.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(gauges), names...))
		problems, err := testutil.CollectAndLint(metrics)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

// A family has the samples of a histogram with these labels, without the bounds.
func histogram(t *testing.T, metrics *zkprom.Collector, name string) (counts map[string]uint64, bounds []float64) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(t, err)
	counts = map[string]uint64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			counts[strings.Join(labels, " ")] = m.GetHistogram().GetSampleCount()
			bounds = nil
			for _, b := range m.GetHistogram().GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
		}
	}
	return counts, bounds
}

func TestDurationsAreHistogramsWithTheTypeOfTheError(t *testing.T) {
	metrics := zkprom.New(zkprom.PathLabel(func(path string) string {
		return map[string]string{"/locks/orders": "orders"}[path]
	}))
	scenario(t, metrics, func(t *testing.T, c *zkrecipes.Client) {
		counts, bounds := histogram(t, metrics, "zkrecipes_acquire_duration_seconds")
		require.Equal(t, map[string]uint64{
			"error_type= op=lock path= recipe=mutex":                 1,
			"error_type= op=lock path=orders recipe=mutex":           1,
			"error_type=locked op=try lock path=orders recipe=mutex": 1,
			"error_type= op=serve path= recipe=queue":                1,
		}, counts)
		require.Equal(t, 300.0, bounds[len(bounds)-1])
		counts, bounds = histogram(t, metrics, "zkrecipes_hold_duration_seconds")
		require.Equal(t, map[string]uint64{
			"error_type=lost op=lock path= recipe=mutex": 1,
			"error_type= op=serve path= recipe=queue":    1,
		}, counts)
		require.Equal(t, 7200.0, bounds[len(bounds)-1])
		require.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP zkrecipes_lease_active Holds that have not ended.
# TYPE zkrecipes_lease_active gauge
zkrecipes_lease_active{op="lock",path="",recipe="mutex"} 0
zkrecipes_lease_active{op="lock",path="orders",recipe="mutex"} 1
zkrecipes_lease_active{op="serve",path="",recipe="queue"} 0
`), "zkrecipes_lease_active"))
	})
}

// Each Client has a Collector of its own, and a label that tells it from the others.
func TestCollectorsOfSeveralClientsAreRegisteredWithALabel(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, ensemble := range []string{"a", "b"} {
		metrics := zkprom.New()
		prometheus.WrapRegistererWith(prometheus.Labels{"ensemble": ensemble}, registry).MustRegister(metrics)
		srv := zktest.NewServer(t)
		client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Trace: metrics.Trace()})
		require.NoError(t, err)
		defer client.Close()
		_, err = zkrecipes.NewMutex(client, "/lock").Lock(t.Context())
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		n, err := testutil.GatherAndCount(registry, "zkrecipes_lease_active")
		require.NoError(t, err)
		return n == 2
	}, time.Minute, time.Millisecond)
}

// scrape returns what a Prometheus server would read.
func scrape(t testing.TB, metrics *zkprom.Collector) string {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}
