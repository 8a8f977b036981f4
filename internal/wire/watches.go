package wire

import "github.com/zkrecipes/zkrecipes/internal/jute"

type watchKind uint8

const (
	watchData watchKind = iota
	watchExist
	watchChild
)

type watch struct {
	path string
	kind watchKind
}

// arm adds a watch that an answered request has set.
func (s *Session) arm(path string, kind watchKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[watch{path, kind}] = struct{}{}
}

// disarm removes the watches that go-zookeeper removes on such an event.
func (s *Session) disarm(event int32, path string) {
	var kinds []watchKind
	switch event {
	case jute.EventCreated:
		kinds = []watchKind{watchExist}
	case jute.EventDataChanged:
		kinds = []watchKind{watchExist, watchData}
	case jute.EventChildrenChanged:
		kinds = []watchKind{watchChild}
	case jute.EventDeleted:
		kinds = []watchKind{watchExist, watchData, watchChild}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		delete(s.watches, watch{path, kind})
	}
}
