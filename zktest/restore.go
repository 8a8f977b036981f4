package zktest

import (
	"maps"
	"slices"
	"time"
)

// Snapshot is the state of a Server at some moment: its znodes, and which sessions there
// were.
type Snapshot struct {
	tree     *tree
	sessions map[int64]time.Duration // their timeouts
	log      []*txn                  // that led to the tree; without spare capacity, see Restore
}

// Snapshot returns the server's state, for Restore.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := &Snapshot{tree: s.leader.tree.clone(), sessions: map[int64]time.Duration{}, log: slices.Clip(s.log)}
	for id, ss := range s.sessions {
		snap.sessions[id] = ss.timeout
	}
	return snap
}

// Restore makes the server lose all transactions since the snapshot, like an ensemble of
// which most servers have lost their disks, or that was restored from a backup. All
// connections are closed. Then the server is in a new epoch: its zxids are higher than all
// before, so that clients resume their sessions, with the znodes that these had. A session
// that has ended since the snapshot is there again, and expires after its timeout. One that
// was opened since is unknown: its client is told that it has expired.
//
// OnChange gets none of these changes. A snapshot can be restored several times. It must be
// of this server.
func (s *Server) Restore(snap *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.drop()
	}
	now := time.Now()
	s.sessions = map[int64]*session{}
	for id, timeout := range snap.sessions {
		ss := &session{id: id, timeout: timeout}
		s.sessions[id] = ss
		s.touch(ss, now)
	}
	s.zxid = (s.zxid>>32 + 1) << 32
	s.leader.tree, s.leader.zxid = snap.tree.clone(), s.zxid
	if s.keepLog {
		s.log = append(snap.log, &txn{zxid: s.zxid, at: now}) // a copy: the snapshot keeps its own
	}
	s.scheduleContainerCheck(now)
	s.wakeBefore(s.nextContainerCheck)
}

// clone returns a copy that shares only what never changes.
func (t *tree) clone() *tree {
	other := &tree{
		nodes:      make(map[string]*node, len(t.nodes)),
		ephemerals: make(map[int64]map[string]struct{}, len(t.ephemerals)),
		reapable:   maps.Clone(t.reapable),
		acls:       aclCache{known: map[string]*knownACL{}},
	}
	for path, n := range t.nodes {
		c := *n
		c.children.byName, c.children.listing = maps.Clone(n.children.byName), nil
		if n.knownACL != nil {
			c.knownACL = other.acls.add(n.acl)
		}
		other.nodes[path] = &c
	}
	for id, paths := range t.ephemerals {
		other.ephemerals[id] = maps.Clone(paths)
	}
	other.acls.given = t.acls.given // these are not new
	return other
}
