package main

import "fmt"

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
	atMost := func(text string, bound float64, s *spread) {
		c := newClaim(text, s)
		c.Bound, c.Holds = fmt.Sprintf("at most %.2f", bound), s != nil && s.Median <= bound
		rep.Claims = append(rep.Claims, c)
	}
	atLeast := func(text string, bound float64, s *spread) {
		c := newClaim(text, s)
		c.Bound, c.Holds = fmt.Sprintf("at least %.2f", bound), s != nil && s.Median >= bound
		rep.Claims = append(rep.Claims, c)
	}
	atMost("Time of a free lock and its release, beside raw", 1.10, rep.compare(nameFree, raw, (*row).timeBeside))
	for _, c := range []struct {
		sessions int
		bound    float64
	}{{16, 1.2}, {200, 1.25}, {1000, 1.4}} {
		atLeast(fmt.Sprintf("Acquisitions/s with %d sessions, beside zk.Lock", c.sessions), c.bound,
			rep.compare(nameContended(c.sessions), theirs, (*row).speedBeside))
	}
	atLeast("Acquisitions/s with 64 locks on one session, beside raw", 0.85, rep.compare(nameLocks, raw, (*row).speedBeside))
	var drained *spread
	if rep.Drain != nil {
		b := rep.Drain.Bytes()
		drained = &spread{b, b, b}
	}
	atMost(fmt.Sprintf("Bytes received for an item, when 16 consumers drain a queue of %s", drainText(rep.Drain)), 5000, drained)
	atMost("Bytes of a hand-off, most beside least over all numbers of waiters", 1.02, rep.handOffGrowth())
}

func newClaim(text string, s *spread) claim {
	switch {
	case s == nil:
		return claim{Text: text}
	case s.Low == s.High:
		return claim{Text: text, Measured: fmt.Sprintf("%.3f", s.Median)}
	}
	return claim{Text: text, Measured: fmt.Sprintf("%.3f (%.3f to %.3f)", s.Median, s.Low, s.High)}
}

// compare returns how this library compares with another side, or nil if either was
// not measured.
func (rep *report) compare(scenario, with string, how func(w, other *row) spread) *spread {
	w, other := rep.find(scenario, ours), rep.find(scenario, with)
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

// handOffGrowth returns the ratio of the most bytes that a hand-off took to the
// least, over all numbers of waiters.
func (rep *report) handOffGrowth() *spread {
	if len(rep.HandOffs) < 2 {
		return nil
	}
	least, most := rep.HandOffs[0].Ours.Bytes(), 0.0
	for _, h := range rep.HandOffs {
		least, most = min(least, h.Ours.Bytes()), max(most, h.Ours.Bytes())
	}
	ratio := most / least
	return &spread{ratio, ratio, ratio}
}

func drainText(d *drain) string {
	if d == nil {
		return "100,000"
	}
	return number(float64(d.Items))
}
