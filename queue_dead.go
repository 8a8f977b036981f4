package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Failure says why an item is a dead letter. It is the zero value for other items, for one
// that was moved by a version of this library that kept no Failure, and for one too large
// for a request with a Failure.
type Failure struct {
	// Queue is the absolute path of the queue that the item comes from, which includes the
	// Options.Prefix of its users. So it is the same for all clients.
	Queue string
	// Attempts is how often the item was taken there, as in Item.Attempt.
	Attempts int
	// Text is the error that the handler given to Serve returned for the last attempt,
	// with the stack if the handler panicked. It is cut after 4,096 bytes. If no handler
	// has failed, because the last consumer died or gave the item back, the text says so.
	Text string
}

// note is a Failure as it is stored.
type note struct {
	Queue    string `json:"queue"`
	Attempts int    `json:"attempts"`
	Text     string `json:"text"`
}

const (
	maxFailureText = 4096

	// neverAcked is the text for an item that the next consumer finds.
	neverAcked = "taken as often as it may be and never acked: its last consumer gave it back, was lost or died"
)

// DeadLetters returns the queue of the dead letters of q, with any number of attempts
// and otherwise without options. A dead letter has the ID and the Data of the item, and a
// Failure. Its own Attempt and Since begin anew. DeadLetters sends nothing.
func (q *Queue) DeadLetters() *Queue {
	if q == nil {
		return nil
	}
	letters := newQueue(q.c, q.opts.DeadLetter, &QueueOptions{MaxAttempts: -1})
	letters.segmentSize, letters.isDead = q.segmentSize, true
	return letters
}

// deadLetters returns the absolute path of the queue of dead letters.
func (q *Queue) deadLetters() string { return q.c.Abs(q.opts.DeadLetter) }

// withNote returns an item with a failure: its data begin with a line of JSON, and its name
// says so.
func withNote(id ItemID, data []byte, f Failure) queuelog.Item {
	if len(f.Text) > maxFailureText {
		f.Text = strings.ToValidUTF8(f.Text[:maxFailureText], "")
	}
	line, _ := json.Marshal(note(f)) // a struct of this shape never fails
	return queuelog.Item{ID: string(id), Data: append(append(line, '\n'), data...), Noted: true}
}

// cutNote returns the data of an item with that name, without the note, and what the
// note tells. If the data of such an item do not begin with a valid note, it returns all
// of them and no Failure.
func cutNote(name string, data []byte) (_ []byte, f Failure) {
	if !queuelog.HasNote(name) {
		return data, f
	}
	line, rest, ok := bytes.Cut(data, []byte{'\n'})
	var n note
	if !ok || json.Unmarshal(line, &n) != nil {
		return data, Failure{}
	}
	return rest, Failure(n)
}

// letter returns the dead letter of an item. For an item that is almost too large, the
// failure's text is left out, or all of the Failure.
func (q *Queue) letter(it *Item, data []byte, f Failure) queuelog.Item {
	log, remove := newQueueLog(it.claim.Session, q.deadLetters()), it.claim.ackOps(true).all()
	for _, text := range []string{f.Text, ""} {
		f.Text = text
		letter := withNote(it.claim.id(), data, f)
		if zkconn.MultiSize(remove, log.LargestAppend([]queuelog.Item{letter}, q.segmentSize).Ops) <= jute.MaxFrame {
			return letter
		}
	}
	return queuelog.Item{ID: string(it.claim.id()), Data: data}
}

// moveToDeadLetters moves an item, with those data, that was taken too often. A worker of
// Serve does so if its handler fails for the last time. Else the next consumer does so
// before it hands the item out, so an item that kills each process that works on it does
// not stay at the head for ever.
func (q *Queue) moveToDeadLetters(ctx context.Context, it *Item, data []byte, attempts int, text string) error {
	letter := q.letter(it, data, Failure{Queue: q.abs(), Attempts: attempts, Text: text})
	puts := &ackPuts{to: queueIn(it.claim.Session, q.deadLetters()).Log, size: q.segmentSize, items: []queuelog.Item{letter}}
	err := (&ackTransaction{it: it, puts: puts}).run(ctx)
	if err == nil {
		q.c.Log(slog.LevelWarn, "item was moved to the dead letters", "item", it.claim.id(), "queue", q.path,
			"dead_letters", q.opts.DeadLetter, "attempts", attempts)
		return nil
	}
	refused := !errors.Is(err, ErrLost) && !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrContended) && ctx.Err() == nil
	q.c.Tasks.Start(func() {
		if refused {
			q.keepUnmoved(it)
		}
		it.lease.Release() // it was not moved, or is gone
	})
	switch {
	case errors.Is(err, ErrLost), errors.Is(err, ErrUncertain):
		return nil // if it was not moved, its next consumer does so
	case errors.Is(err, ErrContended):
		q.c.Log(slog.LevelWarn, "item is not moved to the dead letters yet", "item", it.claim.id(), "queue", q.path, "err", err)
		return nil
	case refused:
		q.c.Log(slog.LevelError, "item stays in the queue", "item", it.claim.id(), "queue", q.path, "err", err)
	}
	return &unmovedError{fmt.Errorf("move item %s to the dead letters, %s: %w", it.claim.id(), q.opts.DeadLetter, err)}
}

// unmovedError is the error of an item that cannot be moved to the dead letters.
type unmovedError struct{ error }

func (e *unmovedError) Unwrap() error { return e.error }

// keepUnmoved keeps an item that cannot be moved for the default back-off, so that the
// items behind it are taken, and not this one again and again.
func (q *Queue) keepUnmoved(it *Item) {
	keep := time.NewTimer(backOff(it.claim.attempt))
	defer keep.Stop()
	select {
	case <-keep.C:
	case <-it.Context(q.c.Waiting).Done():
	}
}

// moveFailed moves an item whose handler failed for the last time to the dead letters,
// because only this process knows why. If it cannot, the next consumer does so.
func (s *serving) moveFailed(ctx context.Context, it *Item, why error) {
	data, _, err := it.claim.Session.Get(ctx, it.claim.item) // the handler may have changed it.Data
	if err != nil {
		if !errors.Is(err, zk.ErrNoNode) && it.Err() == nil {
			s.c.Log(slog.LevelWarn, "item is not moved to the dead letters yet", "item", it.claim.id(), "queue", s.path, "err", err)
		}
		s.giveBack(it)
		return
	}
	data, _ = cutNote(it.claim.Name, data)
	_ = s.moveToDeadLetters(ctx, it, data, it.claim.attempt, why.Error()) // which logs its errors
}

// Redrive moves up to n dead letters of this queue back to its end, the oldest ones
// first, each in one transaction. They keep ID and Data, and their attempts begin anew.
// It returns how many were moved. Dead letters that a consumer has, and those of other
// queues with the same DeadLetter path, stay. One without a Failure counts as this
// queue's. Letters that arrive meanwhile stay, so a huge n moves what there is.
//
// Redrive blocks until the servers answer or ctx ends. With MaxLen it also blocks, as
// Put does, until there is room. It returns the errors of Put. A letter that is too large
// does not hold up those behind it. With an error, moved is the number of those that are
// known to be moved, and after ErrUncertain one more may be.
//
// Redrive costs two requests and one for each segment of about a hundred dead letters,
// and for each letter one more than a Put. It costs one request and one commit more for each
// of these segments that it empties.
func (q *Queue) Redrive(ctx context.Context, n int) (moved int, err error) {
	moved, err = q.redrive(ctx, n)
	return moved, q.fail("redrive", err)
}

func (q *Queue) redrive(ctx context.Context, n int) (moved int, err error) {
	if err := q.check(ctx); err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, fmt.Errorf("%d dead letters", n)
	}
	var segments []*browsed
	err = q.DeadLetters().eachSegment(ctx, func(seg *browsed) (bool, error) {
		segments = append(segments, seg)
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("list %s: %w", q.opts.DeadLetter, err)
	}
	ctx, done := q.c.Bind(ctx)
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
			case errors.Is(err, ErrTooLarge):
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
	for range zkconn.MaxTries {
		data, s, err := readAgain(ctx, q.c, letter)
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		data, failure := cutNote(name, data)
		if failure != (Failure{}) && failure.Queue != q.abs() {
			return false, nil
		}
		item := queuelog.Item{ID: name[:queuelog.IDLength], Data: data}
		err = q.putItems(ctx, []queuelog.Item{item}, r.ops(s)...)
		refused := refusedOp{}
		if !errors.As(err, &refused) {
			return err == nil, err
		}
		again, err := r.refused(ctx, s, refused.error)
		if !again && !errors.Is(err, zkconn.ErrSessionOver) {
			return false, err
		}
	}
	return false, zkconn.ErrContended
}

// read reads a znode, in the next session if this one ends, and returns the session.
func readAgain(ctx context.Context, c *line.Client, path string) (data []byte, s *line.Session, err error) {
	err = c.InSessions(ctx, func(live *line.Session) error {
		s = live
		data, _, err = s.Get(ctx, path)
		return err
	})
	return data, s, err
}
