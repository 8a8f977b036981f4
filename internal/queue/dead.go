package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

const (
	MaxFailureText = 4096

	// NeverAcked is the text for an item that the next consumer finds.
	NeverAcked = "taken as often as it may be and never acked: its last consumer gave it back, was lost or died"
)

// Failure says why an item is a dead letter. It is stored as JSON.
type Failure struct {
	Queue    string `json:"queue"`
	Attempts int    `json:"attempts"`
	Text     string `json:"text"`
}

// DeadLetters returns the queue of the dead letters of q.
func (q *Queue) DeadLetters() *Queue {
	letters := New(q.Client, q.Opts.DeadLetter, Options{MaxAttempts: -1}, q.hooks)
	letters.SegmentSize, letters.isDead = q.SegmentSize, true
	return letters
}

// DeadLettersPath returns the absolute path of the queue of dead letters.
func (q *Queue) DeadLettersPath() string { return q.Client.Abs(q.Opts.DeadLetter) }

// WithNote returns an item with a failure: its data begin with a line of JSON, and its name
// says so.
func WithNote(id string, data []byte, f Failure) queuelog.Item {
	if len(f.Text) > MaxFailureText {
		f.Text = strings.ToValidUTF8(f.Text[:MaxFailureText], "")
	}
	// A struct of this shape never fails.
	line, _ := json.Marshal(f)
	return queuelog.Item{ID: id, Data: append(append(line, '\n'), data...), Noted: true}
}

// CutNote returns the data of an item with that name, without the note, and what the
// note tells. If the data of such an item do not begin with a valid note, it returns all
// of them and no Failure.
func CutNote(name string, data []byte) (_ []byte, f Failure) {
	if !queuelog.HasNote(name) {
		return data, f
	}
	line, rest, ok := bytes.Cut(data, []byte{'\n'})
	if !ok || json.Unmarshal(line, &f) != nil {
		return data, Failure{}
	}
	return rest, f
}

// letter returns the dead letter of an item, which log gets by a transaction with the operations
// beside. For an item that is almost too large, the failure's text is left out, or all of the
// Failure.
func (q *Queue) letter(log *queuelog.Log, id string, data []byte, f Failure, beside []any) queuelog.Item {
	for _, text := range []string{f.Text, ""} {
		f.Text = text
		letter := WithNote(id, data, f)
		if zkconn.MultiSize(beside, log.LargestAppend([]queuelog.Item{letter}, q.SegmentSize).Ops) <= zkconn.MaxRequest(q.Client.MaxBuffer) {
			return letter
		}
	}
	return queuelog.Item{ID: id, Data: data}
}

// moveToDeadLetters moves an item, with those data, that was taken too often. A worker of
// Serve does so if its handler fails for the last time. Else the next consumer does so
// before it hands the item out, so an item that kills each process that works on it does
// not stay at the head for ever.
func (q *Queue) moveToDeadLetters(ctx context.Context, it *Item, data []byte, attempts int, text string) error {
	it.Claim.see() // if it cannot be moved, the next back-off is longer
	letters := QueueIn(it.Claim.Session, q.DeadLettersPath()).Log
	letter := q.letter(letters, it.Claim.ID(), data, Failure{Queue: q.Abs(), Attempts: attempts, Text: text}, it.Claim.AckOps(true).All())
	puts := &ackPuts{to: letters, size: q.SegmentSize, items: []queuelog.Item{letter}}
	err := (&ackTransaction{it: it, puts: puts}).run(ctx)
	if err == nil {
		q.Client.Log(slog.LevelWarn, "item was moved to the dead letters", "item", it.Claim.logged(), "queue", q.Path,
			"dead_letters", q.Opts.DeadLetter, "attempts", attempts)
		return nil
	}
	refused := !errors.Is(err, errs.ErrLost) && !errors.Is(err, errs.ErrUncertain) && !errors.Is(err, zkconn.ErrContended) && ctx.Err() == nil
	q.Client.Tasks.Start(func() {
		if refused {
			q.keepUnmoved(it)
		}
		it.Handle.Release() // it was not moved, or is gone
	})
	switch {
	case errors.Is(err, errs.ErrLost), errors.Is(err, errs.ErrUncertain):
		return nil // if it was not moved, its next consumer does so
	case errors.Is(err, zkconn.ErrContended):
		q.Client.Log(slog.LevelWarn, "item is not moved to the dead letters yet", "item", it.Claim.logged(), "queue", q.Path, "err", err)
		return nil
	case refused:
		q.Client.Log(slog.LevelError, "item stays in the queue", "item", it.Claim.logged(), "queue", q.Path, "err", err)
	}
	return &unmovedError{fmt.Errorf("move item %s to the dead letters, %s: %w", it.Claim.ID(), q.Opts.DeadLetter, err)}
}

// unmovedError is the error of an item that cannot be moved to the dead letters.
type unmovedError struct{ error }

func (e *unmovedError) Unwrap() error { return e.error }

// keepUnmoved keeps an item that cannot be moved for the default back-off, so that the
// items behind it are taken, and not this one again and again.
func (q *Queue) keepUnmoved(it *Item) {
	keep := time.NewTimer(BackOff(it.Claim.Attempt))
	defer keep.Stop()
	select {
	case <-keep.C:
	case <-it.Handle.Context(q.Client.Waiting).Done():
	}
}

// moveFailed moves an item whose handler failed for the last time to the dead letters,
// because only this process knows why. If it cannot, the next consumer does so.
func (s *serving) moveFailed(ctx context.Context, it *Item, why error) {
	data, _, err := it.Claim.Session.Get(ctx, it.Claim.Item) // the handler may have changed the Item's Data
	if err != nil {
		if !errors.Is(err, zk.ErrNoNode) && it.err() == nil {
			s.Client.Log(slog.LevelWarn, "item is not moved to the dead letters yet", "item", it.Claim.logged(), "queue", s.Path, "err", err)
		}
		s.release(it)
		return
	}
	data, _ = CutNote(it.Claim.name, data)
	_ = s.moveToDeadLetters(ctx, it, data, it.Claim.Attempt, why.Error()) // which logs its errors
}

// Redrive moves up to n dead letters of this queue back to its end.
func (q *Queue) Redrive(ctx context.Context, n int) (moved int, err error) {
	if err := q.Check(ctx); err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, fmt.Errorf("n is %d dead letters: must not be negative", n)
	}
	var segments []*browsed
	err = q.DeadLetters().eachSegment(ctx, func(seg *browsed) (bool, error) {
		segments = append(segments, seg)
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("list %s: %w", q.Opts.DeadLetter, err)
	}
	ctx, done := q.Client.Bind(ctx)
	defer done()
	var tooLarge error // of the last letter that is
	for _, seg := range segments {
		before := moved
		for _, e := range seg.items {
			if moved == n {
				return moved, tooLarge
			}
			if e.Claimed {
				continue
			}
			letter := seg.path + "/" + e.Name
			ok, err := q.redriveOne(ctx, letter)
			switch {
			case errors.Is(err, zkconn.ErrTooLarge):
				tooLarge = fmt.Errorf("letter %s: %w", letter, err)
			case err != nil:
				return moved, err
			case ok:
				moved++
			}
		}
		q.DeadLetters().deleteEmptied(ctx, seg, moved-before)
	}
	return moved, tooLarge
}

// redriveOne moves a dead letter, with that path, unless it is taken, gone, or another
// queue's.
func (q *Queue) redriveOne(ctx context.Context, letter string) (moved bool, err error) {
	r := &removal{q: q.DeadLetters(), item: letter}
	name := letter[strings.LastIndexByte(letter, '/')+1:]
	return r.move(ctx, q, func(_ *session.Session, data []byte, _ *zk.Stat) (_ queuelog.Item, ok bool) {
		data, failure := CutNote(name, data)
		ok = failure == (Failure{}) || failure.Queue == q.Abs()
		return queuelog.Item{ID: name[:queuelog.IDLength], Data: data}, ok
	})
}
