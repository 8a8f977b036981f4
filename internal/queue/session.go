package queue

import (
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// sessionQueues is what a session knows of queues.
type sessionQueues struct {
	receipts queuelog.Receipts

	mu     sync.Mutex
	states map[string]*queueState
}

// maxKnownQueues bounds what a session remembers of queues.
const maxKnownQueues = 10_000

func queuesIn(s *session.Session) *sessionQueues {
	return session.Attached(s, func() *sessionQueues { return &sessionQueues{states: map[string]*queueState{}} })
}

// QueueIn returns what the session knows of the queue with that absolute path.
func QueueIn(s *session.Session, path string) *queueState {
	qs := queuesIn(s)
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.states[path]
	if q == nil {
		if len(qs.states) >= maxKnownQueues {
			for other, q := range qs.states { // any: it costs that queue some reads
				delete(qs.states, other)
				s.Client.Tasks.Start(q.Close)
				break
			}
		}
		q = &queueState{Log: NewQueueLog(s, path), blocked: map[string]*zkconn.Watch{}}
		q.passed.Store(-1)
		qs.states[path] = q
	}
	return q
}

// NewQueueLog returns the log of the queue with that absolute path.
func NewQueueLog(s *session.Session, path string) *queuelog.Log {
	return queuelog.New(queuelog.Config{
		Session: s.Session, Tasks: &s.Client.Tasks, Path: path, Receipts: &queuesIn(s).receipts,
		Marker: layout.QueueMarker(), Known: layout.IsKnownLayout, CheckParent: layout.CheckQueuePath,
	})
}
