package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
)

const (
	// reportDelay is how long a worker may take from an event to its report.
	reportDelay = 2 * time.Second
	// maxReportDelay is how long the judge waits for the reports of a process.
	maxReportDelay = 30 * time.Second
)

// maxViolations ends a run: what follows is mostly the same. Only as many are printed
// with what led to them.
const maxViolations = 20

// figures lets the judge judge, prints its violations, and the figures every half minute.
func (s *soak) figures(ctx context.Context, cancel context.CancelCauseFunc) {
	began, next := time.Now(), 30*time.Second
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond)
		violations, reported := 0, s.fleet.reported()
		s.court.do(func(j *judge.Judge) {
			j.JudgeUntil(reported)
			violations = len(j.Violations())
		})
		s.accusations()
		// s.now is by the wall clock, which all processes share.
		if skew := (s.now() - time.Since(began)) - began.Sub(s.start); skew.Abs() > 20*time.Millisecond {
			cancel(fmt.Errorf("the machine's clock was set by %v: this run proves nothing", skew))
			return
		}
		if violations > maxViolations {
			cancel(errViolated)
			return
		}
		if time.Since(began) >= next {
			next += 30 * time.Second
			s.show()
		}
	}
}

// accusations prints the violations that are not printed yet, with what led to them.
func (s *soak) accusations() {
	s.court.do(func(j *judge.Judge) {
		for i, v := range j.Violations()[s.court.shown:] {
			fmt.Printf("VIOLATION at %v: %s: %s\n", v.At.Round(time.Millisecond), v.Rule, v.Text)
			if s.court.shown+i < maxViolations {
				for _, e := range v.History {
					fmt.Printf("    %s\n", line(e))
				}
			}
		}
		s.court.shown = len(j.Violations())
	})
}

// line prints an event.
func line(e judge.Event) string {
	text := fmt.Sprintf("%12.6f %d.%d/%-10s %-9s %s %s", e.At.Seconds(), e.Process, e.Life, e.Worker, e.Kind, e.Recipe, e.Key)
	for _, f := range []struct {
		name  string
		value any
		set   bool
	}{
		{"item", e.Item, e.Item != ""}, {"attempt", e.Attempt, e.Attempt != 0}, {"failures", e.Failures, e.Failures != 0},
		{"moved", e.Moved, e.Kind == judge.Redriven}, {"slots", e.Slots, e.Slots != nil}, {"holder", e.Holder, e.Holder != ""}, {"token", e.Token, e.Token != 0},
		{"from", e.From, e.From != 0}, {"until", e.Until, e.Until != 0}, {"shared", e.Shared, e.Shared},
		{"was", e.Was, e.Version != 0}, {"version", e.Version, e.Version != 0},
		{"zxid", fmt.Sprintf("%#x", e.Zxid), e.Zxid != 0}, {"index", e.Index, e.Recipe == judge.RecipeBarrier},
		{"server", e.Server, e.Server != ""}, {"refused", e.Refused, e.Refused}, {"uncertain", e.Uncertain, e.Uncertain}, {"err", e.Err, e.Err != ""},
	} {
		if f.set {
			text += fmt.Sprintf(" %s=%v", f.name, f.value)
		}
	}
	return text
}

// show prints the figures.
func (s *soak) show() {
	var grants, gaps []string
	s.court.do(func(j *judge.Judge) {
		by := together(j.Gaps())
		for _, key := range slices.Sorted(maps.Keys(by)) {
			name := strings.TrimPrefix(key, "/")
			grants = append(grants, fmt.Sprintf("%s %d", name, by[key].Grants))
			if gap := by[key]; gap.Longest > 0 {
				gaps = append(gaps, fmt.Sprintf("%s %.1f (%.1f)", name, gap.Longest.Seconds(), gap.Patient.Seconds()))
			}
		}
		fmt.Printf("%6.1f min: violations %d; served: %s\n", s.now().Minutes(), len(j.Violations()), strings.Join(grants, ", "))
		fmt.Printf("            longest gaps in s (without outages and faults of processes): %s; ensemble %.1f\n",
			strings.Join(gaps, ", "), j.Outage().Seconds())
	})
	fmt.Printf("            faults: %s; %s\n", s.faults, s.fleet)
}

// together makes one line of figures for all locks of the worker "churn".
func together(gaps map[string]judge.Gap) map[string]judge.Gap {
	by := map[string]judge.Gap{}
	for key, gap := range gaps {
		if strings.HasPrefix(key, churnPrefix) {
			key = "/churn"
		}
		all := by[key]
		by[key] = judge.Gap{
			Grants:  all.Grants + gap.Grants,
			Longest: max(all.Longest, gap.Longest), Patient: max(all.Patient, gap.Patient),
		}
	}
	return by
}

func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.count)
}

// String returns what the processes use, and what they used at the beginning.
func (f *fleet) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	expired := f.expired
	var texts []string
	for _, number := range slices.Sorted(maps.Keys(f.figures)) {
		first, now := f.first[number], f.figures[number]
		select {
		case <-f.running[number].done: // counted
		default:
			expired += now.Sessions
		}
		texts = append(texts, fmt.Sprintf("%d -> %d goroutines, %.1f -> %.1f MB", first.Goroutines, now.Goroutines, mb(first.Heap), mb(now.Heap)))
	}
	var own runtime.MemStats
	runtime.ReadMemStats(&own)
	return fmt.Sprintf("sessions expired %d; processes: %s; the judge: %.1f MB", expired, strings.Join(texts, "; "), mb(own.HeapAlloc))
}

func mb(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// leastPerMinute is how often each recipe must have served somebody. The rarest are redrives,
// six in a minute on a quiet machine of two cores; most others are a hundred times as many.
const leastPerMinute = 2

// errIdle is returned if the judge had too little to judge.
var errIdle = errors.New("too few calls were served: this run proves nothing")

// verdict prints the violations that are left, and returns an error if there are any, or
// if some recipe was hardly used.
func (s *soak) verdict() error {
	s.accusations()
	if s.court.shown > 0 {
		return fmt.Errorf("%d %w", s.court.shown, errViolated)
	}
	minutes := s.minutes
	if s.kills > 0 || s.losses > 0 {
		minutes = s.now().Minutes()
	}
	least := 1 + int(leastPerMinute*minutes)
	if idle := s.court.judge.Unserved(least, servedKeys()...); len(idle) > 0 {
		return fmt.Errorf("%w: fewer than %d of %s", errIdle, least, strings.Join(idle, ", "))
	}
	fmt.Println("no violation")
	return nil
}
