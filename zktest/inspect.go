package zktest

import (
	"maps"
	"slices"
)

// Children returns the names of a znode's children, sorted; nil if there are
// none, or no such znode. It is what the server has applied by now, and no
// request.
func (s *Server) Children(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.leader.tree.node(path)
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children))
}
