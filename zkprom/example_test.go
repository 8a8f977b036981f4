package zkprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A service exports the metrics of its Client.
func ExampleNew() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx, servers := context.Background(), []string{srv.Addr()}

	metrics := zkprom.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{Trace: metrics.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	await(func() bool { return strings.Contains(get(mux), "zkrecipes_lease_active{") })
	for line := range strings.Lines(get(mux)) {
		if strings.HasPrefix(line, "zkrecipes_lease_active") || strings.HasPrefix(line, "zkrecipes_session_status") {
			fmt.Print(line)
		}
	}
	// Output:
	// zkrecipes_lease_active{op="lock",recipe="mutex"} 1
	// zkrecipes_session_status{state="closed"} 0
	// zkrecipes_session_status{state="connected"} 1
	// zkrecipes_session_status{state="disconnected"} 0
	// zkrecipes_session_status{state="expired"} 0
}

// One process polls a queue, and paths are mapped to few labels.
func ExampleCollector_PollQueue() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())

	metrics := zkprom.New(zkprom.PathLabel(func(path string) string {
		if strings.HasPrefix(path, "/queues/") {
			return path
		}
		return "" // a lock for each order
	}))
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, &zkrecipes.Options{Trace: metrics.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	jobs := zkrecipes.NewQueue(client, "/queues/jobs", nil)
	if _, err := jobs.PutAll(ctx, []byte("print"), []byte("mail")); err != nil {
		log.Fatal(err)
	}
	polled := make(chan error, 1)
	go func() { polled <- metrics.PollQueue(ctx, jobs, time.Minute) }()

	await(func() bool { return testutil.CollectAndCount(metrics, "zkrecipes_queue_length") == 1 })
	fmt.Print(testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP zkrecipes_queue_length Items in the queue, those that are taken included.
# TYPE zkrecipes_queue_length gauge
zkrecipes_queue_length{path="/queues/jobs"} 2
`), "zkrecipes_queue_length"))
	cancel()
	fmt.Print(" ", <-polled)
	// Output: <nil> <nil>
}

// await waits for what the Trace tells a moment later.
func await(is func() bool) {
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			log.Fatal("nothing was exported")
		}
	}
}

// get returns what Prometheus would scrape.
func get(mux http.Handler) string {
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
