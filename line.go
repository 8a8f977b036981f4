package zkrecipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// line is a container znode in which places stand in order. What a place waits
// for is the recipe's to say, everything else is the same for all recipes.
type line struct {
	c      *Client
	path   string // as the user gave it
	recipe string // for the marker
	kinds  []kind // of its places; other children are none
	// blocks reports whether a place of kind own has to wait for one of kind
	// other that is ahead of it; it waits for the nearest.
	blocks func(own, other kind) bool
	// foreign reports a kind that must not stand in this line, because the
	// recipe it belongs to takes turns by other rules.
	foreign func(kind) bool
	// rejoins: who waits in this line joins again when somebody deletes it whole.
	rejoins bool
}

func (l *line) key() holderKey { return holderKey{l.c, l.path, l.recipe} }

func (l *line) abs() string { return l.c.abs(l.path) }

// The marker is the data of a line. Each join writes it: the Stat that comes
// back tells in the same round trip whether the new place is alone.
const (
	markerLibrary = "zkrecipes/"
	markerLayout  = markerLibrary + "1 "
)

func (l *line) marker() []byte { return []byte(markerLayout + l.recipe) }

// isKnownLayout reports whether data are not of this library, or of
// a layout that this version knows.
func isKnownLayout(data []byte) bool {
	return !bytes.HasPrefix(data, []byte(markerLibrary)) || bytes.HasPrefix(data, []byte(markerLayout))
}

// lineState is what a client knows of a line.
type lineState struct {
	// guest: the znode holds somebody's data, or may not be written; it is used
	// as a line, and its data left alone.
	guest bool
	// version is what the first marker is written over: -1 where one is there,
	// else the version of the empty data that was seen.
	version int32
	used    time.Time
}

// idleLine is for how long a line that this client does not use is believed to
// be what it was. The servers delete idle containers, by default once a minute,
// and then the path is anybody's.
const idleLine = 30 * time.Second

// ensure returns what is known of the line, reading it, and creating it, on the
// client's first use and after a while without any.
func (l *line) ensure(ctx context.Context, s *session) (lineState, error) {
	l.c.mu.Lock()
	state, ok := l.c.lines[l.path]
	if ok && time.Since(state.used) < idleLine {
		state.used = time.Now()
		l.c.lines[l.path] = state
		l.c.mu.Unlock()
		return state, nil
	}
	l.c.mu.Unlock()
	for range zkconn.MaxTries {
		data, stat, err := s.Get(ctx, l.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err := s.CreateContainer(ctx, l.abs(), l.marker(), l.c.acl)
			if err == nil {
				return l.remember(lineState{version: -1}), nil
			}
			if errors.Is(err, zk.ErrNodeExists) {
				continue
			}
			return lineState{}, err
		case err != nil:
			return lineState{}, err
		case stat.EphemeralOwner != 0:
			return lineState{}, zk.ErrNoChildrenForEphemerals
		case len(data) == 0:
			return lineState{version: stat.Version}, nil
		case bytes.HasPrefix(data, []byte(markerLayout)):
			return l.remember(lineState{version: -1}), nil
		case !isKnownLayout(data):
			return lineState{}, fmt.Errorf("line of a layout that this version does not know: %.40q", data)
		default:
			return l.remember(lineState{guest: true}), nil
		}
	}
	return lineState{}, zkconn.ErrContended
}

func (l *line) remember(state lineState) lineState {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	state.used = time.Now()
	if len(l.c.lines) >= maxKnownLines {
		for path := range l.c.lines { // any: it costs that line a read
			delete(l.c.lines, path)
			break
		}
	}
	l.c.lines[l.path] = state
	return state
}

func (l *line) forget() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	delete(l.c.lines, l.path)
}
