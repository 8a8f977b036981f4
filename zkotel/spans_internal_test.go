package zkotel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

func TestTheHoldersThatAreRememberedAreBounded(t *testing.T) {
	s := newSpans(noop.Tracer{}, nil, nil)
	for i := range 3 * maxRemembered {
		s.remember(fmt.Sprint(i), trace.SpanContext{})
		s.remember(fmt.Sprint(i), trace.SpanContext{}) // a kept lock is granted again
	}
	require.Len(t, s.holders, maxRemembered)
	require.Len(t, s.order, maxRemembered)
	require.Contains(t, s.holders, fmt.Sprint(2*maxRemembered))
	require.NotContains(t, s.holders, fmt.Sprint(2*maxRemembered-1))
}
