package zkotel_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/telemetry/telemetrytest"
	"github.com/zkrecipes/zkrecipes/zkotel"
)

// rig is a server in a bubble, and what an Instrumentation exports.
type rig struct {
	telemetrytest.World
	reader  *sdkmetric.ManualReader
	spans   *tracetest.SpanRecorder
	traces  *sdktrace.TracerProvider
	exports *zkotel.Instrumentation
}

func inBubble(t *testing.T, opts []zkotel.Option, f func(t *testing.T, r *rig)) {
	telemetrytest.InBubble(t, func(t *testing.T, w telemetrytest.World) {
		r := &rig{World: w, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		r.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
		var err error
		r.exports, err = zkotel.New(append(opts,
			zkotel.MeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))), zkotel.TracerProvider(r.traces))...)
		require.NoError(t, err)
		f(t, r)
		require.NoError(t, r.exports.Close())
	})
}

// metrics returns the exported values as text, sorted: name, unit, attributes and value.
func (r *rig) metrics(t *testing.T) (all []string) {
	t.Helper()
	synctest.Wait()
	var read metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &read))
	for _, scope := range read.ScopeMetrics {
		require.Equal(t, zkotel.Scope, scope.Scope.Name)
		for _, m := range scope.Metrics {
			require.NotEmpty(t, m.Description)
			add := func(attributes attribute.Set, value any) {
				all = append(all, fmt.Sprintf("%s (%s) {%s} %v", m.Name, m.Unit, attributes.Encoded(attribute.DefaultEncoder()), value))
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, fmt.Sprintf("%d in %gs up to %g", p.Count, p.Sum, p.Bounds[len(p.Bounds)-1]))
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestTheMetricsAreExported(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var all []string
		r.Measure(r.exports, func() { all = r.metrics(t) })
		i := slices.IndexFunc(all, func(m string) bool { return strings.HasPrefix(m, "zkrecipes.session.validity (s) {} ") })
		require.GreaterOrEqual(t, i, 0, "%v", all)
		all = slices.Delete(all, i, i+1) // between two heartbeats
		require.Equal(t, []string{
			"zkrecipes.acquire.duration (s) {error.type=locked,op=try lock,recipe=mutex} 1 in 0s up to 300",
			"zkrecipes.acquire.duration (s) {op=lock,recipe=mutex} 2 in 0s up to 300",
			"zkrecipes.acquire.duration (s) {op=serve,recipe=queue} 1 in 0s up to 300",
			"zkrecipes.acquire.pending ({request}) {op=lock,recipe=mutex} 1",
			"zkrecipes.acquire.pending ({request}) {op=serve,recipe=queue} 0",
			"zkrecipes.acquire.pending ({request}) {op=try lock,recipe=mutex} 0",
			"zkrecipes.hold.duration (s) {error.type=lost,op=lock,recipe=mutex} 1 in 60s up to 7200",
			"zkrecipes.hold.duration (s) {op=serve,recipe=queue} 1 in 0s up to 7200",
			"zkrecipes.hold.oldest (s) {op=lock,recipe=mutex} 7201",
			"zkrecipes.hold.oldest (s) {op=serve,recipe=queue} 0",
			"zkrecipes.lease.active ({lease}) {op=lock,recipe=mutex} 1",
			"zkrecipes.lease.active ({lease}) {op=serve,recipe=queue} 0",
			"zkrecipes.queue.dead ({item}) {} 1",
			"zkrecipes.queue.length ({item}) {} 2",
			"zkrecipes.queue.oldest (s) {} 7200",
			"zkrecipes.session.expirations ({session}) {} 1",
			"zkrecipes.session.reconnects ({reconnect}) {} 1",
			"zkrecipes.session.refusals ({attempt}) {} 0",
			"zkrecipes.session.status ({session}) {state=closed} 0",
			"zkrecipes.session.status ({session}) {state=connected} 1",
			"zkrecipes.session.status ({session}) {state=disconnected} 0",
			"zkrecipes.session.status ({session}) {state=expired} 0",
			"zkrecipes.trace.dropped ({call}) {} 0",
			"zkrecipes.wait.oldest (s) {op=lock,recipe=mutex} 3601",
			"zkrecipes.wait.oldest (s) {op=serve,recipe=queue} 0",
			"zkrecipes.wait.oldest (s) {op=try lock,recipe=mutex} 0",
		}, all)
	})
}

// The dashboard and the alert rules of zkprom are for these metrics, too: Prometheus names them
// in the same way when it gets them by OTLP or from OpenTelemetry's exporter.
func TestTheDashboardAndTheAlertsOfZkpromFitTheMetrics(t *testing.T) {
	names := map[string]bool{}
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var read metricdata.ResourceMetrics
		r.Measure(r.exports, func() { require.NoError(t, r.reader.Collect(t.Context(), &read)) })
		for _, m := range read.ScopeMetrics[0].Metrics {
			names[prometheusName(m)] = true
		}
	})
	used := map[string]bool{}
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		data, err := os.ReadFile(filepath.Join("..", "zkprom", file))
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`zkrecipes_[a-z_]+`).FindAllString(string(data), -1) {
			for _, sample := range []string{"_bucket", "_count"} {
				name = strings.TrimSuffix(name, sample)
			}
			used[name] = true
		}
	}
	require.Equal(t, used, names)
}

// prometheusName returns the name by the rules of OpenTelemetry's "Prometheus and OpenMetrics
// Compatibility".
func prometheusName(m metricdata.Metrics) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" { // one in braces is an annotation
		name += "_seconds"
	}
	if sum, ok := m.Data.(metricdata.Sum[int64]); ok && sum.IsMonotonic {
		name += "_total"
	}
	return name
}

func TestAPathIsAnAttributeOnlyIfItIsMapped(t *testing.T) {
	inBubble(t, []zkotel.Option{
		zkotel.PathAttribute(func(path string) string { return map[string]string{"/a": "a\xff"}[path] }),
		zkotel.Attributes(attribute.String("ensemble", "eu")),
	}, func(t *testing.T, r *rig) {
		c := r.Dial(r.exports.Trace())
		for _, path := range []string{"/a", "/b"} {
			_, err := zkrecipes.NewMutex(c, path).Lock(t.Context())
			require.NoError(t, err)
		}
		all := r.metrics(t)
		require.Contains(t, all, "zkrecipes.lease.active ({lease}) {ensemble=eu,op=lock,path=a\uFFFD,recipe=mutex} 1")
		require.Contains(t, all, "zkrecipes.lease.active ({lease}) {ensemble=eu,op=lock,recipe=mutex} 1")
		require.Contains(t, all, "zkrecipes.session.status ({session}) {ensemble=eu,state=connected} 1")
		spans := r.spans.Ended()
		require.Len(t, spans, 2)
		require.Contains(t, spans[0].Attributes(), attribute.String("path", "a\uFFFD"))
		for _, span := range spans {
			require.Contains(t, span.Attributes(), attribute.String("ensemble", "eu"))
		}
		require.NotContains(t, fmt.Sprint(spans[1].Attributes()), "path")
	})
}

func TestNothingIsExportedAfterClose(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.exports.Trace())
		require.NotEmpty(t, r.metrics(t))
		require.NoError(t, c.Close())
		require.NoError(t, r.exports.Close())
		require.Empty(t, r.metrics(t))
	})
}

// attributesOf returns the attributes of a span as text.
func attributesOf(span sdktrace.ReadOnlySpan) string {
	set := attribute.NewSet(span.Attributes()...)
	return set.Encoded(attribute.DefaultEncoder())
}

func TestASpanLastsFromTheCallToTheGrant(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		ctx, caller := r.traces.Tracer("caller").Start(t.Context(), "ship")
		var inHook trace.SpanContext
		c := r.Dial(zkrecipes.JoinTraces(r.exports.Trace(), &zkrecipes.Trace{
			HoldStart: func(ctx context.Context, _ zkrecipes.TraceHoldStart) { inHook = trace.SpanContextFromContext(ctx) },
		}))
		m := zkrecipes.NewMutex(c, "/lock")
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		synctest.Wait()
		first := r.spans.Ended()[0]
		require.Equal(t, first.SpanContext(), inHook)
		require.Equal(t, "mutex lock", first.Name())
		require.Equal(t, trace.SpanKindClient, first.SpanKind())
		require.Equal(t, caller.SpanContext().SpanID(), first.Parent().SpanID())
		place := l.Check().Path[len("/lock/"):]
		require.Equal(t, fmt.Sprintf("op=lock,recipe=mutex,zkrecipes.place=%s,zkrecipes.token=%d", place, l.Token()), attributesOf(first))
		require.Empty(t, first.Links())
		require.Empty(t, first.Events())

		began := time.Now()
		time.AfterFunc(time.Minute, func() { _ = l.Release() })
		next, err := m.Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		second := r.spans.Ended()[1]
		require.Equal(t, began, second.StartTime())
		require.Equal(t, began.Add(time.Minute), second.EndTime())
		require.Len(t, second.Events(), 1)
		require.Equal(t, "queued", second.Events()[0].Name)
		require.Contains(t, second.Events()[0].Attributes, attribute.Int("zkrecipes.ahead", 1))
		require.Equal(t, fmt.Sprintf("op=lock,recipe=mutex,zkrecipes.place=%s,zkrecipes.predecessor=%s,zkrecipes.token=%d",
			next.Check().Path[len("/lock/"):], place, next.Token()), attributesOf(second))
		require.Len(t, second.Links(), 1)
		require.Equal(t, first.SpanContext(), second.Links()[0].SpanContext)
		require.Equal(t, codes.Unset, second.Status().Code)
	})
}

// The holder before is another process: its place is an attribute, by which its span is found.
func TestASpanNamesAHolderOfAnotherProcess(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		other, c := r.Dial(nil), r.Dial(r.exports.Trace())
		l, err := zkrecipes.NewMutex(other, "/lock").Lock(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { _ = l.Release() })
		_, err = zkrecipes.NewMutex(c, "/lock").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		span := r.spans.Ended()[0]
		require.Contains(t, span.Attributes(), attribute.String("zkrecipes.predecessor", l.Check().Path[len("/lock/"):]))
		require.Empty(t, span.Links())
	})
}

func TestTheSpanOfAFailureHasItsType(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.exports.Trace())
		m := zkrecipes.NewMutex(c, "/lock")
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		_, err = m.Lock(l.Context(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		synctest.Wait()
		spans := r.spans.Ended()
		require.Len(t, spans, 3)
		require.Equal(t, "error.type=locked,op=try lock,recipe=mutex", attributesOf(spans[1]))
		require.Equal(t, codes.Unset, spans[1].Status().Code, "refused in the ordinary course of things")
		require.Equal(t, "error.type=deadlock,op=lock,recipe=mutex", attributesOf(spans[2]))
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: err.Error()}, spans[2].Status())
	})
}
