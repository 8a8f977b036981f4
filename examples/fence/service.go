package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// newService returns the service: a ledger behind a guard. It is one process, so the guard keeps
// the highest token in memory. After a restart it asks ZooKeeper who holds the lock.
func newService(lock *zkrecipes.Mutex, name string, book *ledger) http.Handler {
	guard := fence.NewMemory(func(ctx context.Context, asked string) (int64, error) {
		if asked != name {
			return 0, fmt.Errorf("this service is under %s", name)
		}
		return holder(ctx, lock)
	})
	return fence.Handler(guard, book, &fence.HandlerOptions{
		Names: func(*http.Request) []string { return []string{name} },
	})
}

// holder returns the token of the present holder.
func holder(ctx context.Context, lock *zkrecipes.Mutex) (int64, error) {
	contenders, err := lock.Contenders(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range contenders {
		if c.Held {
			return int64(c.Token), nil
		}
	}
	return 0, errors.New("nobody holds the lock")
}

// ledger is what the service keeps: entries, each under a token.
type ledger struct {
	name string // of the fence

	mu      sync.Mutex
	entries []entry
}

type entry struct {
	token int64
	text  string
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h, _ := fence.FromContext(r.Context())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{h.Fences()[l.name], string(text)})
	fmt.Fprintln(w, len(l.entries))
}
