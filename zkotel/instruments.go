package zkotel

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zkrecipes/zkrecipes/internal/telemetry"
)

// instruments are those of one Client.
type instruments struct {
	common []attribute.KeyValue

	acquireDuration, holdDuration metric.Float64Histogram

	active, pending                            metric.Int64ObservableUpDownCounter
	oldestHold, oldestWait, validity           metric.Float64ObservableGauge
	status                                     metric.Int64ObservableUpDownCounter
	reconnects, expirations, refusals, dropped metric.Int64ObservableCounter
	queueLength, queueDead                     metric.Int64ObservableUpDownCounter
	queueOldest                                metric.Float64ObservableGauge
}

// create creates the instruments.
func (in *instruments) create(m metric.Meter) error {
	var all error
	histogram := func(to *metric.Float64Histogram, name, what string, buckets []float64) {
		var err error
		*to, err = m.Float64Histogram("zkrecipes."+name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(buckets...))
		all = errors.Join(all, err)
	}
	number := func(to *metric.Int64ObservableUpDownCounter, name, unit, what string) {
		var err error
		*to, err = m.Int64ObservableUpDownCounter("zkrecipes."+name, metric.WithUnit(unit), metric.WithDescription(what))
		all = errors.Join(all, err)
	}
	count := func(to *metric.Int64ObservableCounter, name, unit, what string) {
		var err error
		*to, err = m.Int64ObservableCounter("zkrecipes."+name, metric.WithUnit(unit), metric.WithDescription(what))
		all = errors.Join(all, err)
	}
	seconds := func(to *metric.Float64ObservableGauge, name, what string) {
		var err error
		*to, err = m.Float64ObservableGauge("zkrecipes."+name, metric.WithUnit("s"), metric.WithDescription(what))
		all = errors.Join(all, err)
	}
	histogram(&in.acquireDuration, "acquire.duration", "How long acquisitions took until they succeeded or failed.", telemetry.AcquireBuckets())
	histogram(&in.holdDuration, "hold.duration", "How long holds lasted until they were released or lost.", telemetry.HoldBuckets())
	number(&in.active, "lease.active", "{lease}", "Holds that have not ended.")
	number(&in.pending, "acquire.pending", "{request}", "Acquisitions that have not ended.")
	seconds(&in.oldestHold, "hold.oldest", "Age of the oldest hold that has not ended, 0 if there is none.")
	seconds(&in.oldestWait, "wait.oldest", "Age of the oldest acquisition that has not ended, 0 if there is none.")
	number(&in.status, "session.status", "{session}", "1 for the state of the session, 0 for the other states.")
	seconds(&in.validity, "session.validity", "How long the session is known to live on if the servers send nothing more.")
	count(&in.reconnects, "session.reconnects", "{reconnect}", "How often the client was connected again within a session.")
	count(&in.expirations, "session.expirations", "{session}", "How many sessions have expired.")
	count(&in.refusals, "session.refusals", "{attempt}", "How often a server has refused the client's credentials, or has required SASL.")
	number(&in.queueLength, "queue.length", "{item}", "Items in the queue, those that are taken included.")
	seconds(&in.queueOldest, "queue.oldest", "Age of the oldest item in the queue, 0 if there is none.")
	number(&in.queueDead, "queue.dead", "{item}", "Dead letters of the queue.")
	count(&in.dropped, "trace.dropped", "{call}", "Calls of the trace that were dropped; the metrics are wrong by as much.")
	return all
}

// all returns those that have a value at any time.
func (in *instruments) all() []metric.Observable {
	return []metric.Observable{
		in.active, in.pending, in.oldestHold, in.oldestWait, in.status, in.validity, in.reconnects, in.expirations, in.refusals,
		in.queueLength, in.queueOldest, in.queueDead, in.dropped,
	}
}

// with returns the common attributes and these.
func (in *instruments) with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(in.common, attributes)...))
}

// of returns the attributes of a series.
func of(s telemetry.Series) []attribute.KeyValue {
	return append(pathAttribute(s.Path), attribute.String("recipe", s.Recipe), attribute.String("op", s.Op))
}

// pathAttribute returns the attribute of what is shown of a path, none if that is empty.
func pathAttribute(path string) []attribute.KeyValue {
	if path == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("path", path)}
}

// failed returns the attributes of a series, and of its failure.
func failed(s telemetry.Series, err error) []attribute.KeyValue {
	if err == nil {
		return of(s)
	}
	return append(of(s), attribute.String("error.type", telemetry.ErrorType(err)))
}

func (in *instruments) acquired(ctx context.Context, s telemetry.Series, wait time.Duration, err error) {
	in.acquireDuration.Record(ctx, wait.Seconds(), in.with(failed(s, err)...))
}

func (in *instruments) held(s telemetry.Series, held time.Duration, err error) {
	in.holdDuration.Record(context.Background(), held.Seconds(), in.with(failed(s, err)...))
}

// observe reports what has a value at any time.
func (in *instruments) observe(o metric.Observer, f telemetry.Figures) {
	for _, h := range f.Holds {
		with := in.with(of(h.Series)...)
		o.ObserveInt64(in.active, int64(h.Count), with)
		o.ObserveFloat64(in.oldestHold, h.Oldest.Seconds(), with)
	}
	for _, w := range f.Waits {
		with := in.with(of(w.Series)...)
		o.ObserveInt64(in.pending, int64(w.Count), with)
		o.ObserveFloat64(in.oldestWait, w.Oldest.Seconds(), with)
	}
	for _, q := range f.Queues {
		with := in.with(pathAttribute(q.Path)...)
		o.ObserveInt64(in.queueLength, int64(q.Len), with)
		o.ObserveFloat64(in.queueOldest, q.Oldest.Seconds(), with)
		o.ObserveInt64(in.queueDead, int64(q.Dead), with)
	}
	if f.Session.State != 0 {
		for _, s := range telemetry.States() {
			is := int64(0)
			if s == f.Session.State {
				is = 1
			}
			o.ObserveInt64(in.status, is, in.with(attribute.String("state", s.String())))
		}
		o.ObserveFloat64(in.validity, f.Session.Validity.Seconds(), in.with())
	}
	o.ObserveInt64(in.reconnects, int64(f.Session.Reconnects), in.with())
	o.ObserveInt64(in.expirations, int64(f.Session.Expirations), in.with())
	o.ObserveInt64(in.refusals, int64(f.Session.Refusals), in.with())
	o.ObserveInt64(in.dropped, int64(f.Dropped), in.with())
}
