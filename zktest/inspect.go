package zktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Children returns the sorted names of a znode's children. It returns nil if
// there are no children or no such znode. It reads the server's current state
// and does not count as a request.
func (s *Server) Children(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.leader.tree.node(path)
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children.byName))
}

// ACLs returns how many distinct ACLs the znodes have now, as a real server counts them
// (ReferenceCountedACLCache.size). It does not count the open ACL of the root, /zookeeper
// and /zookeeper/quota, unless a client has set it there or on another znode.
// Counts.NewACLs tells how many became known since the start.
func (s *Server) ACLs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.leader.tree.acls.known)
}

// Tree returns the znodes and sessions as text, for the messages of failing
// tests. The format may change. The root and /zookeeper are left out.
func (s *Server) Tree() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "zxid 0x%x\n", s.zxid)
	for _, path := range slices.Sorted(maps.Keys(s.leader.tree.nodes)) {
		if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
			continue
		}
		n := s.leader.tree.nodes[path]
		fmt.Fprintf(&b, "%s %s version=%d created=%d czxid=0x%x mzxid=0x%x pzxid=0x%x",
			path, formatData(n.data), n.version, n.creates, n.czxid, n.mzxid, n.pzxid)
		if n.owner != 0 {
			fmt.Fprintf(&b, " ephemeral=0x%x", n.owner)
		}
		if n.container {
			b.WriteString(" container")
		}
		for _, a := range n.acl {
			if a != openACL[0] {
				fmt.Fprintf(&b, " %s:%s=%05b", a.Scheme, a.ID, a.Perms)
			}
		}
		b.WriteByte('\n')
	}
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		ss := s.sessions[id]
		fmt.Fprintf(&b, "session 0x%x timeout=%v connected=%v\n", id, ss.timeout, ss.conn != nil)
	}
	return b.String()
}

// firstLines returns the first lines of text, and how many it left out.
func firstLines(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	if len(all) <= lines {
		return text
	}
	return strings.Join(all[:lines], "") + fmt.Sprintf("... and %d more lines\n", len(all)-lines)
}

// formatData returns data in a form that fits on a line.
func formatData(data []byte) string {
	const most = 64
	switch {
	case data == nil:
		return "null"
	case len(data) > most:
		return fmt.Sprintf("%s... (%d bytes)", formatData(data[:most]), len(data))
	case utf8.Valid(data):
		return fmt.Sprintf("%q", data)
	}
	return fmt.Sprintf("%x", data)
}
