// Package zkprom exports Prometheus metrics of a zkrecipes.Client: how long acquisitions and
// holds take, those that have not ended, the session, and on request queues.
//
//	metrics := zkprom.New()
//	prometheus.MustRegister(metrics)
//	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{Trace: metrics.Trace()})
//
// docs/metrics.md lists the metrics. dashboard.json is a Grafana dashboard of them, and
// alerts.yml has alert rules.
package zkprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/telemetry"
)

// Collector is a prometheus.Collector with the metrics of one Client. It is safe for concurrent
// use, and sends nothing to the servers, except by PollQueue.
//
// For several Clients of a process, use a Collector for each, and register them with labels
// that tell them apart: prometheus.WrapRegistererWith.
type Collector struct {
	meter   *telemetry.Meter
	hasPath bool // the metrics have the label path

	acquired, held *prometheus.HistogramVec

	active, pending, oldestHold, oldestWait             *prometheus.Desc
	status, validity, reconnects, expirations, refusals *prometheus.Desc
	queueLength, queueOldest, queueDead, dropped        *prometheus.Desc
}

// Option configures a Collector.
type Option func(*Collector, *telemetry.Config)

// PathLabel adds the label path to the metrics of recipes and queues. Its value is what label
// returns for a path, as it was given to the recipe, without Options.Prefix. Each value is a time
// series of its own, for as long as the process runs: so map to few values, and return "" for
// others. label is called by the goroutines that use the recipes, and must be quick.
//
// Without PathLabel there is no such label, and all paths are counted together.
func PathLabel(label func(path string) string) Option {
	return func(c *Collector, cfg *telemetry.Config) {
		c.hasPath = label != nil
		cfg.Path = label
	}
}

// New returns a Collector. Its metrics have values as soon as a Client uses its Trace.
func New(opts ...Option) *Collector {
	c := &Collector{}
	cfg := telemetry.Config{
		Acquired: func(_ context.Context, s telemetry.Series, wait time.Duration, err error) {
			c.observe(c.acquired, s, wait, err)
		},
		Held: func(s telemetry.Series, held time.Duration, err error) { c.observe(c.held, s, held, err) },
	}
	for _, opt := range opts {
		opt(c, &cfg)
	}
	recipe, queue := []string{"recipe", "op"}, []string(nil)
	if c.hasPath {
		recipe, queue = append(recipe, "path"), append(queue, "path")
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("zkrecipes_"+name, help, labels, nil)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "zkrecipes_" + name, Help: help, Buckets: buckets,
		}, append(recipe[:len(recipe):len(recipe)], "error_type"))
	}
	c.acquired = histogram("acquire_duration_seconds",
		"How long acquisitions took until they succeeded or failed.", telemetry.AcquireBuckets())
	c.held = histogram("hold_duration_seconds",
		"How long holds lasted until they were released or lost.", telemetry.HoldBuckets())
	c.active = desc("lease_active", "Holds that have not ended.", recipe...)
	c.pending = desc("acquire_pending", "Acquisitions that have not ended.", recipe...)
	c.oldestHold = desc("hold_oldest_seconds", "Age of the oldest hold that has not ended, 0 if there is none.", recipe...)
	c.oldestWait = desc("wait_oldest_seconds", "Age of the oldest acquisition that has not ended, 0 if there is none.", recipe...)
	c.status = desc("session_status", "1 for the state of the session, 0 for the other states.", "state")
	c.validity = desc("session_validity_seconds", "How long the session is known to live on if the servers send nothing more.")
	c.reconnects = desc("session_reconnects_total", "How often the client was connected again within a session.")
	c.expirations = desc("session_expirations_total", "How many sessions have expired.")
	c.refusals = desc("session_refusals_total", "How often a server has refused the client's credentials, or has required SASL.")
	c.queueLength = desc("queue_length", "Items in the queue, those that are taken included.", queue...)
	c.queueOldest = desc("queue_oldest_seconds", "Age of the oldest item in the queue, 0 if there is none.", queue...)
	c.queueDead = desc("queue_dead", "Dead letters of the queue.", queue...)
	c.dropped = desc("trace_dropped_total", "Calls of the trace that were dropped; the metrics are wrong by as much.")
	c.meter = telemetry.New(cfg)
	return c
}

// Trace returns the functions that feed the Collector. Give them to one Client, as
// Options.Trace. zkrecipes.JoinTraces joins them with others.
func (c *Collector) Trace() *zkrecipes.Trace { return c.meter.Trace() }

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
func (c *Collector) PollQueue(ctx context.Context, q *zkrecipes.Queue, interval time.Duration) error {
	return c.meter.PollQueue(ctx, q, interval)
}

// labels returns the values of the labels of recipes' metrics.
func (c *Collector) labels(s telemetry.Series) []string {
	if c.hasPath {
		return []string{s.Recipe, s.Op, s.Path}
	}
	return []string{s.Recipe, s.Op}
}

func (c *Collector) observe(h *prometheus.HistogramVec, s telemetry.Series, d time.Duration, err error) {
	h.WithLabelValues(append(c.labels(s), telemetry.ErrorType(err))...).Observe(d.Seconds())
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	c.acquired.Describe(to)
	c.held.Describe(to)
	for _, d := range []*prometheus.Desc{
		c.active, c.pending, c.oldestHold, c.oldestWait, c.status, c.validity, c.reconnects, c.expirations, c.refusals,
		c.queueLength, c.queueOldest, c.queueDead, c.dropped,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.acquired.Collect(to)
	c.held.Collect(to)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	f := c.meter.Figures()
	for _, o := range f.Holds {
		gauge(c.active, float64(o.Count), c.labels(o.Series)...)
		gauge(c.oldestHold, o.Oldest.Seconds(), c.labels(o.Series)...)
	}
	for _, o := range f.Waits {
		gauge(c.pending, float64(o.Count), c.labels(o.Series)...)
		gauge(c.oldestWait, o.Oldest.Seconds(), c.labels(o.Series)...)
	}
	for _, q := range f.Queues {
		var labels []string
		if c.hasPath {
			labels = []string{q.Path}
		}
		gauge(c.queueLength, float64(q.Len), labels...)
		gauge(c.queueOldest, q.Oldest.Seconds(), labels...)
		gauge(c.queueDead, float64(q.Dead), labels...)
	}
	if f.Session.State != 0 {
		for _, s := range telemetry.States() {
			is := 0.0
			if s == f.Session.State {
				is = 1
			}
			gauge(c.status, is, s.String())
		}
		gauge(c.validity, f.Session.Validity.Seconds())
	}
	counter(c.reconnects, f.Session.Reconnects)
	counter(c.expirations, f.Session.Expirations)
	counter(c.refusals, f.Session.Refusals)
	counter(c.dropped, f.Dropped)
}
