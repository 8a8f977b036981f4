package zktest

import (
	"fmt"
	"strings"
	"time"
)

// fourLetterWord returns the reply to a four-letter word, or false if word is
// not one that the server knows. There are enough of them for probes and
// monitoring: ruok, srvr, stat, mntr, isro, and envi, from which kazoo reads the
// version.
func (s *Server) fourLetterWord(word string) (reply string, ok bool) {
	switch word {
	case "ruok":
		return "imok", true
	case "isro":
		return "rw", true
	case "envi":
		return "Environment:\nzookeeper.version=" + version + "\n", true
	case "mntr":
		return s.monitorReport(), true
	case "srvr", "stat":
		return s.statReport(word == "stat"), true
	}
	return "", false
}

// monitorReport returns the reply to mntr.
func (s *Server) monitorReport() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	watches, ephemerals := 0, 0
	for c := range s.conns {
		for _, n := range c.watched {
			watches += n
		}
	}
	for _, paths := range s.leader.tree.ephemerals {
		ephemerals += len(paths)
	}
	requests := s.requestTotal()
	var b strings.Builder
	for _, line := range []struct {
		name  string
		value any
	}{
		{"zk_version", version},
		{"zk_server_state", "standalone"},
		{"zk_uptime", time.Since(s.started).Milliseconds()},
		{"zk_avg_latency", "0.0"},
		{"zk_max_latency", 0},
		{"zk_min_latency", 0},
		{"zk_packets_received", requests},
		{"zk_packets_sent", requests},
		{"zk_num_alive_connections", len(s.conns)},
		{"zk_outstanding_requests", 0},
		{"zk_znode_count", len(s.leader.tree.nodes)},
		{"zk_watch_count", watches},
		{"zk_ephemerals_count", ephemerals},
		{"zk_approximate_data_size", s.leader.tree.size()},
		{"zk_global_sessions", len(s.sessions)},
		{"zk_local_sessions", 0},
	} {
		fmt.Fprintf(&b, "%s\t%v\n", line.name, line.value)
	}
	return b.String()
}

// statReport returns the reply to srvr, or to stat, which has a list of clients
// too. The list is always empty.
func (s *Server) statReport(withClients bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requestTotal()
	var b strings.Builder
	fmt.Fprintf(&b, "Zookeeper version: %s\n", version)
	if withClients {
		b.WriteString("Clients:\n\n")
	}
	fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\n",
		requests, requests, len(s.conns))
	fmt.Fprintf(&b, "Zxid: 0x%x\nMode: standalone\nNode count: %d\n", s.zxid, len(s.leader.tree.nodes))
	return b.String()
}

// version is the version of ZooKeeper whose behaviour the server emulates.
const version = "3.8.4-zktest, built on 02/12/2024 22:16 UTC"

// requestTotal returns the number of requests of all operations. The caller
// holds mu.
func (s *Server) requestTotal() (n int) {
	for _, count := range s.counts.Requests {
		n += count
	}
	return n
}

func (t *tree) size() (bytes int) {
	for path, n := range t.nodes {
		bytes += len(path) + len(n.data)
	}
	return bytes
}
