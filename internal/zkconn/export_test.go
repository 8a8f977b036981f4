package zkconn

// What the tests beside this package see of its inside.

// Watching returns how many watches the session has that have not fired.
func (s *Session) Watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches) + len(s.predecessors)
}

func (s *Session) DeleteTogether(on uint64, paths []string, absent map[string]bool) {
	s.deleteTogether(on, paths, absent)
}
