package zkotel_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkotel"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A service exports the metrics and spans of its Client, and logs lost holds itself. The reader
// and the exporter stand for those of OTLP.
func ExampleNew() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx, servers := context.Background(), []string{srv.Addr()}
	reader, exporter := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()

	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	exports, err := zkotel.New(zkotel.MeterProvider(meters), zkotel.TracerProvider(traces))
	if err != nil {
		log.Fatal(err)
	}
	defer exports.Close()
	released := make(chan error, 1)
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{
		Trace: zkrecipes.JoinTraces(exports.Trace(), &zkrecipes.Trace{
			HoldEnd: func(e zkrecipes.TraceHoldEnd) { released <- e.Err },
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, span := traces.Tracer("shop").Start(ctx, "ship") // the parent of the lock's span
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	err = orders.Do(ctx, func(context.Context, *zkrecipes.Lease) error { return nil })
	span.End()
	fmt.Println(err, <-released)

	for _, s := range exporter.GetSpans() {
		if s.Name != "ship" {
			fmt.Println("span:", s.Name, "in", s.Parent.SpanID() == span.SpanContext().SpanID())
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	var names []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(name)
	}
	// Output:
	// <nil> <nil>
	// span: mutex lock in true
	// zkrecipes.acquire.duration
	// zkrecipes.acquire.pending
	// zkrecipes.hold.duration
	// zkrecipes.hold.oldest
	// zkrecipes.lease.active
	// zkrecipes.session.expirations
	// zkrecipes.session.reconnects
	// zkrecipes.session.refusals
	// zkrecipes.session.status
	// zkrecipes.session.validity
	// zkrecipes.trace.dropped
	// zkrecipes.wait.oldest
}
