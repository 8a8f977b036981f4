package zkotel

import (
	"context"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/telemetry"
)

// maxRemembered is how many holders a tracer remembers at most, in order to link their
// successors to them.
const maxRemembered = 1000

// spans makes a span of each acquisition, from the call to the grant or the failure.
type spans struct {
	tracer trace.Tracer
	path   func(string) string // what spans show of a path
	common []attribute.KeyValue

	mu      sync.Mutex
	holders map[string]trace.SpanContext // the acquisitions of those that hold or have held, by their place
	order   []string                     // the places, the oldest first
}

func newSpans(tracer trace.Tracer, path func(string) string, common []attribute.KeyValue) *spans {
	return &spans{tracer: tracer, path: path, common: common, holders: map[string]trace.SpanContext{}}
}

func (s *spans) trace() *zkrecipes.Trace {
	return &zkrecipes.Trace{AcquireStart: s.start, Queued: s.queued, AcquireEnd: s.end}
}

// spanKey is the key, in a context, of the span of an acquisition. The span that the context
// itself has may be the caller's, or one that another Trace has begun.
type spanKey struct{ s *spans }

func (s *spans) start(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
	attributes := slices.Concat(s.common, []attribute.KeyValue{
		attribute.String("recipe", string(e.Recipe)), attribute.String("op", e.Op),
	})
	attributes = append(attributes, pathAttribute(s.path(e.Path))...)
	ctx, span := s.tracer.Start(ctx, string(e.Recipe)+" "+e.Op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return context.WithValue(ctx, spanKey{s}, span)
}

// in returns the span of the acquisition whose context ctx is, nil if another function of a
// Trace has lost it.
func (s *spans) in(ctx context.Context) trace.Span {
	span, _ := ctx.Value(spanKey{s}).(trace.Span)
	return span
}

func (s *spans) queued(ctx context.Context, e zkrecipes.TraceQueued) {
	if span := s.in(ctx); span != nil {
		span.AddEvent("queued", trace.WithTimestamp(e.Time), trace.WithAttributes(
			attribute.String("zkrecipes.place", e.Place), attribute.Int("zkrecipes.ahead", e.Ahead)))
	}
}

func (s *spans) end(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
	span := s.in(ctx)
	if span == nil {
		return
	}
	if e.Err != nil {
		span.SetAttributes(attribute.String("error.type", telemetry.ErrorType(e.Err)))
		if !telemetry.IsOrderly(e.Err) {
			span.SetStatus(codes.Error, valid(e.Err.Error()))
		}
	}
	if e.Token != 0 {
		span.SetAttributes(attribute.String("zkrecipes.place", e.Place), attribute.Int64("zkrecipes.token", int64(e.Token)))
		switch e.Recipe {
		case zkrecipes.RecipeMutex, zkrecipes.RecipeRWLock, zkrecipes.RecipeElection: // others have no predecessor
			s.link(span, e)
		}
	}
	span.End(trace.WithTimestamp(e.Time))
}

// link links the span of a holder to that of the holder before, if that was granted by way of the
// same Trace. In any case its place is an attribute, by which the other span can be found.
func (s *spans) link(span trace.Span, e zkrecipes.TraceAcquireEnd) {
	s.mu.Lock()
	before, ok := s.holders[e.Predecessor]
	s.remember(e.Place, span.SpanContext())
	s.mu.Unlock()
	if e.Predecessor != "" {
		span.SetAttributes(attribute.String("zkrecipes.predecessor", valid(e.Predecessor)))
	}
	if ok {
		span.AddLink(trace.Link{SpanContext: before, Attributes: []attribute.KeyValue{attribute.String("zkrecipes.place", e.Predecessor)}})
	}
}

// valid returns a text that others may have written, as valid UTF-8: exporters refuse whole
// batches otherwise.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// remember notes whose span a place has. s.mu must be held.
func (s *spans) remember(place string, span trace.SpanContext) {
	if _, ok := s.holders[place]; !ok {
		s.order = append(s.order, place)
	}
	s.holders[place] = span
	if len(s.order) > maxRemembered {
		delete(s.holders, s.order[0])
		s.order = s.order[1:]
	}
}
