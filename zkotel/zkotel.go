// Package zkotel exports OpenTelemetry metrics and spans of a zkrecipes.Client: how long
// acquisitions and holds take, those that have not ended, the session, and on request queues.
//
//	telemetry, err := zkotel.New(zkotel.MeterProvider(meters), zkotel.TracerProvider(traces))
//	..
//	defer telemetry.Close()
//	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{Trace: telemetry.Trace()})
//
// docs/metrics.md lists the metrics and what a span has.
package zkotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/telemetry"
)

// Scope is the name of the instrumentation scope of all metrics and spans.
const Scope = "github.com/zkrecipes/zkrecipes/zkotel"

// Instrumentation exports the metrics and spans of one Client. It is safe for concurrent use,
// and sends nothing to the servers, except by PollQueue.
type Instrumentation struct {
	meter    *telemetry.Meter
	spans    *spans
	observed metric.Registration
}

type config struct {
	meters metric.MeterProvider
	traces trace.TracerProvider
	path   func(string) string
	common []attribute.KeyValue
}

// Option configures an Instrumentation.
type Option func(*config)

// MeterProvider sets the provider of the instruments. The default is OpenTelemetry's global
// one. For no metrics, use that of package metric/noop.
func MeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// TracerProvider sets the provider of the tracer. The default is OpenTelemetry's global one.
// For no spans, use that of package trace/noop.
func TracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.traces = p } }

// PathAttribute adds the attribute path to the metrics of recipes and queues, and to spans. Its
// value is what value returns for a path, as it was given to the recipe, without
// Options.Prefix. Each value is a time series of its own, for as long as the process runs: so
// map to few values, and return "" for no attribute. value is called by the goroutines that
// use the recipes, and must be quick.
//
// Without PathAttribute there is no such attribute, and all paths are counted together.
func PathAttribute(value func(path string) string) Option { return func(c *config) { c.path = value } }

// Attributes adds attributes to all metrics and spans, which tell the Clients of a process
// apart, for example.
func Attributes(attributes ...attribute.KeyValue) Option {
	return func(c *config) { c.common = append(c.common, attributes...) }
}

// New returns an Instrumentation, or the error of a provider that refuses an instrument. Close
// must be called once it is not needed any more.
func New(opts ...Option) (*Instrumentation, error) {
	c := &config{meters: otel.GetMeterProvider(), traces: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(c)
	}
	in := &instruments{common: c.common}
	meter := c.meters.Meter(Scope)
	if err := in.create(meter); err != nil {
		return nil, err
	}
	cfg := telemetry.Config{Path: c.path, Acquired: in.acquired, Held: in.held}
	i := &Instrumentation{meter: telemetry.New(cfg), spans: newSpans(c.traces.Tracer(Scope), cfg.Show, c.common)}
	var err error
	i.observed, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		in.observe(o, i.meter.Figures())
		return nil
	}, in.all()...)
	return i, err
}

// Trace returns the functions that feed the Instrumentation. Give them to one Client, as
// Options.Trace. zkrecipes.JoinTraces joins them with others: those that come later find the
// span of the acquisition in the context.
func (i *Instrumentation) Trace() *zkrecipes.Trace {
	return zkrecipes.JoinTraces(i.spans.trace(), i.meter.Trace())
}

// PollQueue reads the length of a queue, the age of its oldest item and the number of its dead
// letters, at once and then at each interval, and exports them. It blocks until ctx ends, and
// then returns nil. So call it in a goroutine, in one process, once for each queue.
//
// If a poll gets no answer within the interval, as while the client is disconnected, the
// metrics of the queue are not exported until a later one does. ErrClosed is returned if the
// Client was closed, and the servers' error if they refuse to answer. The metrics are not
// exported any more once PollQueue has returned.
//
// A poll costs what Len of the queue and of its dead letters cost, and up to four requests more.
func (i *Instrumentation) PollQueue(ctx context.Context, q *zkrecipes.Queue, interval time.Duration) error {
	return i.meter.PollQueue(ctx, q, interval)
}

// Close ends the export of the metrics that have a value at any time, such as
// zkrecipes.session.status. Call it after Client.Close. It does not flush the providers.
func (i *Instrumentation) Close() error { return i.observed.Unregister() }
