package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
)

func rowOf(scenario, side string, blocks ...time.Duration) *row {
	return &row{Scenario: scenario, Side: side, Latency: hdrhistogram.New(1, 10, 1), cycles: 10 * len(blocks), block: 10, blocks: blocks}
}

func TestAClaimThatDoesNotHoldIsShown(t *testing.T) {
	rep := &report{Rows: []*row{
		rowOf(nameFree, raw, 100, 100, 100),
		rowOf(nameFree, ours, 121, 100, 122),
		rowOf(nameContended(16), theirs, 130, 500, 500),
		rowOf(nameContended(16), ours, 100, 400, 100),
	}}
	rep.judge()
	var page bytes.Buffer
	require.NoError(t, rep.write(&page))
	require.Contains(t, page.String(), "| Time of a free lock and its release, beside raw | at most 1.20 | 1.210 (1.105 to 1.215) | **DOES NOT HOLD** |")
	require.Contains(t, page.String(), "with 16 sessions, beside zk.Lock | at least 1.25 | 1.300 (1.275 to 3.150) | holds |")
	require.Contains(t, page.String(), "with 200 sessions, beside zk.Lock | at least 1.40 |  | not measured in this run |")

	var short bytes.Buffer
	require.NoError(t, rep.writePage(&short))
	require.Contains(t, short.String(), fmt.Sprintf("2 of %d claims hold", len(rep.Claims)))
}

func TestThePageHasTheRatesOfAllSidesInOneRow(t *testing.T) {
	rep := &report{Rows: []*row{
		rowOf(nameFree, raw, time.Second),
		rowOf(nameFree, ours, 2*time.Second),
		rowOf(nameFree, kazoo, 5*time.Second),
		rowOf(nameShared, ours, time.Second),
		rowOf(nameShared, kept, time.Second/10),
	}}
	var page bytes.Buffer
	require.NoError(t, rep.writePage(&page))
	require.Contains(t, page.String(), "| "+nameFree+" | 10 | - | - | 2 | 5 | ")
	require.Contains(t, page.String(), "| "+nameShared+" | - | - | - | - | 10 | ")
	require.Contains(t, page.String(), "| "+nameShared+", KeepFor | - | - | - | - | 100 | ")
}

func TestSpreadIsTheMedianAndTheMiddleHalf(t *testing.T) {
	require.Equal(t, spread{2, 3, 4}, spreadOf([]float64{5, 1, 4, 2, 3}))
	require.Equal(t, spread{7, 7, 7}, spreadOf([]float64{7}))
	require.Zero(t, spreadOf(nil))
}

func TestFiguresAreWrittenShort(t *testing.T) {
	require.Equal(t, "999", number(999.4))
	require.Equal(t, "1,000", number(999.6))
	require.Equal(t, "1,234,567", number(1234567))
	require.Equal(t, "312 µs", latency(312_900))
	require.Equal(t, "1.25 ms", latency(1_250_000))
	require.Equal(t, "1191 ms", latency(1_191_000_000))
}
