package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// What a consumer that has no job is doing, in its column of the board.
const (
	waiting = "."
	killed  = "x"
)

// consumer is what the board knows of a consumer.
type consumer struct {
	present, killed bool
	jobs            []string // that it works on
}

// String returns what stands in the consumer's column.
func (c *consumer) String() string {
	switch {
	case c.killed:
		return killed
	case len(c.jobs) > 0:
		return strings.Join(c.jobs, " ")
	case c.present:
		return waiting
	}
	return " "
}

// end ends the work on a job.
func (c *consumer) end(job string) {
	c.jobs = slices.DeleteFunc(c.jobs, func(j string) bool { return strings.TrimSuffix(j, "*") == job })
}

// board draws which consumer works on what, a line for each time that passes
// without a change, and judges what the processes report.
type board struct {
	timeline  *demo.Timeline
	now       func() time.Time
	consumers []consumer
	jobs      int // that there will be

	puts      []string        // jobs, in the order of the reports
	delivered map[string]bool // jobs that were delivered
	worked    map[string]int  // how often each job was done
	killedIn  string          // the job in which a consumer was killed
	lastTaken time.Time       // when the last job was taken, or the consumer killed
	gap       time.Duration   // longest time without a job taken since, while there were jobs
}

func newBoard(out io.Writer, consumers, jobs int) *board {
	return &board{
		timeline: demo.NewTimeline(out,
			fmt.Sprintf("one column for each consumer: the jobs it works on, with * if redelivered; %s waits, %s was killed", waiting, killed),
			columns(demo.Letters(consumers), "put", "done"), ""),
		now:       time.Now,
		consumers: make([]consumer, consumers),
		jobs:      jobs,
		delivered: map[string]bool{},
		worked:    map[string]int{},
	}
}

// columns adds those of the jobs to the consumers' columns.
func columns(cells []string, put, done any) []string {
	for i := range cells {
		cells[i] = fmt.Sprintf("%-8s", cells[i])
	}
	return append(cells, fmt.Sprintf(" %3v", put), fmt.Sprintf(" %4v", done))
}

// take notes a report. If kill is true, the consumer that sent it is to be killed
// now.
func (b *board) take(r report) (kill bool) {
	note := ""
	switch r.What {
	case puts:
		b.puts = append(b.puts, r.Job)
		return false
	case waits:
		b.consumers[r.Worker].present = true
		return false
	}
	b.draw("")
	c := &b.consumers[r.Worker]
	switch r.What {
	case takes:
		b.noteGap()
		job := r.Job
		if b.delivered[r.Job] || r.Attempt > 1 {
			job += "*"
		}
		c.jobs = append(c.jobs, job)
		if r.Attempt == 1 {
			b.delivered[r.Job] = true
		}
		if r.Job == fatal && b.killedIn == "" {
			kill, b.killedIn, b.lastTaken = true, r.Job, b.now()
			note = fmt.Sprintf("consumer %s is killed while it works on %s", demo.Letter(r.Worker), r.Job)
		}
	case done:
		b.worked[r.Job]++
		c.end(r.Job)
	}
	if kill {
		b.timeline.Begin()
		b.draw(note)
		c.killed = true
	}
	return kill
}

// noteGap notes how long no job was taken, since the consumer was killed and until the last
// job was taken for the first time.
func (b *board) noteGap() {
	if b.killedIn != "" && len(b.delivered) < b.jobs {
		b.gap = max(b.gap, b.now().Sub(b.lastTaken))
		b.lastTaken = b.now()
	}
}

// complete reports whether all jobs are done.
func (b *board) complete() bool { return len(b.worked) >= b.jobs }

// draw draws the time that ends now. With a note it gets a line however short it
// was.
func (b *board) draw(note string) {
	if b.timeline.Due() || note != "" {
		cells := make([]string, len(b.consumers))
		for i := range b.consumers {
			cells[i] = b.consumers[i].String()
		}
		b.timeline.Draw(columns(cells, len(b.puts), len(b.worked)), "%s", note)
	}
}

// settle judges the reports and the number of items that are left in the queue.
// In a complete run all jobs must be done.
func (b *board) settle(left int, complete bool) (verdict string, err error) {
	var errs []error
	for _, job := range b.puts {
		if b.worked[job] == 0 && complete {
			errs = append(errs, fmt.Errorf("LOST: %s was put, and not done", job))
		}
	}
	for job := range b.worked {
		if !slices.Contains(b.puts, job) {
			errs = append(errs, fmt.Errorf("%s was done, and never put", job))
		}
	}
	switch {
	case left > 0 && complete:
		errs = append(errs, fmt.Errorf("items left in the queue: %d", left))
	case complete && b.killedIn == "":
		errs = append(errs, fmt.Errorf("no consumer was killed: none got %s", fatal))
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	verdict = fmt.Sprintf("nothing was lost: %d jobs were put, and %d were done", len(b.puts), len(b.worked))
	if b.killedIn != "" && b.worked[b.killedIn] > 0 {
		verdict += fmt.Sprintf("; %s, whose consumer was killed, was done by another", b.killedIn)
		verdict += fmt.Sprintf("; after the kill at most %v passed until a next job was taken", b.gap.Round(time.Millisecond))
	}
	return verdict, nil
}
