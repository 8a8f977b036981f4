package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// What a consumer is doing, in its column of the board, if it has no job.
const (
	away    = " "
	waiting = "."
	killed  = "x"
)

// shortest is the shortest time that gets a line of its own.
const shortest = 20 * time.Millisecond

// board draws who works on what, one line for each time that passes without a
// change, and keeps account of what the workers tell.
type board struct {
	out   io.Writer
	doing []string // of each consumer
	jobs  int      // that there will be

	began time.Time
	since time.Time // when what is drawn next began

	puts      []string                   // in the order in which they were told
	first     map[string]zkrecipes.Token // of each job's first delivery
	worked    map[string]int             // how often each was
	killedIn  string                     // the job in which a consumer was killed
	again     int                        // deliveries that were not a job's first
	taken     int                        // jobs by the second consumer
	completed bool
}

func newBoard(out io.Writer, producers, consumers, items int) *board {
	b := &board{
		out: out, began: time.Now(), since: time.Now(), doing: slices.Repeat([]string{away}, consumers), jobs: producers * items,
		first: map[string]zkrecipes.Token{}, worked: map[string]int{},
	}
	fmt.Fprintf(out, "one column for each consumer: the job it works on, * if that was delivered before, %s waits, %s was killed\n\n", waiting, killed)
	var head []string
	for i := range consumers {
		head = append(head, fmt.Sprintf("%-5s", name(i)))
	}
	fmt.Fprintf(out, "   from      to   %s  put  done\n", strings.Join(head, " "))
	return b
}

// take notes what a worker tells; kill: it is the one to be killed, now.
func (b *board) take(r report) (kill bool) {
	note := ""
	switch r.What {
	case puts:
		b.puts = append(b.puts, r.Job)
		return false
	case waits:
		b.doing[r.Worker] = waiting
		return false
	}
	b.draw("")
	switch r.What {
	case takes:
		b.doing[r.Worker] = r.Job
		if _, ok := b.first[r.Job]; ok || r.Attempt > 1 {
			b.doing[r.Worker] += "*"
			b.again++
		}
		if r.Attempt == 1 {
			b.first[r.Job] = r.Token
		}
		if r.Worker == 1 {
			b.taken++
		}
		if r.Worker == 1 && b.taken == 2 && b.killedIn == "" {
			kill, b.killedIn = true, r.Job
			note = fmt.Sprintf("consumer %s is killed, with %s", name(r.Worker), r.Job)
		}
	case done:
		b.worked[r.Job]++
		b.doing[r.Worker] = waiting
	}
	if kill {
		b.since = time.Now()
		b.draw(note)
		b.doing[r.Worker] = killed
	}
	return kill
}

// complete reports, once, that all jobs are done.
func (b *board) complete() bool {
	if b.completed || len(b.worked) < b.jobs {
		return false
	}
	b.completed = true
	return true
}

// draw draws the time that ends now, if it is worth a line. One that is not is
// part of the next.
func (b *board) draw(note string) {
	now := time.Now()
	if now.Sub(b.since) < shortest && note == "" {
		return
	}
	var columns []string
	for _, doing := range b.doing {
		columns = append(columns, fmt.Sprintf("%-5s", doing))
	}
	line := fmt.Sprintf("%7.2f %7.2f   %s  %3d  %4d   %s", b.since.Sub(b.began).Seconds(), now.Sub(b.began).Seconds(),
		strings.Join(columns, " "), len(b.puts), len(b.worked), note)
	fmt.Fprintln(b.out, strings.TrimRight(line, " "))
	b.since = now
}

// settle judges what the workers told, and how many items are left in the queue.
// Of a run that was not complete it does not ask that all be done.
func (b *board) settle(left int, complete bool) (verdict string, err error) {
	var errs []error
	last := map[byte]zkrecipes.Token{}
	for _, job := range b.puts {
		token, ok := b.first[job]
		switch {
		case !ok: // killed before it could tell of it, or not done
		case token < last[job[0]]:
			errs = append(errs, fmt.Errorf("ORDER: %s was delivered before the one put before it", job))
		default:
			last[job[0]] = token
		}
		if b.worked[job] == 0 && complete {
			errs = append(errs, fmt.Errorf("LOST: %s was put, and not worked on", job))
		}
	}
	for job := range b.worked {
		if !slices.Contains(b.puts, job) {
			errs = append(errs, fmt.Errorf("%s was worked on, and never put", job))
		}
	}
	switch {
	case left > 0 && complete:
		errs = append(errs, fmt.Errorf("%d items are left in the queue", left))
	case complete && b.killedIn == "":
		errs = append(errs, errors.New("nobody was killed: the second consumer got one job at most"))
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	verdict = fmt.Sprintf("nothing was lost: %d jobs were put, and %d worked on", len(b.puts), len(b.worked))
	if b.killedIn != "" && b.worked[b.killedIn] > 0 {
		verdict += fmt.Sprintf("; %s, which its consumer was killed with, by another one", b.killedIn)
	}
	return verdict, nil
}
