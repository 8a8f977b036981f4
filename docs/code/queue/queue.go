// Package queue has the code of docs/queue.md.
package queue

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// deadLetters counts the dead letters of a queue.
func deadLetters(ctx context.Context, jobs *zkrecipes.Queue) (int, error) {
	n, err := jobs.DeadLetters().Len(ctx)
	return n, err
}

// list prints why each dead letter is one.
func list(ctx context.Context, w io.Writer, jobs *zkrecipes.Queue) error {
	for letter, err := range jobs.DeadLetters().Items(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: taken %d times: %s\n", letter.ID, letter.Failure.Attempts, letter.Failure.Text)
	}
	return nil
}

// reportHanging prints the oldest item if a consumer has had it for longer than limit.
func reportHanging(ctx context.Context, w io.Writer, jobs *zkrecipes.Queue, limit time.Duration) error {
	for oldest, err := range jobs.Items(ctx) {
		if err != nil {
			return err
		}
		if oldest.Taken && time.Since(oldest.TakenSince) > limit {
			fmt.Fprintf(w, "%s hangs at %s\n", oldest.ID, oldest.Consumer)
		}
		break
	}
	return nil
}

// takeAndAck is the loop that Serve runs, without its care for failures.
func takeAndAck(ctx context.Context, jobs *zkrecipes.Queue, work func(context.Context, *zkrecipes.Item) error) error {
	for {
		job, err := jobs.Take(ctx)
		if err != nil {
			return err
		}
		if err := work(job.Context(ctx), job); err != nil {
			job.Nack(ctx) // the next consumer gets it
			return err
		}
		if err := job.Ack(ctx); err != nil {
			return err
		}
	}
}
