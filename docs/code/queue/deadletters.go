package queue

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// watchDeadLetters reports each dead letter once. It returns when ctx ends, or if the
// servers refuse to list them.
func watchDeadLetters(ctx context.Context, jobs *zkrecipes.Queue, every time.Duration, alert func(zkrecipes.Entry)) error {
	type death struct { // a letter that was moved back may die again, with the same ID
		id    zkrecipes.ItemID
		since time.Time
	}
	known := map[death]bool{}
	for tick := time.NewTicker(every); ; {
		there := map[death]bool{}
		for letter, err := range jobs.DeadLetters().Items(ctx) {
			if err != nil {
				return err
			}
			d := death{letter.ID, letter.Since}
			if there[d] = true; !known[d] {
				alert(letter) // letter.Failure says why
			}
		}
		known = there
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// redriveAll moves all dead letters of a queue back.
func redriveAll(ctx context.Context, jobs *zkrecipes.Queue) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	moved, err := jobs.Redrive(ctx, math.MaxInt)
	return moved, err
}

var errMalformed = errors.New("malformed")

// serveOrReject puts items of which bill says that they are malformed into a queue of
// their own.
func serveOrReject(ctx context.Context, jobs, rejected *zkrecipes.Queue, bill func(context.Context, []byte) error) error {
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		err := bill(ctx, job.Data)
		if errors.Is(err, errMalformed) {
			_, err = job.AckPut(ctx, rejected, [][]byte{job.Data}) // no attempt will help
		}
		return err
	})
}
