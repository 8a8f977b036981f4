package main

import (
	"fmt"
	"time"
)

// claim is a figure that the library must keep, and its measured value.
type claim struct {
	Text     string
	Bound    string // such as "at most 1.10"
	Measured string // empty: the run did not measure it
	Holds    bool
}

func (c claim) Verdict() string {
	switch {
	case c.Measured == "":
		return "not measured in this run"
	case c.Holds:
		return "holds"
	}
	return "**DOES NOT HOLD**"
}

// judge fills in the claims. The report has all of them, also those that do not hold
// and those that were not measured.
func (rep *report) judge() {
	rep.judgeLocks()
	rep.judgeLines()
	rep.judgeKept()
	// The tutorial's last member creates and lists, and then everybody else lists. Here it
	// joins, lists and opens, and everybody else learns that by the event alone. In small
	// barriers the commit more counts, and that the opening checks each member.
	for i, n := range members(false) {
		bound := []float64{1.5, 1.1, 1.1}[i]
		rep.atMost(fmt.Sprintf("Time to open a barrier of %d, beside the tutorial's", n), bound, rep.openingBeside(n))
	}
	rep.judgeQueue()
}

// judgeQueue is about consumers of a queue.
func (rep *report) judgeQueue() {
	for _, c := range []struct {
		scenario string
		bound    float64
	}{{nameTake(1), 0.7}, {nameTake(16), 2}, {nameTakeN, 2.5}, {nameWorkers, 2.5}} {
		rep.atLeast("Items/s beside plain, "+c.scenario, c.bound, rep.compare(c.scenario, ours, plain, (*row).speedBeside))
	}
	var bytes, requests, commits *spread
	if d := rep.Drain; d != nil {
		bytes, requests, commits = exactly(d.Bytes()), exactly(d.Requests()), exactly(d.Commits())
	}
	drained := fmt.Sprintf(" for an item, when 16 workers of 4 clients drain a queue of %s", drainText(rep.Drain))
	rep.atMost("Bytes received"+drained, 5000, bytes)
	rep.atMost("Requests"+drained, 4, requests)
	rep.atMost("Commits"+drained, 1.5, commits)
}

// judgeLocks is about time.
func (rep *report) judgeLocks() {
	rep.atMost("Time of a free lock and its release, beside raw", 1.20, rep.compare(nameFree, ours, raw, (*row).timeBeside))
	beside := func(text, scenario string, bound float64) {
		rep.atLeast(text+", beside zk.Lock", bound, rep.compare(scenario, ours, theirs, (*row).speedBeside))
	}
	for _, c := range []struct {
		sessions int
		bound    float64
	}{{2, 1}, {16, 1.25}, {200, 1.4}, {1000, 1.9}, {3000, 4}} {
		beside(fmt.Sprintf("Acquisitions/s with %d sessions", c.sessions), nameContended(c.sessions), c.bound)
	}
	beside("Acquisitions/s with 2 sessions, each held for 1 ms", nameHeld(2), 1.1)
	rep.atLeast("Acquisitions/s of a semaphore of 4 permits with 16 sessions, beside Curator's", 2,
		rep.compare(nameSemaphore(16), ours, curator, (*row).speedBeside))
	rep.atLeast("Acquisitions/s with 64 locks on one session, beside raw", 0.85,
		rep.compare(nameLocks, ours, raw, (*row).speedBeside))
}

// judgeLines is about what waiting costs in lines of any length.
func (rep *report) judgeLines() {
	for _, c := range []struct {
		scenario string
		bound    float64
	}{
		{nameContended(200), 1500}, {nameHeld(1000), 1500}, {nameHeld(3000), 1500},
		// Without work in between joins overlap, and one in twelve or so lists the line.
		{nameContended(1000), 5000}, {nameContended(3000), 15000},
	} {
		rep.atMost("Bytes received for an acquisition with "+c.scenario, c.bound, rep.figure(c.scenario, ours, (*row).Received))
	}
	var rates *spread
	if few, many := rep.find(nameContended(200), ours), rep.find(nameContended(3000), ours); few != nil && many != nil {
		rates = exactly(many.Rate() / few.Rate())
	}
	rep.atLeast("Acquisitions/s with 3000 sessions, beside 200", 0.7, rates)
	for _, c := range []struct {
		sessions int
		bound    float64
	}{{16, 4.2}, {200, 3.2}, {1000, 3.2}, {3000, 3.2}} {
		rep.atMost(fmt.Sprintf("Round trips of an acquisition with %d sessions, one of them its release", c.sessions), c.bound,
			rep.figure(nameContended(c.sessions), ours, (*row).Trips))
	}
	rep.atMost("Bytes of a hand-over, most beside least over all numbers of waiters", 1.02, rep.handOverGrowth())
}

// judgeKept is about locks that are kept (KeepFor).
func (rep *report) judgeKept() {
	rep.atLeast("Acquisitions/s of 64 goroutines of a session, kept beside not kept", 20,
		rep.compare(nameShared, kept, ours, (*row).speedBeside))
	rep.atMost("Microseconds to take a kept lock again and release it, p50", 10,
		rep.figure(nameAgain, kept, func(w *row) float64 { return float64(w.P50()) / float64(time.Microsecond) }))
	rep.atMost("Requests for that", 0.02, rep.figure(nameAgain, kept, (*row).Requests))
}

func (rep *report) atMost(text string, bound float64, s *spread) {
	rep.claim(text, fmt.Sprintf("at most %.2f", bound), s, s != nil && s.Median <= bound)
}

func (rep *report) atLeast(text string, bound float64, s *spread) {
	rep.claim(text, fmt.Sprintf("at least %.2f", bound), s, s != nil && s.Median >= bound)
}

func exactly(figure float64) *spread { return &spread{figure, figure, figure} }

func (rep *report) claim(text, bound string, s *spread, holds bool) {
	measured := ""
	switch {
	case s == nil:
	case s.Low == s.High:
		measured = fmt.Sprintf("%.3f", s.Median)
	default:
		measured = fmt.Sprintf("%.3f (%.3f to %.3f)", s.Median, s.Low, s.High)
	}
	rep.Claims = append(rep.Claims, claim{text, bound, measured, holds})
}

// figure returns a figure of one side, or nil if that was not measured.
func (rep *report) figure(scenario, side string, of func(*row) float64) *spread {
	w := rep.find(scenario, side)
	if w == nil {
		return nil
	}
	return exactly(of(w))
}

// compare returns how one side compares with another, or nil if either was not measured.
func (rep *report) compare(scenario, one, with string, how func(w, other *row) spread) *spread {
	w, other := rep.find(scenario, one), rep.find(scenario, with)
	if w == nil || other == nil {
		return nil
	}
	s := how(w, other)
	return &s
}

func (rep *report) find(scenario, side string) *row {
	for _, w := range rep.Rows {
		if w.Scenario == scenario && w.Side == side {
			return w
		}
	}
	return nil
}

// handOverGrowth returns the ratio of the most bytes that a hand-over took to the
// least, over all numbers of waiters.
func (rep *report) handOverGrowth() *spread {
	if len(rep.HandOvers) < 2 {
		return nil
	}
	least, most := rep.HandOvers[0].Ours.Bytes(), 0.0
	for _, h := range rep.HandOvers {
		least, most = min(least, h.Ours.Bytes()), max(most, h.Ours.Bytes())
	}
	return exactly(most / least)
}

// openingBeside returns the ratio of the rounds' times.
func (rep *report) openingBeside(members int) *spread {
	for _, o := range rep.Openings {
		if o.Members != members {
			continue
		}
		ratios := make([]float64, len(o.Ours.times))
		for i := range ratios {
			ratios[i] = float64(o.Ours.times[i]) / float64(o.Plain.times[i])
		}
		s := spreadOf(ratios)
		return &s
	}
	return nil
}

func drainText(d *drain) string {
	if d == nil {
		return "100,000"
	}
	return number(float64(d.Items))
}
